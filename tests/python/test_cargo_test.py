"""scripts/cargo_test.py on a cargo that prints what a real one has printed."""

import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))

import cargo_test  # noqa: E402 (the path comes first)
import flaky  # noqa: E402

#: Of a cargo 1.95, for the panics of a test.
OUTPUT = """\
   Compiling robocache_testing v0.1.0 (/src/robocache/crates/testing)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.69s
     Running unittests src/lib.rs ({binary})

running 2 tests
test tests::good ... ok
test tests::late ... FAILED

failures:

---- tests::late stdout ----
{panics}

failures:
    tests::late

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s

error: test failed, to rerun pass `-p robocache_testing --lib`
   Doc-tests robocache_testing

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: 1 target failed:
    `-p robocache_testing --lib`
"""
PANIC = """
thread 'tests::late' (1288) panicked at src/lib.rs:8:25:
{message}
stack backtrace:
   0: __rustc::rust_begin_unwind
note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.
"""
LATE = (
    "NotInTime: the tick: waited 90.0 s [began={began} ended={ended} patience=90 "
    "got_ns={got} asked_ns={asked} stolen_ns={stolen}]"
)
TEST = "crates/testing/src/lib.rs::tests::late"


def late(got_s, asked_s, stolen_s=0, began=None):
    """The panic of a wait of 90 s, in which the processes got a part of the time that they asked for."""
    began = time.monotonic() - 90 if began is None else began
    given = {"got": got_s, "asked": asked_s, "stolen": stolen_s}
    times = {name: int(seconds * 1e9) for name, seconds in given.items()}
    return PANIC.format(message=LATE.format(began=began, ended=began + 90, **times))


SHORT_OF_TIME = late(got_s=5, asked_s=60)


@pytest.fixture
def cargo(tmp_path, monkeypatch, capfdbinary):
    """A function that lets cargo_test.py judge a printed output. It returns the exit code and what it says itself."""
    monkeypatch.setattr(flaky, "LIST", tmp_path / "flaky.toml")
    monkeypatch.delenv("ROBOCACHE_VERDICTS", raising=False)
    flaky.LIST.write_text("")
    binary = tmp_path / "robocache_testing-5bdbc3de7ba7b03b"

    def judge(
        panics, code=101, alone="test result: ok. 1 passed;", alone_code=0, output=OUTPUT, before=""
    ):
        """`alone` is what the program prints when it runs again."""
        binary.write_text(
            f"#!/bin/sh\necho $PWD $CARGO_MANIFEST_DIR $* >>'{tmp_path}/calls'\necho '{alone}'\nexit {alone_code}\n"
        )
        binary.chmod(0o755)
        text = tmp_path / "output"
        text.write_text(output.format(binary=binary, panics=panics))
        fake = tmp_path / "fake_cargo"
        fake.write_text(
            f"#!/bin/sh\necho $* >'{tmp_path}/arguments'\n{before}\ncat '{text}'\nexit {code}\n"
        )
        fake.chmod(0o755)
        result = cargo_test.main([str(fake), "test", "--locked", "--", "--test-threads=2"])
        printed = capfdbinary.readouterr().out.decode()
        assert text.read_text() in printed
        return result, printed.replace(text.read_text(), "")

    judge.calls = tmp_path / "calls"
    judge.arguments = tmp_path / "arguments"
    return judge


def test_a_run_without_failures_is_green(cargo):
    assert cargo("", code=0) == (0, "")
    assert cargo.arguments.read_text() == "test --locked --no-fail-fast -- --test-threads=2\n"


def test_a_test_that_the_machine_kept_from_its_time_is_flaky_if_it_passes_alone(cargo):
    code, said = cargo(SHORT_OF_TIME)
    assert code == 0
    folder = REPOSITORY / "crates" / "testing"
    call = f"{folder} {folder} --exact tests::late --test-threads=1\n"
    assert cargo.calls.read_text() == 3 * call
    assert f"FLAKY {TEST}: not in 90 s: the tick (" in said
    assert "got 5.0 s of the 60.0 s of processor time" in said and "alone 3 of 3 passed (" in said
    assert f'[[flaky]]\n  test = "{TEST}"' in said


