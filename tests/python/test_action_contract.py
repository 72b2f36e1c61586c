"""What a policy answers, from the windows of its training to the chunks that it sends."""

import itertools
import json
import os

import numpy as np
import pytest
from bags import MS, T0, joints

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
from contracts import ARM, check, record

import robocache
from robocache.contract import Contract
from robocache.message.chunk import ChunkForm
from robocache.message.tensor import FusedTensor, Segment
from robocache.shared import ActionWriter

#: The lag of the file is that of what is seen, and never that of actions.
CONFIG = f"""\
rate_hz: 50
lag_ms: 20
streams:
{ARM}    operators: [{{normalize: {{mode: mean_std, mean: [1, 2], std: [0.5, 4]}}}}]
  action: {{type: sensor_msgs/JointState, topic: /action, joints: [a, b], max_age_ms: 50}}
"""
CHUNK = {"arm": {}, "action": {"horizon": {"steps": 10}}}
COMMANDS = """\
commands:
  rate_hz: 250
  groups:
    arm:
      joints: [a, b]
      start_from: arm
      watchdog_ms: 500
      limits: none
      on_stall: hold
      on_end: hold
      output: {topic: /commands, type: sensor_msgs/JointState}
"""
RELATIVE = {"action": {"relative": ["b"], "reference": "arm"}}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    def messages(k, ns):
        return [(topic, ns, joints(ns, a=k / 10, b=-k)) for topic in ("/joints", "/action")]

    return robocache.EpisodeCache.load(record(tmp_path_factory.mktemp("actions"), CONFIG, messages))


@pytest.fixture
def service():
    return f"robocache_test/actions/{os.getpid()}/{next(_numbers)}"


def tensor(arm, valid=(True, True), dtype="f32"):
    """A tensor with these steps of the arm."""
    steps = np.zeros(len(valid), np.int64)
    array = np.asarray(arm, np.float16 if dtype == "f16" else np.float32)
    counts = steps.astype(np.uint32)
    segment = Segment("arm", dtype, array, np.array(valid), steps, steps, counts, counts)
    return FusedTensor(7, 0, "base_link", {"arm": segment}, np.zeros(8, np.uint8))


def test_windows_of_actions_are_in_the_contract_and_not_among_what_is_seen(cache):
    made = cache.contract(CHUNK, actions="action")
    rows = [k * 20 * MS for k in range(10)]
    expected = {"action": {"names": ["a.position", "b.position"], "offsets_ns": rows}}
    assert made.value["actions"] == expected and made.value["format"] == 3
    assert made.streams == ["arm"]
    assert cache.plan(CHUNK).contract(actions=["action"]) == made
    assert "actions" not in cache.contract(CHUNK).value
    seen = cache.contract({"arm": {}})
    assert made.value["streams"] == seen.value["streams"] and made.digest != seen.digest
    assert made.only("arm") == made
    relative = cache.contract(CHUNK, actions=RELATIVE).value["actions"]["action"]
    assert relative == {**expected["action"], "relative": ["b.position"], "reference": "arm"}


def test_the_lag_is_that_of_the_windows(cache):
    def offsets_ms(action):
        made = cache.contract({"arm": {}, "action": action}, actions="action")
        return [ns / MS for ns in made.value["actions"]["action"]["offsets_ns"]]

    past = {"history": {"steps": 2}, "horizon": {"steps": 3}}
    assert offsets_ms({**past, "label": True}) == [-20, 0, 20, 40]
    assert offsets_ms({"horizon": {"steps": 2, "step_ms": 5}, "lag_ms": 3}) == [-3, 2]
    assert offsets_ms({"offsets_ns": [0, 7 * MS], "label": True}) == [0, 7]
    for config in ({"arm": {}, "action": past}, {"arm": {}, "action": {}}, None):
        with pytest.raises(ValueError, match="found windows with the lag of the configuration"):
            cache.contract(config, actions="action")
    uneven = {"history": {"steps": 2, "step_ms": 10}, "horizon": {"steps": 3}, "label": True}
    with pytest.raises(ValueError, match=r"rows at round\(k \* step\).*found row 2 at 20000000 ns"):
        offsets_ms(uneven)


