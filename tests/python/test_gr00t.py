"""`robocache to-lerobot --layout gr00t`: what the loaders of Isaac-GR00T read is there, field by field.

The loaders were read at NVIDIA/Isaac-GR00T, `gr00t/data/dataset.py` (N1.5) and
`gr00t/data/dataset/lerobot_episode_loader.py` (N1.6); docs/lerobot.md has the fields.
"""

import json

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("av", "mcap", "pyarrow", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import av  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
import robots  # noqa: E402
from same_files import expect_same  # noqa: E402

from robocache import importing  # noqa: E402
from robocache.lerobot import join, to_lerobot  # noqa: E402
from robocache.lerobot.gr00t import modality  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*(are left out|steps valid):RuntimeWarning"),
]
IMAGE = "observation.images.image_left"
#: The first table of the layout `lerobot`.
FIRST = "lerobot/data/chunk-000/file-000.parquet"


@pytest.fixture(scope="module", name="made")
def made_fixture(tmp_path_factory):
    """A dataset of each layout, of the same bags."""
    folder = tmp_path_factory.mktemp("robot")
    robots.robot_of(folder)
    listed = [f"--episodes={folder / 'episodes.csv'}"]
    for layout in ("lerobot", "gr00t"):
        to_lerobot(
            [folder / "bags"],
            folder / "robot.yaml",
            folder / layout,
            codec="h264",
            layout=layout,
            min_frames=1,
            replay_options=listed,
        )
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_files_are_those_that_the_loader_reads(made):
    root = made / "gr00t"
    info = json.loads((root / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["chunks_size"]) == ("v2.1", 20, 1000)
    tasks = {line["task_index"]: line["task"] for line in lines(root / "meta/tasks.jsonl")}
    assert tasks == {0: "pick it", 1: "put it"}
    shape = info["features"][IMAGE]["shape"]
    names = info["features"][IMAGE]["names"]
    assert [shape[names.index(name)] for name in ("height", "width", "channels")] == [64, 96, 3]
    assert info["features"][IMAGE]["info"]["video.fps"] == 20
    episodes = lines(root / "meta/episodes.jsonl")
    assert [episode["episode_index"] for episode in episodes] == [0, 1, 2]
    for episode in episodes:
        place = {"episode_chunk": 0, "episode_index": episode["episode_index"]}
        rows = pq.read_table(root / info["data_path"].format(**place))
        assert len(rows) == episode["length"]
        assert rows["frame_index"].to_pylist() == list(range(len(rows)))
        expected = (np.arange(len(rows)) / 20).astype(np.float32)
        assert np.array_equal(rows["timestamp"].to_numpy(), expected)
        assert {tasks[at] for at in rows["task_index"].to_pylist()} == {episode["tasks"][0]}
        path = root / info["video_path"].format(video_key=IMAGE, **place)
        with av.open(str(path)) as file:
            times = [frame.time for frame in file.decode(video=0)]
        assert np.allclose(times, np.arange(len(rows)) / 20, atol=1e-4)


def test_the_parts_are_the_streams(made):
    found = json.loads((made / "gr00t/meta/modality.json").read_text())

    def part(key, end, start=0):
        return {"original_key": key, "start": start, "end": end, "dtype": "float32"}

    assert found["state"]["joints"] == part("observation.state", 2)
    assert found["action"] == {"action": part("action", 3)}
    assert found["video"] == {"image_left": {"original_key": IMAGE}}
    assert found["annotation"] == {"human.task_description": {"original_key": "task_index"}}
    info = json.loads((made / "gr00t/meta/info.json").read_text())
    stats = json.loads((made / "gr00t/meta/stats.json").read_text())
    for kind in ("state", "action"):
        for of in found[kind].values():
            column = stats[of["original_key"]]
            assert sorted(column) == ["max", "mean", "min", "q01", "q99", "std"]
            assert all(len(values) >= of["end"] for values in column.values())
            assert of["end"] <= info["features"][of["original_key"]]["shape"][0]
    floats = {key for key, each in info["features"].items() if "float" in each["dtype"]}
    assert floats <= set(stats) and IMAGE not in stats


def test_several_streams_in_a_column_are_several_parts():
    vector = {"dtype": "float32"}
    features = {
        "observation.state": {**vector, "shape": [5]},
        "action": {**vector, "shape": [2]},
        "observation.force": {**vector, "shape": [6]},
        "observation.depth": {**vector, "shape": [1, 4, 4]},
        IMAGE: {"dtype": "video", "shape": [4, 4, 3]},
    }
    names = ["arm.a", "arm.b", "arm.c", "hand.x", "hand.y"]
    columns = {
        "observation.state": {"steps": {"arm": 0, "hand": 0}, "names": names},
        "action": {"steps": {"command": 0}, "names": ["a", "b"]},
        "observation.force": {"steps": {"force": 0}, "names": None},
        "observation.depth": {"steps": {"depth": 0}, "names": None},
        IMAGE: {"steps": {"image_left": 0}, "names": None},
    }
    found = modality(columns, features)
    spans = {
        name: (of["original_key"], of["start"], of["end"]) for name, of in found["state"].items()
    }
    assert spans == {
        "arm": ("observation.state", 0, 3),
        "hand": ("observation.state", 3, 5),
        "force": ("observation.force", 0, 6),
    }
    for key, said in (("action", "no action: give --action"), (IMAGE, "no video")):
        rest = {name: each for name, each in columns.items() if name != key}
        with pytest.raises(ValueError, match=said):
            modality(rest, features)


def test_older_libraries_know_the_types(made):
    """LeRobot of v2.1 and openpi have `datasets` up to 3.6, which knows no `List`."""
    for file in sorted((made / "gr00t").glob("data/*/*.parquet")):
        said = json.loads(pq.read_schema(file).metadata[b"huggingface"])["info"]["features"]
        expected = {"feature": {"dtype": "float32", "_type": "Value"}, "length": 3}
        assert said["action"] == {**expected, "_type": "Sequence"}
        assert "List" not in {feature["_type"] for feature in said.values()}
    said = json.loads(pq.read_schema(made / FIRST).metadata[b"huggingface"])["info"]["features"]
    assert said["action"]["_type"] == "List"


def test_the_library_datasets_reads_it(made, tmp_path):
    datasets = pytest.importorskip("datasets")
    (file, *_) = sorted((made / "gr00t").glob("data/*/*.parquet"))
    read = datasets.Dataset.from_parquet(str(file), cache_dir=str(tmp_path))
    assert read.features["action"].length == 3
    assert np.array_equal(read["action"], pq.read_table(file)["action"].to_pylist())


def test_both_layouts_have_the_same_values(made):
    found = {
        layout: importing.recordings(importing.opened(made / layout))
        for layout in ("lerobot", "gr00t")
    }
    assert len(found["gr00t"]) == 3
    for one, other in zip(found["lerobot"], found["gr00t"], strict=True):
        assert (one.name, one.task, one.topics) == (other.name, other.task, other.topics)
        wanted = [True] * len(one.topics)
        assert list(one.arrays(wanted)) == list(other.arrays(wanted))
    stats = [json.loads((made / name / "meta/stats.json").read_text()) for name in found]
    assert all(stats[0]["action"][name] == of for name, of in stats[1]["action"].items())


def test_shares_join_to_this_layout(made, tmp_path):
    assert join([made / "lerobot"], tmp_path / "joined", "gr00t") == (3, sum_of(made / "lerobot"))
    expect_same(tmp_path / "joined", made / "gr00t")


def sum_of(root):
    return json.loads((root / "meta/info.json").read_text())["total_frames"]


def test_what_does_not_fit_is_an_error(tmp_path):
    for given, said in (
        ({"layout": "rlds"}, "--layout: expected lerobot or gr00t, found 'rlds'"),
        ({"layout": "gr00t", "images": True}, "--images: expected videos with --layout gr00t"),
    ):
        with pytest.raises(ValueError, match=said):
            to_lerobot([tmp_path], "robot.yaml", tmp_path / "out", **given)
