"""Contracts: a policy is served what it was trained with, or nothing."""

import json
import pickle

import numpy as np
import pytest
from bags import MS, image, joints
from replays import replay

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
from contracts import ARM, check, record

import robocache
from robocache.contract import Contract, ContractError

CONFIG = f"""\
rate_hz: 50
streams:
{ARM}    lag_ms: 20
  wrist:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    image: {{resize: {{width: 16, height: 12, filter: torch_bilinear_antialias, fit: pad_center}}}}
"""
#: huggingface/lerobot#2980: one flag of a resize differed.
OTHER_FILTER = CONFIG.replace("torch_bilinear_antialias", "torch_bilinear")
OTHER_FIT = CONFIG.replace("pad_center", "pad_top_left")
FILTER = (
    "wrist.encoder.resizes[0].filter: the policy was trained with torch_bilinear_antialias (bilinear interpolate "
    "of torch 2, with antialias), and torch_bilinear (bilinear interpolate of torch 2, without antialias) would be "
    "served"
)
FIT = "wrist.encoder.resizes[0].fit: the policy was trained with pad_center, and pad_top_left would be served"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder with robot.yaml, and with the store of a recording."""
    folder = tmp_path_factory.mktemp("contract")

    def messages(k, ns):
        picture = image(ns, np.full((24, 32, 3), k, np.uint8))
        return [("/joints", ns, joints(ns, a=k / 10, b=-k / 10)), ("/camera", ns, picture)]

    record(folder, CONFIG, messages)
    return folder


def test_another_resize_than_in_the_training_is_refused(store, tmp_path):
    """huggingface/lerobot#2980, from the recording to the serving of the policy."""
    cache = robocache.EpisodeCache.load(store / "data" / "rows.zarr")
    robocache.contract.save(tmp_path, cache)
    said, warned = check(store / "robot.yaml", "--contract", tmp_path)
    assert said.startswith(f"contract    kept: {tmp_path}\nsegment ") and not warned
    for text, sentence in ((OTHER_FILTER, FILTER), (OTHER_FIT, FIT)):
        served = tmp_path / "served.yaml"
        served.write_text(text)
        said, refused = check(served, "--contract", tmp_path, code=1)
        assert not said and refused == f"{served}: {sentence}\n"
        told = json.loads(check(served, "--contract", tmp_path, "--json", code=1)[0])
        key = sentence.split(":")[0]
        assert told["differences"] == [{"key": key, "kind": "values", "sentence": sentence}]
        trained = robocache.contract.load(tmp_path)
        with pytest.raises(ContractError, match="would not be served") as raised:
            trained.expect(robocache.contract.of(text), "robot.yaml")
        assert raised.value.differences == [sentence]
        assert str(raised.value).startswith("robot.yaml: ") and sentence in str(raised.value)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def sentences(differences):
    return [str(difference) for difference in differences]


#: Other ages, and another message type.
ELSEWHERE = CONFIG.replace("max_age_ms: 100", "max_age_ms: 90").replace(
    "sensor_msgs/Image", "sensor_msgs/CompressedImage"
)


def test_another_validity_is_a_warning_and_another_transport_is_said(tmp_path, caplog):
    trained, served = robocache.contract.of(CONFIG), robocache.contract.of(ELSEWHERE)
    found = trained.differences(served)
    assert [(each.kind, each.key) for each in found] == [
        ("validity", "wrist.max_age_ns"),
        ("transport", "wrist.inputs[0].codec"),
        ("transport", "wrist.inputs[0].type"),
    ]
    with caplog.at_level("INFO"), pytest.warns(RuntimeWarning, match=r"100 ms, and 90 ms"):
        trained.expect(served, "robot.yaml")
    assert [record.getMessage() for record in caplog.records] == [
        f"robot.yaml: transport: {each}" for each in found[1:]
    ]
    trained.save(tmp_path)
    (tmp_path / "served.yaml").write_text(ELSEWHERE)
    said, refused = check(tmp_path / "served.yaml", "--contract", tmp_path)
    lines = [f"{each.kind:<12}{each}" for each in found]
    assert said.splitlines()[:5] == [f"contract    kept: {tmp_path}", *lines, said.splitlines()[4]]
    assert said.splitlines()[4].startswith("segment ") and not refused


