"""`robocache.lerobot.dataset`: items and batches are those of LeRobot's own dataset, and its trainer trains on them.

LeRobot is 0.4.4 or 0.6.1.
"""

import json
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import waiting
from pyarrow import parquet

pytest.importorskip("lerobot")
import torch  # noqa: E402
from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from lerobot.datasets.sampler import EpisodeAwareSampler  # noqa: E402
from lerobot.policies.act.configuration_act import ACTConfig  # noqa: E402
from lerobot.policies.act.modeling_act import ACTPolicy  # noqa: E402
from lerobot.policies.factory import (  # noqa: E402
    dataset_to_policy_features,
    make_pre_post_processors,
)
from own_lerobot import encoded_by  # noqa: E402
from robots import picture  # noqa: E402

import robocache  # noqa: E402
from robocache.lerobot import dataset  # noqa: E402
from robocache.lerobot.store_stats import stats_of_cache  # noqa: E402

pytestmark = pytest.mark.timeout(600)
LENGTHS = (25, 14, 31)
FPS = 30
CAMERA, STATE = "observation.images.top", "observation.state"
#: Steps before, at and after the frame; one step of a video, which loses its axis, and one of a table, which keeps it.
STEPS = {
    "act": {"action": range(8)},
    "diffusion": {STATE: (-1, 0), CAMERA: (-1, 0), "action": range(-1, 15)},
    "one": {STATE: (0,), CAMERA: (0,), "action": (0,), "next.done": (0, 3), "index": (-2, 40)},
    "none": None,
}


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def features(dtype, size=(64, 96)):
    names = ["height", "width", "channels"]
    return {
        STATE: {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
        "action": {"dtype": "float32", "shape": (2,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "big": {"dtype": "int64", "shape": (2,), "names": None},
        "grid": {"dtype": "float32", "shape": (2, 3), "names": None},
        CAMERA: {"dtype": dtype, "shape": (*size, 3), "names": names},
    }


def write(root, codec, lengths=LENGTHS):
    """A dataset of LeRobot with a video, or with pictures in its table."""
    is_video = codec != "image"
    more = encoded_by(codec) if is_video else {}
    made = LeRobotDataset.create(
        "local/dataset", FPS, features("video" if is_video else "image"), root=root,
        use_videos=is_video, **more,
    )  # fmt: skip
    random = np.random.default_rng(4)
    for number, length in enumerate(lengths):
        for at in range(length):
            angle = number + at / 9
            frame = {
                STATE: np.array([np.sin(angle), np.cos(angle), number], np.float32),
                "action": np.array([np.sin(angle + 0.1), at / length], np.float32),
                "next.done": np.array([at == length - 1]),
                "next.reward": random.normal(size=1).astype(np.float32),
                # float32 would lose the last digits.
                "big": np.array([2**40 + at, -(2**25) - at]),
                "grid": random.normal(size=(2, 3)).astype(np.float32),
                CAMERA: picture(number + at / 10)[:64, :96],
            }
            made.add_frame({**frame, "task": f"task {number % 2}"})
        made.save_episode()
    made.finalize()
    return root


@pytest.fixture(name="root", scope="module", params=["libsvtav1", "image"])
def root_fixture(request, tmp_path_factory):
    return write(tmp_path_factory.mktemp("dialect") / "dataset", request.param)


def seconds(steps):
    return None if steps is None else {k: [at / FPS for at in of] for k, of in steps.items()}


def theirs(root, steps, **options):
    return LeRobotDataset(
        "local/dataset", root=root, delta_timestamps=seconds(steps), video_backend="pyav", **options
    )


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if torch.is_tensor(value):
            assert (found[key].dtype, found[key].shape) == (value.dtype, value.shape), key
            assert torch.equal(found[key], value), key
        else:
            assert found[key] == value, key


@pytest.mark.parametrize("steps", STEPS)
def test_twenty_batches_are_those_of_lerobot(root, steps):
    own, other = dataset(root, seconds(STEPS[steps])), theirs(root, STEPS[steps])
    assert len(own) == len(other) == sum(LENGTHS)
    order = np.random.default_rng(1).integers(0, len(own), 20 * 4).reshape(20, 4).tolist()
    loaders = [torch.utils.data.DataLoader(each, batch_sampler=order) for each in (own, other)]
    for found, expected in zip(*loaders, strict=True):
        assert_same(found, expected)
    for at in (0, 24, 25, len(own) - 1):
        assert_same(own[at], other[at])


def test_facts_are_those_of_lerobot(root):
    own, other = dataset(root), theirs(root, None)
    for name in ("fps", "num_frames", "num_episodes", "features", "episodes"):
        assert getattr(own, name) == getattr(other, name), name
    names = "fps robot_type features camera_keys video_keys image_keys shapes names total_episodes"
    for name in (*names.split(), "total_frames", "total_tasks"):
        assert getattr(own.meta, name) == getattr(other.meta, name), name
    for key in ("dataset_from_index", "dataset_to_index", "length", "tasks", "episode_index"):
        assert list(own.meta.episodes[key]) == list(other.meta.episodes[key]), key
    assert [own.meta.tasks[n] for n in range(2)] == list(other.meta.tasks.index)
    assert own.meta.stats.keys() == other.meta.stats.keys()
    for key, stats in other.meta.stats.items():
        assert own.meta.stats[key].keys() == stats.keys()
        for name, value in stats.items():
            assert np.array_equal(own.meta.stats[key][name], value)


def test_chosen_episodes_are_those_of_lerobot(root):
    steps = STEPS["diffusion"]
    own = dataset(root, seconds(steps), episodes=[2, 0])
    other = theirs(root, steps, episodes=[0, 2])
    assert len(own) == len(other) == 56 and own.num_episodes == 2
    for at in (0, 24, 25, 55):
        assert_same(own[at], other[at])
    assert own.absolute_to_relative_idx[39] == 25
    with pytest.raises(ValueError, match="expected numbers of episodes, 0 to 2, found 7"):
        dataset(root, episodes=[7])


def test_the_sampler_of_lerobot_finds_the_frames_of_chosen_episodes(root):
    steps = STEPS["diffusion"]
    own, other = (
        dataset(root, seconds(steps), episodes=[0, 2]),
        theirs(root, steps, episodes=[0, 2]),
    )
    if not hasattr(other, "absolute_to_relative_idx"):
        pytest.skip("this LeRobot's EpisodeAwareSampler knows no chosen episodes")
    orders = [
        EpisodeAwareSampler(
            of.meta.episodes["dataset_from_index"],
            of.meta.episodes["dataset_to_index"],
            episode_indices_to_use=of.episodes,
            drop_n_last_frames=2,
            shuffle=True,
            absolute_to_relative_idx=of.absolute_to_relative_idx,
        )
        for of in (own, other)
    ]
    items = list(orders[0])
    assert items == list(orders[1]) and sorted(items)[-1] == 53
    for at in items[::9]:
        assert_same(own[at], other[at])


@pytest.mark.parametrize("asked", [{"share": (0, 2)}, {"share": (1, 2)}, {"split": "most"}])
def test_a_share_and_a_split_have_their_own_frames(root, tmp_path, asked):
    """The folder of rows has all episodes, whichever are chosen."""
    shutil.copytree(root, tmp_path / "dataset")
    info = json.loads((tmp_path / "dataset/meta/info.json").read_text())
    info["splits"]["most"] = "1:3"
    (tmp_path / "dataset/meta/info.json").write_text(json.dumps(info))
    numbers = {(0, 2): [0, 2], (1, 2): [1], None: [1, 2]}[asked.get("share")]
    steps = STEPS["diffusion"]
    own = dataset(tmp_path / "dataset", seconds(steps), **asked)
    other = theirs(root, steps, episodes=numbers)
    assert own.episodes == numbers and len(own) == len(other)
    for at in (0, len(other) // 2, len(other) - 1):
        assert_same(own[at], other[at])
    batch = next(iter(own.batches(4, shuffle=False)))
    assert batch["index"].tolist() == [int(other[at]["index"]) for at in range(4)]
    assert dataset(tmp_path / "dataset").num_episodes == 3


def test_image_transforms_see_what_those_of_lerobot_see(root):
    seen = []

    def halved(image):
        seen.append((image.dtype, image.shape))
        return image[..., ::2, ::2]

    steps = STEPS["diffusion"]
    pair = [
        dataset(root, seconds(steps), image_transforms=halved),
        theirs(root, steps, image_transforms=halved),
    ]
    assert_same(*(each[7] for each in pair))
    assert seen[0] == seen[1]
    batch = next(iter(pair[0].batches(5, shuffle=False)))
    assert batch[CAMERA].shape == (5, 2, 3, 32, 48)


def test_batches_are_the_items_in_an_order_of_their_own(root):
    own = dataset(root, seconds(STEPS["one"]))
    data = own.batches(7, seed=3, drop_last=False)
    loaded = [
        list(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers))
        for workers in (0, 2)
    ]
    seen = []
    for alone, worked in zip(*loaded, strict=True):
        assert_same(worked, alone)
        places = list(
            zip(alone["episode_index"].tolist(), alone["frame_index"].tolist(), strict=True)
        )
        numbers = [np.cumsum((0, *LENGTHS))[episode] + frame for episode, frame in places]
        items = [own[number] for number in numbers]
        expected = torch.utils.data.default_collate(items)
        assert_same({key: alone[key] for key in expected}, expected)
        seen += numbers
    assert len(loaded[0]) == 10 and sorted(seen) == list(range(sum(LENGTHS)))
    state = data.state_after(loaded[0][3])
    data.resume(state)
    goes_on = next(iter(torch.utils.data.DataLoader(data, batch_size=None)))
    assert_same(goes_on, loaded[0][4])


def test_steps_between_frames_are_an_error(root):
    with pytest.raises(ValueError, match=r"expected multiples of 1/30 s, found 0.02 s"):
        dataset(root, {"action": [0, 0.02]})
    with pytest.raises(ValueError, match="expected keys of .*, found 'actions'"):
        dataset(root, {"actions": [0]})


def test_uneven_frames_are_an_error(root, tmp_path):
    shutil.copytree(root, tmp_path / "uneven")
    (path,) = (tmp_path / "uneven/data").rglob("*.parquet")
    table = parquet.read_table(path)
    at = table.schema.get_field_index("timestamp")
    times = table["timestamp"].to_numpy().copy()
    times[20:25] += 0.01
    table = table.set_column(at, table.schema.field(at), pa.array(times))
    parquet.write_table(table, path)
    with pytest.raises(ValueError, match=r"episode_000000: expected frames each 33333333 ns"):
        dataset(tmp_path / "uneven", tolerance_s=1)


#: A small network without weights of a hub.
ACT = (
    "chunk_size=8 n_action_steps=8 dim_model=32 n_heads=2 dim_feedforward=32 latent_dim=8 "
    "n_encoder_layers=1 n_vae_encoder_layers=1"
)


def train(root, out, *module, steps, log_freq=1, policy="act", options=ACT):
    """The losses of a run of the trainer, one for each logged step."""
    command = [sys.executable, "-m", *module]
    command += ["--dataset.repo_id=local/dataset", f"--dataset.root={root}"]
    command += ["--dataset.video_backend=pyav", f"--policy.type={policy}", "--policy.device=cpu"]
    command += ["--policy.pretrained_backbone_weights=null", "--policy.push_to_hub=false"]
    command += [f"--policy.{option}" for option in options.split()]
    command += ["--batch_size=4", f"--steps={steps}", "--num_workers=0", f"--log_freq={log_freq}"]
    command += ["--save_checkpoint=false", "--seed=7", f"--output_dir={out}"]
    run = waiting.run(command, timeout=500)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said[-4000:]
    return said, [float(loss) for loss in re.findall(r"\bloss:(\S+)", said)]


OURS, OWN = "robocache.lerobot.train", "lerobot.scripts.lerobot_train"


@pytest.mark.parametrize("root", ["libsvtav1"], indirect=True)
def test_the_trainer_has_the_losses_of_lerobot(root, tmp_path):
    """The same seed, so the same order: and the items are the same, bit for bit."""
    said, ours = train(root, tmp_path / "ours", OURS, steps=12)
    assert "robocache: Dataset(70 frames of 3 episodes at 30 Hz" in said
    _, expected = train(root, tmp_path / "theirs", OWN, steps=12)
    assert len(ours) == 12 and ours == expected
    # The policy learns: without steps of the optimizer only the first loss is the same.
    still = f"{ACT} optimizer_lr=0 optimizer_lr_backbone=0"
    _, unlearned = train(root, tmp_path / "still", OURS, steps=12, options=still)
    assert unlearned[0] == ours[0] and unlearned != ours


@pytest.mark.parametrize("root", ["libsvtav1"], indirect=True)
def test_diffusion_trains_on_it(root, tmp_path):
    options = "down_dims=[16,32] crop_shape=null"
    _, losses = train(root, tmp_path / "run", OURS, steps=4, policy="diffusion", options=options)
    assert len(losses) == 4 and np.isfinite(losses).all()


def test_rows_of_bags_are_what_the_export_has(tmp_path):
    """A store instead of a dataset: the items of `to-lerobot`, without the export."""
    import robots

    from robocache import replay_to
    from robocache.lerobot import to_lerobot

    robots.record(tmp_path / "bags" / "pick", seconds=2.0)
    (tmp_path / "robot.yaml").write_text(robots.CONFIG)
    to_lerobot([tmp_path / "bags"], tmp_path / "robot.yaml", tmp_path / "dataset", images=True)
    replay_to([tmp_path / "bags"], tmp_path / "robot.yaml", tmp_path / "data", format="rows")
    steps = {"action": [at / robots.RATE_HZ for at in range(3)]}
    steps[STATE] = [at / robots.RATE_HZ for at in (-1, 0, 1)]
    own = dataset(tmp_path / "data/rows.zarr", steps)
    other = LeRobotDataset("local/dataset", root=tmp_path / "dataset", delta_timestamps=steps)
    assert (own.fps, own.meta.names["action"]) == (other.fps, other.meta.names["action"])
    first = int(other[0]["stamp_ns"])
    spans = own._source.sampler.spans()
    ahead = (first - int(spans.first_ns[0])) // robots.PERIOD
    for at in range(4, len(other) - 4):
        item, expected = own[at + ahead], other[at]
        for key in ("action", "action_is_pad", STATE, "observation.images.image_left", "task"):
            assert_same({key: item[key]}, {key: expected[key]})
        assert not item[f"{STATE}_is_pad"].any()
    # The node has older rows, and holds the newest; the episode has them not.
    for at in (0, -1):
        pads = own[range(len(own))[at]][f"{STATE}_is_pad"]
        assert torch.equal(pads, other[range(len(other))[at]][f"{STATE}_is_pad"])
    for key in (STATE, "action"):
        np.testing.assert_allclose(own.meta.stats[key]["max"], other.meta.stats[key]["max"], atol=1)


def test_relative_actions_have_statistics_of_their_own(root):
    relative = {"action": {"relative": True, "reference": STATE}}
    with pytest.raises(ValueError, match="reference of 'action': expected channels of a.position"):
        dataset(root, {"action": [0]}, rows=relative)
    with pytest.raises(ValueError, match="expected keys of one stream, .*, found 'act'"):
        dataset(root, rows={"act": {}})
    own = dataset(
        root, seconds(STEPS["act"]), rows={STATE: {"relative": ["a"], "reference": STATE}}
    )
    item = own[9]
    assert item[STATE][0] == 0 and item[STATE][1] == theirs(root, None)[9][STATE][1]
    stats = own.meta.stats
    assert stats[STATE]["max"][0] == 0 and stats["action"]["max"].shape == (2,)


@pytest.mark.parametrize("names", [("action", STATE), (STATE, "action")])
def test_statistics_are_of_the_items_that_come_out(names):
    """The state is normalised itself, and the action is relative to it."""
    random, period = np.random.default_rng(5), 100_000_000
    streams = {
        name: {
            "rows": random.normal(size=(40, 2)).astype(np.float32),
            "stamp_ns": np.arange(40) * period,
            "channels": ["a", "b"],
        }
        for name in ("state", "action")
    }
    cache = robocache.EpisodeCache.from_arrays(streams, [40], rate_hz=10)
    stats = {"mean": [7.0, 8.0], "std": [2.0, 3.0]}
    of_key = {
        STATE: {"normalize": {"mode": "mean_std", "stats": stats}},
        "action": {"relative": True, "reference": STATE},
    }
    keys = {STATE: "state", "action": "action"}
    own = dataset(
        cache,
        {"action": [0, 0.1]},
        keys={name: keys[name] for name in names},
        rows={name: of_key[name] for name in names},
    )
    items = [own[at] for at in range(len(own))]
    action = torch.cat([item["action"][~item["action_is_pad"]] for item in items]).numpy()
    np.testing.assert_allclose(own.meta.stats["action"]["mean"], action.mean(0), atol=1e-5)


def test_images_of_a_gpu_have_statistics():
    """Its windows are tensors."""
    images = torch.arange(4 * 2 * 2 * 3, dtype=torch.uint8).reshape(4, 2, 2, 3)
    about = {"vector": None, "dtype": "u8", "row_shape": [3, 2, 2], "channels": ["r", "g", "b"]}
    stamps = {"rows": np.zeros((4, 1), np.float32), "stamp_ns": np.arange(4) * 100_000_000}
    frames = robocache.EpisodeCache.from_arrays({"top": stamps}, [4], rate_hz=10)

    def windows(episodes, instants, config, epochs):
        array = images.movedim(-1, 1)[torch.from_numpy(instants // 100_000_000)][:, None]
        valid = torch.ones(len(instants), 1, dtype=torch.bool)
        return {"top": SimpleNamespace(array=array, valid=valid)}

    cache = SimpleNamespace(
        streams={"top": about}, episodes=frames.episodes, share=None, period_ns=100_000_000,
        windows=windows, reach=frames.reach,
    )  # fmt: skip
    found = stats_of_cache(cache, {"observation.images.top": ("top",)})["observation.images.top"]
    assert found["max"].reshape(-1).tolist() == pytest.approx([45 / 255, 46 / 255, 47 / 255])


def losses_of(data, delta_timestamps):
    """A loop around LeRobot's policy, its processors and torch's DataLoader."""
    torch.manual_seed(0)
    features = dataset_to_policy_features(data.meta.features)
    outputs = {"action": features.pop("action")}
    config = ACTConfig(
        input_features={STATE: features[STATE], CAMERA: features[CAMERA]}, output_features=outputs,
        device="cpu", pretrained_backbone_weights=None, chunk_size=8, n_action_steps=8, dim_model=32,
        n_heads=2, dim_feedforward=32, latent_dim=8, n_encoder_layers=1, n_vae_encoder_layers=1,
    )  # fmt: skip
    assert [at / FPS for at in config.action_delta_indices] == delta_timestamps["action"]
    policy = ACTPolicy(config).train()
    preprocess, _ = make_pre_post_processors(config, dataset_stats=data.meta.stats)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4)
    losses = []
    for batch in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        loss, _ = policy(preprocess(batch))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def test_a_loop_of_ones_own_has_the_losses_of_lerobot(root):
    steps = seconds(STEPS["act"])
    ours, expected = (
        losses_of(dataset(root, steps), steps),
        losses_of(theirs(root, STEPS["act"]), steps),
    )
    assert len(ours) == 5 and ours == expected


def test_spawned_workers_have_the_items(root):
    own = dataset(
        root, seconds(STEPS["one"]), rows={STATE: {"relative": ["a"], "reference": STATE}}
    )
    options = {"batch_size": 16, "num_workers": 1, "multiprocessing_context": "spawn"}
    for found, expected in zip(
        torch.utils.data.DataLoader(own, **options),
        torch.utils.data.DataLoader(own, batch_size=16),
        strict=True,
    ):
        assert_same(found, expected)
