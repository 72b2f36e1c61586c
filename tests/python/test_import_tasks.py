"""The tasks of datasets: of each window that of its frame."""

import json

import configuration
import lerobot_files
import mcap.reader
import numpy as np
import pytest
import waiting
from lerobot_files import Files, frames_of, rewritten

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache
from robocache import importing
from robocache.datasets.lerobot import Dataset


@pytest.fixture(name="dataset")
def dataset_fixture(tmp_path):
    return lerobot_files.write(tmp_path / "dataset")


def several_tasks(root, version):
    """Two episodes: the task of the first one changes twice."""
    files = Files(root, version, features={})
    files.add(frames_of(20, 0), task=["pick"] * 5 + ["place"] * 12 + ["pick"] * 3)
    files.add(frames_of(12, 1), task="open")
    return files.finish()


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_each_window_has_the_task_of_its_frame(tmp_path, version):
    root = several_tasks(tmp_path / "dataset", version)
    period = 33_333_333
    parts = [
        {"begin_ns": period, "task": "pick"},
        {"begin_ns": 6 * period, "task": "place"},
        {"begin_ns": 18 * period, "task": "pick"},
    ]
    stored = importing.import_rows(root, tmp_path / "out")
    load = robocache.EpisodeCache.load
    load(stored).save(tmp_path / "saved")
    caches = [
        load(stored),
        load(tmp_path / "saved"),
        robocache.EpisodeCache.from_lerobot(root),
    ]
    for cache in caches:
        assert cache.tasks == ["pick", "place", "open"]
        assert [episode["task"] for episode in cache.episodes] == ["pick", "open"]
        assert [episode.get("tasks") for episode in cache.episodes] == [parts, None]
        frames = np.arange(20)
        found = cache.task_index([0] * 20, (frames + 1) * period)
        assert found.dtype == np.int64 and found.tolist() == [0] * 5 + [1] * 12 + [0] * 3
        # Before the first frame, within a frame, in another episode.
        assert cache.task_index([0, 0, 1], [0, 6 * period - 1, 5 * period]).tolist() == [0, 0, 2]
        with pytest.raises(ValueError, match="episodes: expected numbers from 0 to 1, found 2"):
            cache.task_index([2], [0])
    # Numbers mean the same for each share of the episodes.
    for path in (stored, tmp_path / "saved"):
        share = load(path, episodes=[1])
        assert share.tasks == ["pick", "place", "open"] and share.task_index([0], [0]) == [2]
    summaries = importing.import_dataset(root, tmp_path / "out")
    assert [each["kept"]["task"] for each in summaries] == ["pick", "open"]


@pytest.mark.parametrize("kind", ["mcap", "zarr", "rows"])
def test_results_and_their_pages_have_all_tasks(tmp_path, kind):
    root = several_tasks(tmp_path / "dataset", "v2.1")
    if kind == "rows":
        importing.import_rows(root, tmp_path / "out")
    else:
        importing.import_dataset(root, tmp_path / "out", format=kind)
    if kind == "mcap":
        with open(tmp_path / "out/episode_000000.mcap", "rb") as file:
            (record,) = mcap.reader.make_reader(file).iter_metadata()
        assert record.name == "robocache" and record.metadata["task"] == "pick"
        parts = [(part["begin_ns"], part["task"]) for part in json.loads(record.metadata["tasks"])]
        period = 33_333_333
        assert parts == [(period, "pick"), (6 * period, "place"), (18 * period, "pick")]
        with open(tmp_path / "out/episode_000001.mcap", "rb") as file:
            (record,) = mcap.reader.make_reader(file).iter_metadata()
        assert record.metadata["task"] == "open" and "tasks" not in record.metadata
    page = tmp_path / "page.html"
    words = ["view", tmp_path / "out", "--out", page]
    done = waiting.run([configuration.program(), *map(str, words)])
    assert done.returncode == 0, done.stderr
    html = page.read_text()
    assert "pick; place" in html and "open" in html
    if kind != "rows":
        assert "Task from 0.167 s on: place" in html


def test_the_task_is_that_of_the_frames(dataset, tmp_path):
    """The metadata of episodes may be stale. LeRobot takes the `task_index` of a frame."""
    rewritten(dataset, lambda columns: columns.update(task_index=[1] * 20))
    cache = robocache.EpisodeCache.from_lerobot(dataset)
    assert [episode["task"] for episode in cache.episodes] == ["place", "place"]
    outcomes = importing.import_dataset(dataset, tmp_path / "out", resize=(8, 8))
    assert [each["done"]["task"] for each in outcomes] == ["place", "place"]
    rewritten(dataset, lambda columns: columns.update(task_index=[1] * 19 + [7]))
    with pytest.raises(
        ValueError, match="#episode_000000: expected a task of meta/tasks in frame 19"
    ):
        robocache.EpisodeCache.from_lerobot(dataset)
    (outcome, _) = importing.import_dataset(dataset, tmp_path / "other", resize=(8, 8))
    assert "found task_index 7" in outcome["failed"]["error"]
    rewritten(dataset, lambda columns: columns.update(task_index=[7] * 20))
    with pytest.raises(ValueError, match="expected a task of meta/tasks in frame 0"):
        robocache.EpisodeCache.from_lerobot(dataset)


def test_another_text_of_a_task_is_another_content(dataset, tmp_path):
    before = [recording.made_of for recording in importing.recordings(Dataset(dataset))]
    path = dataset / "meta/tasks.jsonl"
    path.write_text(path.read_text().replace("place", "put"))
    after = [recording.made_of for recording in importing.recordings(Dataset(dataset))]
    assert after[0] == before[0] and after[1] != before[1]


def test_columns_of_language_are_named_as_left_out(tmp_path):
    features = {
        name: {"dtype": "language", "shape": [1], "names": None}
        for name in ("language_persistent", "language_events")
    }
    files = Files(tmp_path / "dataset", "v3.0", features=features)
    files.add(frames_of(3))
    said = list(importing.remarks(Dataset(files.finish())))
    for name in features:
        assert f"'{name}' is left out: elements of language" in said


@pytest.mark.parametrize("texts", [["a", "a", "b", "b", "a"], ["", "a", "a", "b", "b"]])
def test_the_steps_of_rlds_may_have_several_tasks(tmp_path, texts):
    pytest.importorskip("google_crc32c")
    pytest.importorskip("google.protobuf")
    from dataset_files import RLDS_MAPPING, write_rlds

    def change(number, values):
        if number == 0:
            values["language_instruction"] = [text.encode() for text in texts]
        return values

    root, mapping = write_rlds(tmp_path / "dataset", change=change), tmp_path / "mapping.yaml"
    mapping.write_text(RLDS_MAPPING)
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=mapping)
    assert [episode["task"] for episode in cache.episodes] == [texts[0] or None, "do 1", "do 2"]
    assert ["tasks" in episode for episode in cache.episodes] == [True, False, False]
    found = cache.task_index([0] * 5 + [1], np.array([1, 2, 3, 4, 5, 1]) * 200_000_000)
    numbers = [-1 if text == "" else cache.tasks.index(text) for text in [*texts, "do 1"]]
    assert found.tolist() == numbers
    assert sorted(cache.tasks) == ["a", "b", "do 1", "do 2"]