def test_a_latency_of_actions_is_in_their_offsets(cache):
    pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
    from robocache.data import WindowDataset
    from robocache.training.sampler import WindowSampler

    sampler = WindowSampler.of(cache, period_ns=20 * MS, batch_size=2)

    def contract(latency):
        dataset = WindowDataset(cache, sampler, CHUNK, latency_ns={"action": latency})
        return dataset.contract("arm", actions="action")

    assert contract(0) == cache.contract(CHUNK, actions="action")
    assert contract(3 * MS).value["actions"]["action"]["offsets_ns"][:2] == [-3 * MS, 17 * MS]
    with pytest.raises(ValueError, match="latency_ns of 'action': expected one number for actions"):
        contract((0, MS))


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("lidar", "actions: expected streams of the windows, arm, action, found lidar"),
        ({"action": {"relatives": []}}, "actions: expected names of streams, or a dict by stream"),
        ([3], "actions: expected names of streams"),
        (
            {"action": {"relative": "b", "reference": "arm"}},
            "relative of 'action': expected a list",
        ),
        ({"action": {"relative": ["b"]}}, "found one without the other"),
        ({"action": {"relative": ["c"], "reference": "arm"}}, "found c"),
        ({"action": {"relative": ["b"], "reference": "action"}}, "expected one of the streams arm"),
        (["action", "arm"], "expected one of the streams action, arm, found none"),
    ],
)
def test_actions_that_no_command_can_follow_are_errors(cache, actions, message):
    with pytest.raises(ValueError, match=message):
        cache.contract(CHUNK, actions=actions)


def test_a_configuration_takes_its_rows_from_the_contract(cache, tmp_path):
    made = cache.contract(CHUNK, actions=RELATIVE)
    made.save(tmp_path)
    robot = tmp_path / "robot.yaml"
    robot.write_text(CONFIG + COMMANDS + "      contract: .\n")
    said, _ = check(robot, "--contract", tmp_path)
    assert "chunks    10 rows: tick - 0 ms to tick + 180 ms, 20 ms apart (.)" in said
    told = json.loads(check(robot, "--json")[0])
    (group,) = told["commands"]["groups"]
    assert group["contract"] == "." and group["offsets_ns"] == [k * 20 * MS for k in range(10)]
    assert [joint["relative"] for joint in group["joints"]] == [False, True]
    # The same in keys of its own.
    written = "      rows: {steps: 10, step_ms: 20}\n      relative: [b]\n"
    robot.write_text(CONFIG + COMMANDS + written)
    check(robot, "--contract", tmp_path)
    robot.write_text(CONFIG + COMMANDS + written.replace("step_ms: 20", "step_ms: 25"))
    key = "actions.action.offsets_ns"
    _, refused = check(robot, "--contract", tmp_path, code=1)
    sentence = (
        "the policy was trained with 20 ms, and 25 ms would be served as entry 1; 8 more differ"
    )
    assert refused == f"{robot}: {key}: {sentence}\n"
    robot.write_text(CONFIG + COMMANDS.replace("[a, b]", "[b, a]") + written)
    names = "actions.action.names"
    assert f"{robot}: {names}: " in check(robot, "--contract", tmp_path, code=1)[1]
    _, refused = check(robot, "--contract", tmp_path, "--accept", names, code=1)
    assert f"found {names}, which cannot be accepted" in refused
    robot.write_text(CONFIG + COMMANDS + written.replace("step_ms: 20", "step_ms: 25"))
    check(robot, "--contract", tmp_path, "--accept", key)
    check(robot, "--contract", tmp_path)
    robot.write_text(CONFIG + COMMANDS + written.replace("[b]", "[a]"))
    assert "actions.action.relative: " in check(robot, "--contract", tmp_path, code=1)[1]


def test_a_writer_has_joints_and_rows_of_the_contract(cache, service, tmp_path):
    made = cache.contract(CHUNK, actions="action")
    made.save(tmp_path)
    message = r"values: expected \[1 to 10, 2\].*each of a, b, found the shape \[11, 2\]"
    for given in (tmp_path, made):
        with ActionWriter(service, "arm", contract=given) as writer:
            with pytest.raises(ValueError, match=message):
                writer.send(tensor(np.zeros((2, 2))), np.zeros((11, 2)))
            # No node has said its contract.
            assert writer.send(tensor(np.zeros((2, 2))), np.zeros((10, 2))) == 0
            assert writer.unchecked == 1
    form = ChunkForm(["a", "b"], made.json)
    for rows in (1, 9, 10):
        sent, _ = form.rows_and_reference(tensor(np.zeros((2, 2))), np.zeros((rows, 2)), None)
        assert sent.shape == (rows, 2)
    with pytest.raises(ValueError, match="`action` with a.position, b.position, and not b, a"):
        ActionWriter(service, "arm", ["b", "a"], contract=made)
    with pytest.raises(ValueError, match="names: expected .*: the contract has no actions"):
        ActionWriter(service, "arm", contract=cache.contract({"arm": {}}))
    with pytest.raises(TypeError, match="names: expected the joints, or a contract"):
        ActionWriter(service, "arm")