def test_a_pause_of_the_machine_and_stolen_time_are_evidence_too(cargo):
    began = time.monotonic() - 90
    pause = f"echo {began + 10} {began + 45} >>$ROBOCACHE_WITNESS"
    code, said = cargo(late(got_s=0.1, asked_s=0.1, began=began), before=pause)
    assert code == 0 and "the machine paused for 35.0 s (longest 35.00 s)" in said
    code, said = cargo(late(got_s=0.1, asked_s=0.1, stolen_s=40))
    assert code == 0 and "40.0 s were stolen" in said


@pytest.mark.parametrize("got_s, asked_s", [(59, 60), (0.1, 0.1)])
def test_a_test_that_was_not_in_time_without_evidence_is_wrong(cargo, got_s, asked_s):
    code, said = cargo(late(got_s, asked_s))
    assert code == 101 and "and the machine is not to blame" in said
    assert not cargo.calls.exists()


def test_another_panic_is_wrong_and_never_tried_again(cargo):
    wrong = PANIC.format(message="assertion `left == right` failed")
    for panics in (
        wrong,
        SHORT_OF_TIME + wrong,
        'Error: "e"',
        "note: test did not panic as expected",
    ):
        code, said = cargo(panics)
        assert code == 101 and f"WRONG {TEST}\n" in said
    assert not cargo.calls.exists()


def test_a_panic_of_a_thread_counts_once(cargo):
    scope = PANIC.format(message="a scoped thread panicked")
    assert cargo(SHORT_OF_TIME + scope)[0] == 0
    assert cargo(scope)[0] == 101


def test_a_test_that_fails_alone_as_well_is_wrong(cargo):
    code, said = cargo(SHORT_OF_TIME, alone="it failed", alone_code=101)
    assert code == 101 and "it fails alone as well, round 1:\nit failed" in said
    # A program that runs no test has shown nothing.
    assert cargo(SHORT_OF_TIME, alone="test result: ok. 0 passed;")[0] == 101


def test_a_test_that_was_flaky_before_is_red(cargo):
    flaky.LIST.write_text(f'[[flaky]]\ntest = "{TEST}"\nsince = 2026-11-28\ncause = "a race"\n')
    code, said = cargo(SHORT_OF_TIME)
    assert code == 101 and "it was flaky before, since 2026-11-28: a race" in said


def test_the_phases_of_a_run_share_their_bound(cargo, tmp_path, monkeypatch):
    monkeypatch.setenv("ROBOCACHE_VERDICTS", str(tmp_path / "verdicts"))
    (tmp_path / "verdicts").mkdir()
    (tmp_path / "verdicts" / "flaky").write_text("tests/ros/a.py::x\n")
    assert cargo(SHORT_OF_TIME)[0] == 0
    (tmp_path / "verdicts" / "flaky").write_text("tests/ros/a.py::x\ntests/ros/a.py::y\n")
    code, said = cargo(SHORT_OF_TIME)
    assert code == 101 and "red: 3 flaky tests in this run" in said


def test_failures_beside_tests_are_wrong(cargo):
    ended = "\nCaused by:\n  process didn't exit successfully: `x` (signal: 6, SIGABRT: process abort signal)\n"
    outputs = [
        "error[E0308]: mismatched types\nerror: could not compile `robocache_core`\n",
        OUTPUT.replace("\n   Doc-tests", ended + "   Doc-tests"),
        OUTPUT.replace("1 target failed", "2 targets failed"),
        OUTPUT.replace("error: 1 target failed", "error: unexpected"),
    ]
    for output in outputs:
        code, said = cargo(SHORT_OF_TIME, output=output)
        assert code == 101 and "WRONG: more than tests failed" in said
    assert cargo(SHORT_OF_TIME, code=1)[0] == 1
    assert not cargo.calls.exists()


def test_a_test_in_a_comment_is_never_tried_again(cargo):
    output = OUTPUT.replace(
        "     Running unittests src/lib.rs ({binary})", "   Doc-tests robocache_tools", 1
    )
    assert cargo(SHORT_OF_TIME, output=output)[0] == 101
    assert not cargo.calls.exists()
