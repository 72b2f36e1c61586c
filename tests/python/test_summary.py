"""What a run over many episodes says: what several have in common is one line."""

import json

from robocache._summary import Findings, why_without


def summary(name, **more):
    inputs = {
        "arm[0] /left": {"topic": "/left", "received": 0, "dropped": {}},
        "arm[1] /right": {"topic": "/right", "received": 9, "dropped": {"missing_field": 9}},
        "camera /eye": {"topic": "/eye", "received": 5, "dropped": {}},
    }
    streams = {
        "arm": {"steps": 10, "invalid": {"no_row": 10}},
        "camera": {"steps": 10, "invalid": {"too_old": 1, "no_row": 2}},
        "still": {"steps": 10, "invalid": {}},
    }
    return {"name": name, "missing": ["/left"], "inputs": inputs, "streams": streams, **more}


def test_lines_name_the_episodes():
    findings = Findings.of(
        [summary("one", problems=["one.mcap: damaged"], more_problems=2), summary("two")], "bag"
    )
    findings.add("two", "3 of 10 ticks are left out")
    lines = findings.lines()
    assert lines == [
        "/left: not in the bag, so its stream has no row from it; `remap` gives a topic another name (2 episodes: one, two)",
        "arm[1] /right: 9 of 9 messages dropped: missing_field (2 episodes: one, two)",
        "one: one.mcap: damaged",
        "one: and 2 more problems of this bag",
        "two: 3 of 10 ticks are left out",
        "arm: 0.0 % of 20 steps valid",
        "camera: 70.0 % of 20 steps valid",
    ]
    # Those of shares together say the same.
    shares = [Findings.of([summary(name)], "bag") for name in ("one", "two")]
    joined = Findings()
    for share in shares:
        joined.join(json.loads(json.dumps(share.value)))
    assert joined.lines() == Findings.of([summary("one"), summary("two")], "bag").lines()


def test_many_episodes_are_few_lines():
    findings = Findings()
    for number in range(100):
        findings.add(f"e{number}", "the same")
        findings.add(f"e{number}", f"{number} of 100 ticks are left out")
    lines = findings.lines()
    assert lines[0] == "the same (100 episodes: e0, e1, e2, e3, e4, ...)"
    assert len(lines) == 22 and lines[-1] == "and 80 more lines like these"


def test_why_a_stream_has_no_value():
    of = summary("one")
    why = "/left has no message in the bag; /right: 9 of 9 messages dropped: missing_field"
    assert why_without(of, "arm", "bag") == why
    assert why_without(of, "camera", "bag") == "too_old 1, no_row 2"