def test_relative_rows_get_the_value_of_the_tensor_without_its_operators(cache, service):
    made = cache.contract(CHUNK, actions=RELATIVE)
    form = ChunkForm(None, made.json)
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    # The newest step is (x - 2) / 4 = 1. A joint whose rows are absolute has none.
    sent, reference = form.rows_and_reference(tensor([[9, 9], [5, 1]], (False, True)), rows, None)
    assert np.array_equal(sent, rows) and reference.tolist() == [0, 6]
    assert reference.dtype == np.float32
    given = form.rows_and_reference(tensor(np.zeros((2, 2))), rows, [1, 2])[1]
    assert given.tolist() == [1, 2]
    writer = ActionWriter(service, "arm", contract=made)
    wrong = {
        "expected a valid newest step of 'arm'": tensor(np.zeros((2, 2)), (True, False)),
        r"expected 'arm' of f32 \[2, 2\]": tensor(np.zeros((2, 2)), dtype="f16"),
        "to which rows are added, found Segment": tensor(np.zeros((2, 3))),
        "to which rows are added, found None": FusedTensor(7, 0, "", {}, np.zeros(8, np.uint8)),
        "reference: expected finite numbers": tensor(np.full((2, 2), np.nan)),
    }
    for message, of in wrong.items():
        with pytest.raises(ValueError, match=message):
            writer.send(of, rows)
    assert writer.send(tensor(np.zeros((2, 2))), rows) == 0 and writer.unchecked == 1


def test_a_reference_that_no_tensor_has_in_full_is_an_error_at_once(cache, service):
    made = cache.contract(CHUNK, actions=RELATIVE)

    def writer(change):
        value = made.value
        change(value["streams"]["arm"], value)
        return ActionWriter(service, "arm", contract=Contract(json.dumps(value)))

    def clamp(arm, _):
        arm["encoder"]["outputs"][1]["operators"].append({"clamp": {"low": -1, "high": 1}})

    def accept(_, value):
        value["accepted"] = {"arm.encoder.outputs[1].operators[0].affine.scale": 2}

    with pytest.raises(ValueError, match="expected a stream of dtype f32"):
        writer(lambda arm, _: arm.update(dtype="f16"))
    with pytest.raises(ValueError, match="operators that can be taken back"):
        writer(clamp)
    with pytest.raises(ValueError, match="expected a stream that is served as in the training"):
        writer(accept)
    with pytest.raises(ValueError, match="expected one of the streams other, found arm"):
        writer(lambda _, value: value.update(streams={"other": value["streams"]["arm"]}))
    writer(lambda *_: None).close()


def normalized(**more):
    stats = {"mean": [1, -1], "std": [2, 4]}
    return {"horizon": {"steps": 10}, "normalize": {"mode": "mean_std", "stats": stats}, **more}


def test_rows_that_windows_make_are_in_the_contract(cache):
    """What the windows made of actions is what a node takes back."""
    config = {"arm": {}, "action": normalized(relative=["b"], reference="arm")}
    made = cache.contract(config, actions="action")
    affine = [{"affine": {"shift": m, "scale": 1 / s, "offset": 0}} for m, s in ((1, 2), (-1, 4))]
    entry = made.value["actions"]["action"]
    assert entry["operators"] == [[each] for each in affine]
    assert (entry["relative"], entry["reference"]) == (["b.position"], "arm")
    with pytest.raises(ValueError, match="expected 'action' among them, because a node serves no"):
        cache.contract(config)
    with pytest.raises(
        ValueError, match="expected nothing of 'action', because its windows say it"
    ):
        cache.contract(config, actions=RELATIVE)
    ahead = cache.windows([0], [T0 + 200 * MS], config)
    plain = cache.windows([0], [T0 + 200 * MS], CHUNK)
    rows = (plain["action"].array[0] - [0, 0], ahead["action"].array[0])
    # The arm is normalised by the configuration, and its value before that counts.
    state = plain["arm"].array[0, -1, 1] * 4 + 2
    expected = (rows[0] - [0, state] - [1, -1]) / [2, 4]
    np.testing.assert_allclose(rows[1], expected, atol=1e-6)
    taken = ahead.plan.rows["action"].taken_back(rows[1], ahead["arm"].array[0, -1])
    np.testing.assert_allclose(taken, plain["action"].array[0], atol=1e-5)


def test_the_command_of_a_normalised_relative_row_is_the_action(cache, tmp_path):
    """A group with the contract has the operators and the relative joints of the windows."""
    config = {"arm": {}, "action": normalized(relative=["b"], reference="arm")}
    cache.contract(config, actions="action").save(tmp_path)
    text = CONFIG + COMMANDS.replace(
        "      start_from", f"      contract: {tmp_path}\n      start_from"
    )
    (tmp_path / "robot.yaml").write_text(text)
    group = robocache.contract.of(tmp_path / "robot.yaml").value["actions"]["arm"]
    trained = robocache.contract.load(tmp_path).value["actions"]["action"]
    for key in ("names", "operators", "relative", "reference", "offsets_ns"):
        assert group[key] == trained[key], key
    check(tmp_path / "robot.yaml", "--contract", tmp_path)


def test_no_command_follows_from_poses(cache):
    with pytest.raises(ValueError, match="expected x, y, z and qx, qy, qz, qw"):
        cache.contract({"arm": {}, "action": normalized(poses=[["a", "b"]])}, actions="action")
