"""Judges tests that were not in time, where the machine was to blame, and that passed when they ran again alone.

Such a test is flaky. The run stays green, and prints the test and a line for `flaky.toml`. There are two bounds:

- A test that has an entry in `flaky.toml` and is flaky again is red. An entry leaves when its cause is mended.
- More than two flaky tests in a run are red. A run may have several phases: each adds its flaky tests to the file
  `flaky` in the folder that ROBOCACHE_VERDICTS names. Without that variable, a phase is a run.
"""

import datetime
import json
import os
from pathlib import Path

LIST = Path(__file__).with_name("flaky.toml")
#: Flaky tests that a run may have.
ALLOWED = 2
#: A test that was not in time passes this often alone, or it is red.
ROUNDS = 3


def entries(path=None):
    """The entries of `flaky.toml` by the name of the test.

    Raises ValueError if an entry lacks `test`, `cause` or `since`, a date, or if a test has two.
    """
    path = Path(path or LIST)
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib
    content, found = tomllib.loads(path.read_text()), {}
    listed = content.pop("flaky", [])
    if content or not isinstance(listed, list):
        raise ValueError(f"{path}: expected only entries [[flaky]]")
    for entry in listed:
        if not _is_entry(entry) or entry["test"] in found:
            raise ValueError(
                f"{path}: expected one entry per test, each with test, since (a date) and cause: {entry}"
            )
        found[entry["test"]] = entry
    return found


def _is_entry(entry):
    kinds = {"test": str, "since": datetime.date, "cause": str}
    return (
        isinstance(entry, dict)
        and set(entry) == set(kinds)
        and all(entry[key] and isinstance(entry[key], kind) for key, kind in kinds.items())
    )


def _so_far():
    folder = os.environ.get("ROBOCACHE_VERDICTS")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder) / "flaky"


def judge(tests, path=None):
    """Judges the flaky tests of a phase: a dictionary of the test's name to a text about it.

    Returns whether the run may be green, and the lines to print.
    """
    known, lines, ok = entries(path), [], True
    file = _so_far()
    before = file.read_text().splitlines() if file and file.exists() else []
    for test, text in tests.items():
        lines.append(f"FLAKY {test}: {text}")
        if test in known:
            ok = False
            lines.append(
                f"  red: it was flaky before, since {known[test]['since']}: {known[test]['cause']}"
            )
        else:
            lines.append(f"  for {LIST.parent.name}/{LIST.name}; write the cause:")
            lines.append(f"  [[flaky]]\n  test = {json.dumps(test)}")
            lines.append(f'  since = {datetime.date.today()}\n  cause = ""')
    count = len(set(before) | set(tests))
    if tests and count > ALLOWED:
        ok = False
        lines.append(f"red: {count} flaky tests in this run, and at most {ALLOWED} may be")
    if file and tests:
        with file.open("a") as known_so_far:
            known_so_far.writelines(f"{test}\n" for test in tests)
    return ok, lines