def test_a_named_difference_is_accepted_beside_the_checkpoint(tmp_path):
    key = "wrist.encoder.resizes[0].filter"
    about = {"columns": {"action": 1}}
    robocache.contract.save(tmp_path, CONFIG)
    file = tmp_path / "robocache.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **about}))
    served = tmp_path / "served.yaml"
    served.write_text(OTHER_FILTER)
    with pytest.raises(ValueError, match=rf"accept: expected one of the differences {key[:5]}"):
        robocache.contract.accept(tmp_path, served, "wrist.filter")
    _, refused = check(served, "--contract", tmp_path, "--accept", "arm.lag", code=1)
    assert "accept: expected one of the differences" in refused and "found arm.lag" in refused
    said, refused = check(served, "--contract", tmp_path, "--accept", key)
    assert said.splitlines()[1] == f"accepted    {FILTER}" and not refused
    # It is written: who serves the policy accepts it, and nothing else.
    trained = robocache.contract.load(tmp_path)
    trained.expect(robocache.contract.of(OTHER_FILTER))
    third = CONFIG.replace("torch_bilinear_antialias", "cv2_area")
    for other in (third, OTHER_FIT):
        with pytest.raises(ContractError):
            trained.expect(robocache.contract.of(other))
    assert json.loads(file.read_text())["columns"] == about["columns"]
    robocache.contract.accept(tmp_path, third, key)
    robocache.contract.load(tmp_path).expect(robocache.contract.of(third))
    _, refused = check(served, "--accept", key, code=2)
    assert "--contract" in refused


def test_everything_has_the_contract_of_its_configuration(store, tmp_path):
    made = robocache.contract.of(CONFIG)
    cache = robocache.EpisodeCache.load(store / "data" / "rows.zarr")
    cache.save(tmp_path / "cache")
    saved = robocache.EpisodeCache.load(tmp_path / "cache")
    pipeline = robocache.Pipeline(CONFIG, backend="cpu")
    one = robocache.EpisodeCache.load(store / "data" / "rows.zarr", ["arm"])
    folders = [store / "data" / "rows.zarr", tmp_path / "cache"]
    found = [
        robocache.contract.of(store / "robot.yaml"),
        cache.contract(),
        cache.plan().contract(),
        saved.contract(),
        pipeline.contract(),
        *map(robocache.contract.load, folders),
        *(robocache.contract.save(tmp_path, each) for each in (*folders, store / "robot.yaml")),
    ]
    assert robocache.contract.load(tmp_path) == made
    assert [each.digest for each in found] == [made.digest] * len(found)
    assert one.contract() == made.only("arm")
    told = json.loads(check(store / "robot.yaml", "--json")[0])
    assert Contract(json.dumps(told["contract"])) == made
    assert told["contract_digest"] == made.digest
    for folder in folders:
        check(store / "robot.yaml", "--contract", folder)
    assert made.streams == ["arm", "wrist"] and made.value["rate_hz"] == 50
    assert pickle.loads(pickle.dumps(made)) == made and len({made, *found}) == 1
    assert repr(made) == f"Contract({made.digest} of arm, wrist)"


def test_a_dataset_has_the_contract_of_its_observations(store, tmp_path):
    """What `to-lerobot` writes beside the frames, without LeRobot, which writes these."""
    from robocache.lerobot import writing as writing
    from robocache.lerobot.actions import Actions
    from robocache.lerobot.tensors import Tensors

    command = CONFIG.split("  wrist:")[0].split("streams:\n")[1].replace("arm:", "action:")
    (tmp_path / "robot.yaml").write_text(CONFIG + command)
    options = ["--format", "zarr", "--bf16", "f32"]
    replay(tmp_path / "robot.yaml", tmp_path / "data", store / "bag", options=options)
    tensors = Tensors(tmp_path / "data" / "tensors.zarr")
    about = writing.about_of(tensors, [], Actions(tensors, {"action": 0}))
    assert about["actions"] == {"action": {"lag_ns": 0}}
    (tmp_path / "set" / "meta").mkdir(parents=True)
    (tmp_path / "set" / writing.ABOUT).write_text(json.dumps({"format": writing.FORMAT, **about}))
    trained = robocache.contract.load(tmp_path / "set")
    assert trained == robocache.contract.of(CONFIG)  # an action is no input
    assert robocache.contract.load(tmp_path / "data" / "tensors.zarr").streams == [
        "action",
        "arm",
        "wrist",
    ]
    check(store / "robot.yaml", "--contract", tmp_path / "set")


