"""The example that serves a policy of LeRobot: its observations, its chunks of actions, and what it refuses. No ROS."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("lerobot")
import robots  # noqa: E402 (what is missing is said first)
import torch  # noqa: E402
from lerobot.configs.types import FeatureType, PolicyFeature  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from lerobot.policies.act.configuration_act import ACTConfig  # noqa: E402
from lerobot.policies.act.modeling_act import ACTPolicy  # noqa: E402
from lerobot.policies.factory import make_pre_post_processors  # noqa: E402

import robocache  # noqa: E402
from robocache.lerobot import to_lerobot  # noqa: E402

sys.path.append(str(Path(__file__).resolve().parents[3] / "examples"))
import serve_lerobot  # noqa: E402

pytestmark = pytest.mark.timeout(600)
#: Actions of a chunk: one for each tick.
CHUNK = 4
STATE, IMAGE = "observation.state", "observation.images.image_left"
#: Two streams in one column, a gray image whose channel is last, and an arm and a gripper to command.
OTHER = """\
rate_hz: 20
lag_ms: 20
streams:
  arm:
    type: sensor_msgs/msg/JointState
    topic: /joints
    joints: [b, a]
    max_age_ms: 40
    history: {steps: 2, step_ms: 10}
  command:
    type: sensor_msgs/msg/JointState
    topic: /command
    joints: [a, g]
    max_age_ms: 100
    dtype: f16
  image_left:
    type: sensor_msgs/msg/Image
    topic: /camera
    max_age_ms: 200
    dtype: u8
    image: {resize: {width: 96, height: 64}, layout: hwc, color: mono}
  to_arm: {type: sensor_msgs/msg/JointState, topic: /command, joints: [a, b], max_age_ms: 100}
  to_gripper: {type: sensor_msgs/msg/JointState, topic: /command, joints: [g], max_age_ms: 100}
