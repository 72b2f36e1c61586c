"""`robocache replay --format zarr | rows`, run again: what is kept, what is made, and what a broken run leaves."""

import fcntl
import json
import os
import resource
import shutil
import signal

import pytest
import zarr
from arm_robot import (  # noqa: F401
    CONFIG,
    ROWS,
    ZARR,
    bags_fixture,
    config_fixture,
    episodes_fixture,
)
from replays import files, replay, run
from same_files import expect_same


@pytest.mark.parametrize("store", ["tensors.zarr", "rows.zarr"])
def test_bytes_depend_neither_on_jobs_nor_on_interruptions(config, bags, tmp_path, store):
    options = ZARR if store == "tensors.zarr" else ROWS
    one, many, broken = tmp_path / "one", tmp_path / "many", tmp_path / "broken"
    replay(config, one, *bags, options=[*options, "--jobs", 1])
    replay(config, many, *bags, options=[*options, "--jobs", 3])
    expected = files(one / store)
    assert len(expect_same(many / store, expected)) > 30

    inode = (one / store / "zarr.json").stat().st_ino
    outcomes = replay(config, one, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    assert (one / store / "zarr.json").stat().st_ino == inode

    # The first run has a bad episode: the others are there, and are kept for the next one.
    bad = tmp_path / "robot1.mcap"
    bad.write_bytes(b"no bag at all" * 10)
    given = [bags[0], bad, bags[2]]
    outcomes = replay(config, broken, *given, expect=1, options=options)
    assert [outcome for outcome, _ in outcomes] == ["done", "failed", "done"]
    about = zarr.open_group(broken / store, mode="r").attrs["robocache"]
    assert [episode["name"] for episode in about["episodes"]] == ["robot0", "robot2"]
    outcomes = replay(config, broken, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    expect_same(broken / store, expected)
    assert {p.name for p in broken.iterdir()} == {store, "replay.json"}

    # Another configuration makes all again, if that is asked for.
    config.write_text(CONFIG.replace("max_age_ms: 50", "max_age_ms: 40"))
    said = replay(config, one, *bags, options=options, expect=1)
    assert f"{store}: expected a result of this configuration" in said and "--replace" in said
    assert (one / store / "zarr.json").stat().st_ino == inode
    outcomes = replay(config, one, *bags, options=[*options, "--replace"])
    assert [outcome for outcome, _ in outcomes] == ["done"] * 3
    text = zarr.open_group(one / store, mode="r").attrs["robocache"]["configuration"]
    assert "max_age_ms: 40" in text
    # Another type of its elements is another result too.
    said = replay(config, one, *bags, options=[*options, "--bf16=f32"], expect=1)
    assert "--replace" in said


def test_a_store_never_replaces_what_this_run_does_not_have(config, bags, tmp_path):
    out = tmp_path / "out"
    replay(config, out, *bags[:2], options=ROWS)
    before = files(out / "rows.zarr")
    said = replay(config, out, bags[2], expect=1, options=ROWS)
    assert "has the episode 'robot0' of " in said
    expect_same(out / "rows.zarr", before)
    # More episodes are no loss.
    replay(config, out, *bags, options=ROWS)
    shutil.copytree(out / "rows.zarr", tmp_path / "other/rows.zarr")
    said = replay(config, tmp_path / "other", *bags, expect=1, options=ROWS)
    assert "is no result of an earlier run" in said


@pytest.mark.parametrize("options", [ZARR, ROWS])
def test_a_full_disk_is_an_error_and_leaves_no_store(config, bags, tmp_path, options):
    def limit(size):
        def before():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return before

    out = tmp_path / "out"
    outcomes = replay(config, out, *bags, expect=1, options=options, preexec_fn=limit(100_000))
    assert {outcome for outcome, _ in outcomes} == {"failed"}
    assert all("File too large" in failure["error"] for _, failure in outcomes)
    assert [p for p in out.rglob("*") if p.is_file()] == []
    if options is ROWS:  # the largest files of its store are those of its parts
        return
    # The parts fit, and the store does not.
    replay(config, tmp_path / "whole", *bags, options=options)
    largest = max(len(content) for content in files(tmp_path / "whole").values())
    outcomes, said = run(config, out, *bags, options=options, preexec_fn=limit(largest - 1))
    # The command still reports the outcome of each episode.
    assert {outcome for outcome, _ in outcomes} == {"done"} and "no new store" in said
    assert "File too large" in said
    assert not list(out.glob("*.zarr")) and not list(out.glob("*.partial"))
    outcomes = replay(config, out, *bags, options=options)
    assert {outcome for outcome, _ in outcomes} == {"kept"}


def test_a_store_keeps_an_episode_that_fails_later(config, bags, tmp_path):
    own = [shutil.copytree(bag, tmp_path / f"own/{bag.name}") for bag in bags[:2]]
    out = tmp_path / "out"
    replay(config, out, *own, options=ROWS)
    before = files(out / "rows.zarr")
    for file in own[0].iterdir():
        file.write_bytes(b"")
    outcomes, said = run(config, out, *own, bags[2], options=ROWS)
    assert [outcome for outcome, _ in outcomes] == ["failed", "kept", "done"]
    assert "no new store" in said and "has the episode 'robot0' of " in said
    expect_same(out / "rows.zarr", before)
    # Another bag of the same name is not that episode.
    other = shutil.copytree(bags[1], tmp_path / "other/robot0")
    said = replay(config, out, other, own[1], expect=1, options=ROWS)
    assert "has the episode 'robot0' of " in said
    expect_same(out / "rows.zarr", before)


def test_a_store_whose_replacement_was_interrupted_is_there(config, bags, tmp_path):
    """At each step of the replacement: the ledger says which store it is, and nothing is made again."""
    out, other = tmp_path / "out", tmp_path / "other"
    replay(config, out, *bags[:2], options=ROWS)
    before, ledger = out / "rows.zarr", json.loads((out / "replay.json").read_text())
    replay(config, other, *bags, options=ROWS)
    expected, newer = files(other / "rows.zarr"), json.loads((other / "replay.json").read_text())
    ledger["coming"] = newer["stores"]
    saved = shutil.copytree(before, tmp_path / "saved")
    for step in ("announced", "without a name", "with its name"):
        shutil.rmtree(out)
        out.mkdir()
        # The third episode is a part until the store is complete.
        ledger["episodes"] = newer["episodes"] if step == "with its name" else ledger["episodes"]
        (out / "replay.json").write_text(json.dumps(ledger))
        if step == "announced":
            shutil.copytree(saved, before)
        else:
            shutil.copytree(saved, out / "rows.zarr.old")
        if step == "with its name":
            shutil.copytree(other / "rows.zarr", before)
        outcomes = replay(config, out, *bags, options=ROWS)
        third = "kept" if step == "with its name" else "done"
        assert [outcome for outcome, _ in outcomes] == ["kept", "kept", third], step
        expect_same(before, expected)
        assert sorted(path.name for path in out.iterdir()) == ["replay.json", "rows.zarr"]


@pytest.mark.parametrize("options", [ZARR, ROWS])
def test_an_episode_that_is_in_the_store_is_not_replayed_again(config, bags, tmp_path, options):
    out, fresh = tmp_path / "out", tmp_path / "fresh"
    store = "tensors.zarr" if options == ZARR else "rows.zarr"
    replay(config, out, bags[0], bags[2], options=options)
    # One more in the middle, and then another order.
    outcomes = replay(config, out, *bags, options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    replay(config, fresh, *bags, options=options)
    expect_same(out / store, fresh / store)
    outcomes = replay(config, out, *bags[::-1], options=options)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    replay(config, tmp_path / "back", *bags[::-1], options=options)
    expect_same(out / store, tmp_path / "back" / store)
    assert {p.name for p in out.iterdir()} == {store, "replay.json"}


def test_a_journal_counts_up_to_where_it_was_broken_off(config, bags, tmp_path):
    out = tmp_path / "out"
    replay(config, out, bags[0])
    ledger = json.loads((out / "replay.json").read_text())
    entry = ledger["episodes"].pop("robot0.mcap")
    line = json.dumps({"Added": {"result": "robot0.mcap", "entry": entry}})
    (out / "replay.json").write_text(json.dumps(ledger))
    # What was broken off does not spoil what follows it.
    (out / "replay.json.journal").write_text(f"\n{line[:50]}\n{line}\n\n{line[:70]}")
    ((outcome, _),) = replay(config, out, bags[0])
    assert outcome == "kept"
    assert sorted(path.name for path in out.iterdir()) == ["replay.json", "robot0.mcap"]
    for text in ("{}", '{"version": "0.1", "episodes": {"robot0": 1}}', '{"format": 9}', "no JSON"):
        (out / "replay.json").write_text(text)
        said = replay(config, out, bags[0], expect=1)
        assert "another version of robocache wrote it" in said


@pytest.mark.parametrize(
    "format_before", ["format 1;", "format 3 of parts 1;", "format 2 of parts 2;"]
)
def test_what_has_an_older_format_is_made_again(config, bags, tmp_path, format_before):
    out = tmp_path / "out"
    replay(config, out, bags[0], options=ROWS)
    expected, ledger = files(out / "rows.zarr"), out / "replay.json"
    now = "format 5 of parts 3;"
    assert ledger.read_text().count(now) == 2
    ledger.write_text(ledger.read_text().replace(now, format_before))
    ((outcome, _),) = replay(config, out, bags[0], options=ROWS)
    assert outcome == "done"
    expect_same(out / "rows.zarr", expected)
    assert ledger.read_text().count(now) == 2 and format_before not in ledger.read_text()


def test_open_files_do_not_grow_with_arrays_and_jobs(config, bags, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    copies = [shutil.copytree(bags[k % 3], tmp_path / f"many/{k}") for k in range(12)]
    options = [*ZARR, "--jobs", 12]
    outcomes = replay(config, tmp_path / "out", *copies, options=options, preexec_fn=limit)
    assert [outcome for outcome, _ in outcomes] == ["done"] * 12


def place_of_damage(part, damage):
    """A file of a part, and a byte of it: of the list, or of the first row of a column."""
    if damage == "part.json":
        return part / damage, 60
    listed = json.loads((part / "part.json").read_bytes()[17:])
    paths = [column["path"] for column in listed["tables"][0]["columns"]]
    number = paths.index(damage)
    stream = listed["content"][0]["streams"][number]
    # A large row is in a shard.
    return (
        (part / f"0.{number}.0", 5) if stream is None else (part / "data", stream["blocks"][0][0])
    )


@pytest.mark.parametrize("damage", ["data/arm", "data/camera", "part.json", "gone"])
def test_a_damaged_part_never_gets_into_a_store(config, bags, tmp_path, damage):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, largest - 1))

    replay(config, tmp_path / "whole", *bags, options=ZARR)
    expected = files(tmp_path / "whole/tensors.zarr")
    largest, out = max(map(len, expected.values())), tmp_path / "out"
    # The parts fit on the disk, and the store does not.
    run(config, out, *bags, options=ZARR, preexec_fn=limit)
    part = out / "tensors.zarr.parts/robot1"
    if damage == "gone":
        (part / "data").unlink()
    else:
        file, at = place_of_damage(part, damage)
        content = bytearray(file.read_bytes())
        content[at] ^= 4
        file.write_bytes(content)
    outcomes, said = run(config, out, *bags, options=ZARR)
    assert [outcome for outcome, _ in outcomes] == ["kept"] * 3
    assert "no new store" in said and "give the same command again" in said and "robot1" in said
    assert ("No such file" if damage == "gone" else "damaged") in said
    assert not list(out.glob("*.zarr"))
    outcomes = replay(config, out, *bags, options=ZARR)
    assert [outcome for outcome, _ in outcomes] == ["kept", "done", "kept"]
    expect_same(out / "tensors.zarr", expected)


def test_one_run_at_a_time_writes_into_a_folder(config, bags, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    held = os.open(out, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    said = replay(config, out, bags[0], expect=1)
    assert "another run writes into it" in said
    os.close(held)
    replay(config, out, bags[0])


def test_the_numbers_of_an_episode_are_in_json(config, bags, tmp_path):
    replay(config, tmp_path / "out", bags[0], options=ZARR)
    ledger = json.loads((tmp_path / "out/replay.json").read_text())
    assert list(ledger["episodes"]) == ["tensors.zarr.parts/robot0"]
    assert [stored["name"] for stored in ledger["stores"]["tensors.zarr"]["episodes"]] == ["robot0"]