def test_windows_of_a_training_have_a_contract_of_their_own(store):
    cache = robocache.EpisodeCache.load(store / "data" / "rows.zarr")
    seen = {"arm": {"history": {"steps": 3, "step_ms": 10}, "lag_ms": 40, "dtype": "f16"}}
    trained = cache.contract(seen)
    assert trained.streams == ["arm"]
    served = CONFIG.replace("steps: 2, step_ms: 20", "steps: 3, step_ms: 10")
    served = served.replace("lag_ms: 20", "lag_ms: 40\n    dtype: f16")
    assert trained.differences(robocache.contract.of(served)) == []
    assert sentences(trained.differences(robocache.contract.of(CONFIG))) == [
        "arm.dtype: the policy was trained with f16, and f32 would be served",
        "arm.shape: the policy was trained with [3, 2], and [2, 2] would be served",
        "arm.targets_ns: the policy was trained with [-60, -50, -40] ms, and [-40, -20] ms would be served",
    ]
    held = cache.contract({"arm": {"strategy": "hold", "max_age_ms": 30, "fill": "last"}})
    served = CONFIG.replace("max_age_ms: 50", "max_age_ms: 30\n    strategy: hold\n    fill: last")
    assert held.differences(robocache.contract.of(served)) == []


def test_a_constant_latency_is_a_lag(store):
    pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")
    from robocache.data import WindowDataset
    from robocache.training.sampler import WindowSampler

    cache = robocache.EpisodeCache.load(store / "data" / "rows.zarr")
    sampler = WindowSampler.of(cache, period_ns=20 * MS, batch_size=2)
    latency = {"arm": 10 * MS, "wrist": (0, 30 * MS)}
    trained = WindowDataset(cache, sampler, latency_ns=latency).contract()
    served = robocache.contract.of(CONFIG.replace("lag_ms: 20", "lag_ms: 30"))
    assert trained == served
    assert WindowDataset(cache, sampler).contract() == robocache.contract.of(CONFIG)
    assert WindowDataset(cache, sampler, latency_ns=latency).contract("arm") == served.only("arm")


def test_what_is_no_contract_is_an_error(store, tmp_path):
    with pytest.raises(ValueError, match="expected a contract"):
        robocache.contract.load(tmp_path)
    (tmp_path / "robocache.json").write_text("{}")
    with pytest.raises(ValueError, match="expected a contract"):
        robocache.contract.load(tmp_path)
    made = robocache.contract.of(CONFIG)
    made.save(tmp_path)
    text = (tmp_path / "robocache.json").read_text()
    (tmp_path / "robocache.json").write_text(text.replace("pad_center", "stretch"))
    with pytest.raises(ValueError, match="the file was changed"):
        robocache.contract.load(tmp_path)
    with pytest.raises(OSError, match="nowhere: expected a folder, found none"):
        made.save(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="expected one of the streams arm, wrist, found leg"):
        made.only("leg")
    with pytest.raises(ValueError, match="expected one of the streams arm, wrist, found none"):
        made.only()
    _, said = check(store / "robot.yaml", "--contract", tmp_path / "nowhere", code=1)
    assert "expected a contract" in said
    rows = {"rows": np.zeros((3, 2), np.float32), "stamp_ns": np.arange(3)}
    arrays = "contract: expected rows that a configuration made, found arrays: give the contract"
    with pytest.raises(ValueError, match=arrays):
        robocache.EpisodeCache.from_arrays({"arm": rows}, [3]).contract()