"""
CASES = {
    "chw": (robots.CONFIG, {}),
    "hwc": (OTHER, {"state": ["arm", "command"], "action": ["to_arm", "to_gripper"]}),
}


@pytest.fixture(scope="module", params=CASES)
def trained(request, tmp_path_factory):
    """A dataset, the tensors of its recording, and a checkpoint whose weights are random."""
    folder = tmp_path_factory.mktemp(request.param)
    text, streams = CASES[request.param]
    (folder / "robot.yaml").write_text(text)
    robots.record(folder / "bags" / "pick", seed=1)
    given = {"images": True, "keep_invalid": True, **streams}
    to_lerobot([folder / "bags"], folder / "robot.yaml", folder / "dataset", **given)
    played = robots.replay([folder / "bags"], folder / "robot.yaml", folder / "mcap")
    dataset = LeRobotDataset("local/dataset", root=folder / "dataset")
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    shape = dataset.meta.features[STATE]["shape"]
    config = ACTConfig(
        input_features={
            STATE: PolicyFeature(FeatureType.STATE, shape),
            IMAGE: PolicyFeature(FeatureType.VISUAL, (3, 64, 96)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (3,))},
        device="cpu", pretrained_backbone_weights=None, chunk_size=CHUNK + 1, n_action_steps=CHUNK,
        dim_model=32, n_heads=2, dim_feedforward=32, latent_dim=8, n_encoder_layers=1,
    )  # fmt: skip
    torch.manual_seed(1)
    ACTPolicy(config).save_pretrained(checkpoint)
    for processor in make_pre_post_processors(config, dataset_stats=dataset.meta.stats):
        processor.save_pretrained(checkpoint)
    shutil.copy(folder / "dataset" / "meta" / "robocache.json", checkpoint)
    tensors = robots.tensors(played / "pick.mcap")
    return SimpleNamespace(dataset=dataset, tensors=tensors, checkpoint=checkpoint, text=text)


def test_observations_are_those_of_lerobots_loader(trained):
    policy = serve_lerobot.Policy(trained.checkpoint)
    assert len(trained.dataset) == len(trained.tensors) > 30
    for item, tensor in zip(trained.dataset, trained.tensors, strict=True):
        batch = policy.observation(tensor)
        for key in (STATE, IMAGE):
            assert batch[key].shape == (1, *item[key].shape)
            assert batch[key].numpy().tobytes() == item[key].numpy().tobytes(), key
        columns = [f"valid.{name.replace('image', 'img')}" for name in policy.contract.streams]
        assert bool(policy.invalid(tensor)) != all(bool(item[column]) for column in columns)


def test_each_action_is_for_its_own_tick(trained):
    policy, tensors = serve_lerobot.Policy(trained.checkpoint), trained.tensors[5:]
    assert [name.removesuffix(".position") for name in policy.actions] == ["a", "b", "g"]
    # Of the ticks that are skipped, one is within a chunk, one is its last, and two would begin the next.
    acted = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 14, 15, 30]
    begins = [0, 0, 0, 0, 4, 4, 4, 8, 8, 8, 14, 14, 30]
    for at, begin in zip(acted, begins, strict=True):
        chunk = lerobots_chunk(trained, trained.dataset[5 + begin])
        assert policy.act(tensors[at]) == chunk[at - begin].tolist(), at
    # A simulator began again.
    assert policy.act(tensors[2]) == lerobots_chunk(trained, trained.dataset[7])[0].tolist()


class Seen:
    """A policy of LeRobot with a history of two observations, as Diffusion Policy keeps it: it notes the ticks in it."""

    def __init__(self):
        self.history, self.chunk, self.seen = [], [], []

    def reset(self):
        self.history, self.chunk = [], []

    def select_action(self, batch):
        tick = int(batch["tick"])
        self.history = [*(self.history or [tick]), tick][-2:]
        self.chunk = self.chunk or [list(self.history)] * CHUNK
        self.seen.append(list(self.history))
        return torch.tensor([self.chunk.pop()])


def test_a_history_has_the_ticks_that_were_one_tick_apart(trained, monkeypatch):
    """Diffusion Policy takes what it is given for the observation of the next tick, also when ticks were skipped."""
    policy = serve_lerobot.Policy(trained.checkpoint)
    policy.policy, policy.has_history = Seen(), True
    policy.before = policy.after = lambda value: value
    monkeypatch.setattr(policy, "observation", lambda tensor: {"tick": tensor.tick})
    tensors = {tensor.tick: tensor for tensor in trained.tensors}
    first = trained.tensors[5].tick
    for after in (0, 1, 2, 4, 5, 9):
        policy.act(tensors[first + after])
    seen = [[tick - first for tick in history] for history in policy.policy.seen]
    assert seen == [[0, 0], [0, 1], [1, 2], [4, 4], [4, 5], [9, 9]]


def test_policies_with_a_history_are_known_by_their_configuration(trained, monkeypatch):
    assert not serve_lerobot.Policy(trained.checkpoint).has_history
    config = serve_lerobot.PreTrainedConfig.from_pretrained(trained.checkpoint)
    monkeypatch.setattr(config, "n_obs_steps", 2)
    monkeypatch.setattr(serve_lerobot.PreTrainedConfig, "from_pretrained", lambda *_: config)
    kind = SimpleNamespace(from_pretrained=lambda *_, **__: Seen())
    monkeypatch.setattr(serve_lerobot, "get_policy_class", lambda _: kind)
    assert serve_lerobot.Policy(trained.checkpoint).has_history


def lerobots_chunk(trained, item):
    policy = ACTPolicy.from_pretrained(trained.checkpoint)
    before, after = make_pre_post_processors(policy.config, str(trained.checkpoint))
    kept = {key: item[key] for key in policy.config.input_features}
    return after(policy.predict_action_chunk(before(kept)))[0]


def test_what_the_policy_takes_must_be_that_of_the_training(trained):
    contract = serve_lerobot.Policy(trained.checkpoint).contract
    served = robocache.contract.of(trained.text)
    assert contract.differences(served) == [] and set(contract.streams) < set(served.streams)
    other = robocache.contract.of(trained.text.replace("lag_ms: 20", "lag_ms: 30"))
    with pytest.raises(robocache.ContractError, match=r"targets_ns: .*-30\] ms would be served"):
        contract.expect(other)
    other = robocache.contract.of(trained.text.replace("width: 96", "width: 48"))
    with pytest.raises(robocache.ContractError, match=r"image_left.*48"):
        contract.expect(other)


def test_a_checkpoint_without_the_file_of_its_dataset_is_refused(trained, tmp_path):
    checkpoint = shutil.copytree(trained.checkpoint, tmp_path / "checkpoint")
    file = checkpoint / "robocache.json"
    robocache.contract.of(trained.text).save(
        checkpoint
    )  # a contract alone does not say the columns
    with pytest.raises(ValueError, match=r"expected the column observation.*meta/robocache.json"):
        serve_lerobot.Policy(checkpoint)
    file.unlink()
    with pytest.raises(ValueError, match=r"expected the column observation.*meta/robocache.json"):
        serve_lerobot.Policy(checkpoint)
    about = json.loads((trained.checkpoint / "robocache.json").read_text())
    for actions, found in (
        (None, "expected the lag of the action .* found none: an older version"),
        (20_000_000, r"expected the action .* \(lag_ns 0\), found 20 ms before"),
    ):
        other = {**about, "actions": {}}
        if actions is not None:
            other["actions"] = {name: {"lag_ns": actions} for name in about["actions"]}
        file.write_text(json.dumps(other))
        with pytest.raises(ValueError, match=found):
            serve_lerobot.Policy(checkpoint)
    about["contract"]["rate_hz"] = 25
    file.write_text(json.dumps(about))
    with pytest.raises(ValueError, match="the file was changed"):
        serve_lerobot.Policy(checkpoint)


def test_the_dataset_says_which_streams_its_columns_have(trained):
    about = json.loads((trained.checkpoint / "robocache.json").read_text())
    for key, of in about["columns"].items():
        assert list(trained.dataset.meta.features[key]["names"] or []) == (of["names"] or [])
        rows = [
            np.concatenate(
                [tensor[name].float32()[step].ravel() for name, step in of["steps"].items()]
            )
            for tensor in trained.tensors[:1]
        ]
        # Actions are those of the tick, and not those that the node had then: test_lerobot_actions.py.
        if not key.startswith("observation.images.") and key != "action":
            assert np.array_equal(np.ravel(trained.dataset[0][key]), rows[0])
    assert set(about["actions"]) == set(about["columns"]["action"]["steps"])
