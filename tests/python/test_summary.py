"""What a run over many episodes says: what several have in common is one line."""

import json

from robocache.node import replay_command
from robocache.node.summary import Findings, why_without


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


def test_a_remapped_topic_is_not_blamed():
    """`missing` has the name in the bag; an input has the name in the configuration."""
    of = {**summary("one"), "missing": ["/gripper"]}
    why = "/left got no message; not in the bag: /gripper; /right: 9 of 9 messages dropped: missing_field"
    assert why_without(of, "arm", "bag") == why


def test_messages_that_wait_are_told():
    numbers = {"topic": "/pose", "received": 50, "dropped": {}, "waiting": 48}
    numbers["parts_dropped"] = {"no_transform": 3}
    streams = {"pose": {"steps": 10, "invalid": {"no_row": 10}}}
    of = {"name": "one", "missing": [], "inputs": {"pose /pose": numbers}, "streams": streams}
    waiting = "48 of 50 messages still wait for a transform"
    parts = "3 parts of messages dropped: no_transform"
    assert Findings.of([of], "bag", has_steps=False).lines() == [
        f"one: pose /pose: {waiting}",
        f"one: pose /pose: {parts}",
    ]
    assert why_without(of, "pose", "bag") == f"/pose: {waiting}; /pose: {parts}"


def test_frames_of_a_dataset_without_a_value_are_told():
    def numbers(topic, received):
        return {"topic": topic, "received": received, "dropped": {}}

    inputs = {
        "state /state": numbers("/state", 20),
        "top /top": numbers("/top", 0),
        "wrist /wrist": numbers("/wrist", 17),
        "other /other": numbers("/other", 0),
    }
    of = {"name": "one", "missing": ["/other"], "inputs": inputs, "streams": {}}
    assert Findings.of([of], "dataset").lines()[1:] == [
        "one: top /top: no frame has a value",
        "one: wrist /wrist: 3 of 20 frames have no value",
    ]
    assert Findings.of([of], "bag").lines()[1:] == ["one: top /top: no message"]


def test_failures_with_other_causes_have_their_own_lines():
    def outcomes(*errors):
        return [
            {"failed": {"name": f"episode_{at:06d}", "error": error}}
            for at, error in enumerate(errors)
        ]

    alike = outcomes(*(f"/data/episode_{at:06d}.parquet: damaged, record {at}" for at in range(5)))
    (line,) = replay_command.failures(alike)
    assert "4 more failed for the same reason: episode_000001 to episode_000004" in line
    differ = outcomes(*(f"cam{at % 2} broken" for at in range(8)))
    lines = replay_command.failures(differ)
    assert len(lines) == 2 and "cam0 broken; 3 more" in lines[0] and "cam1" in lines[1]
    assert replay_command.failed(differ) == 8