def test_a_checkpoint_of_lerobot_is_compared(store, tmp_path):
    feature = {"type": "VISUAL", "shape": [3, 12, 16]}
    config = {
        "type": "act",
        "n_obs_steps": 1,
        "input_features": {
            "observation.images.wrist": feature,
            "observation.state": {"type": "STATE", "shape": [2]},
        },
        "output_features": {"action": {"type": "ACTION", "shape": [2]}},
        "normalization_mapping": {"VISUAL": "MEAN_STD", "STATE": "MEAN_STD"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    served = tmp_path / "robot.yaml"
    served.write_text(CONFIG.replace("history: {steps: 2, step_ms: 20}", ""))
    said, refused = check(served, "--policy", tmp_path)
    assert "policy      act: takes what the configuration makes\n" in said and not refused
    assert (
        "unknown     the rate of the frames in the training; the configuration has 50 Hz\n" in said
    )
    config["input_features"]["observation.images.front"] = feature
    config["input_features"]["observation.state"]["shape"] = [7]
    (tmp_path / "config.json").write_text(json.dumps(config))
    _, refused = check(served, "--policy", tmp_path, code=1)
    assert refused.splitlines() == [
        f"{served}: observation.images.front: the policy takes this image, and no stream is called front; the images "
        "are wrist",
        f"{served}: observation.state: the policy takes 7 numbers, and the configuration makes 2: 2 arm",
    ]


#: A robot for the dataset of `dataset_files`: it is later, and its camera compresses.
ROBOT = """\
rate_hz: 5
lag_ms: 60
streams:
  state:
    type: sensor_msgs/JointState
    topic: /joint_states
    joints: [a, b, c]
    strategy: linear
    max_age_ms: 300
    dtype: f32
  top:
    type: sensor_msgs/CompressedImage
    topic: /camera
    max_age_ms: 300
    dtype: u8
    image: {resize: {width: 64, height: 48, fit: stretch}}
"""


def test_a_robot_serves_what_an_imported_dataset_trained(tmp_path):
    pytest.importorskip("google_crc32c")
    from dataset_files import RLDS_MAPPING, write_rlds

    (tmp_path / "mapping.yaml").write_text(RLDS_MAPPING)
    root = write_rlds(tmp_path / "dataset")
    mapping = str(tmp_path / "mapping.yaml")
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "data", mapping=mapping)
    trained = cache.contract({"state": {}, "top": {}})
    # The node serves bytes, also if the training has them as floats.
    assert cache.streams["top"]["dtype"] == "u8"
    for scaled in ({"scale": True}, {"scale": True, "dtype": "f16"}):
        assert cache.contract({"state": {}, "top": scaled}) == trained
    served = robocache.contract.of(ROBOT)
    found = {each.key: each.kind for each in trained.differences(served)}
    assert set(found.values()) == {"unknown"}
    assert {"state.lag_ns", "top.lag_ns", "top.inputs", "top.max_age_ns", "base_frame"} <= set(
        found
    )
    trained.expect(served)
    # Who states the lag is held to it.
    stated = cache.contract({"state": {"lag_ms": 40}, "top": {"lag_ms": 60}})
    with pytest.raises(ContractError) as raised:
        stated.expect(served)
    assert raised.value.differences == [
        "state.targets_ns: the policy was trained with [-40] ms, and [-60] ms would be served"
    ]
    # Also to a lag of 0.
    none = cache.contract({"state": {"lag_ms": 0}, "top": {"lag_ms": 60}})
    with pytest.raises(ContractError, match="state.targets_ns"):
        none.expect(served)
    # A store and a saved cache keep their contract, and say where to accept.
    cache.save(tmp_path / "saved")
    for place in (
        tmp_path / "data" / "rows.zarr",
        tmp_path / "saved",
        tmp_path / "saved" / "index.json",
    ):
        with pytest.raises(ValueError, match="expected the folder of a checkpoint: contract.save"):
            robocache.contract.accept(place, served, "state.targets_ns")
    assert robocache.EpisodeCache.load(tmp_path / "saved").contract() == cache.contract()
    other = robocache.contract.of(ROBOT.replace("[a, b, c]", "[b, a, c]"))
    with pytest.raises(ContractError, match="state.channels"):
        trained.expect(other)
