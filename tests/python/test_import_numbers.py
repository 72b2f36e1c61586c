"""`EpisodeCache.from_lerobot` without images and with them: one timeline, and which frames are valid."""

import json
import re
from types import SimpleNamespace

import lerobot_files
import numpy as np
import pytest
from lerobot_files import CAMERA, STAMP, STATE, Files, camera, frames_of, picture, rewritten

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache
from robocache.datasets import importing
from robocache.datasets.lerobot import Dataset


@pytest.fixture(name="both", scope="module", params=["v2.1", "v3.0"])
def both_fixture(request, tmp_path_factory):
    """A dataset of each format."""
    return lerobot_files.write(tmp_path_factory.mktemp("both") / "dataset", request.param)


@pytest.fixture(name="dataset")
def dataset_fixture(tmp_path):
    return lerobot_files.write(tmp_path / "dataset")


@pytest.mark.parametrize("fps", [30, 29.97, 60, 15, 7])
@pytest.mark.parametrize("strategy", ["hold", "linear"])
def test_numbers_and_images_have_one_timeline(tmp_path, fps, strategy):
    """Without images and with them: the same names, the same instants, and frame k exactly."""
    root = lerobot_files.write(tmp_path / "dataset", fps=fps, lengths=(20, 12))
    alone = robocache.EpisodeCache.from_lerobot(root)
    stored = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", resize=(8, 8))
    assert sorted(alone.streams) == ["action", "done", "reward", "state"]
    assert sorted(stored.streams) == [*sorted(alone.streams), "top"]
    same = ("name", "task", "spans")
    for one, other in zip(alone.episodes, stored.episodes, strict=True):
        assert {key: one[key] for key in same} == {key: other[key] for key in same}
    same = (
        "channels",
        "strategy",
        "max_age_ns",
        "max_gap_ns",
        "fill",
        "vector",
        "target_offsets_ns",
    )
    for name, means in alone.streams.items():
        other = stored.streams[name]
        assert {key: means[key] for key in same} == {key: other[key] for key in same}
    period_ns = round(1e9 / fps)
    instants = np.arange(1, 21) * period_ns
    config = {"state": {"strategy": strategy}, "action": {"strategy": strategy}}
    for cache in (alone, stored):
        windows = cache.windows([0] * 20, instants, config)
        for name, column in (("state", STATE), ("action", "action")):
            assert windows[name].valid.all() and not windows[name].age_ns.any()
            assert np.array_equal(windows[name].array[:, 0], frames_of(20, 0)[column])
        # A frame is valid to its end, and nothing is beyond the last one.
        late = [instants[-1] + period_ns - 1, instants[-1] + period_ns, instants[0] - 1]
        assert cache.windows([0] * 3, late, config)["state"].valid[:, 0].tolist() == [
            True,
            False,
            False,
        ]
        done = cache.windows([0] * 20, instants + period_ns - 1)["done"]
        assert done.valid.all()
        assert done.array[:, 0, 0].tolist() == frames_of(20, 0)["next.done"].tolist()


def test_frames_of_a_long_episode_are_at_multiples_of_the_period(tmp_path):
    """Beyond 2,048 s float32 is off by 0.12 ms. A dataset of uneven timestamps keeps its seconds."""
    length, fps = 13_500, 3
    files = Files(tmp_path / "dataset", "v2.1", fps, features={})
    files.add(frames_of(length, fps=fps))
    uneven = frames_of(30, 1, fps)
    uneven["timestamp"] += np.where(np.arange(30) == 20, 0.01, 0).astype(np.float32)
    files.add(uneven)
    cache = robocache.EpisodeCache.from_lerobot(files.finish())
    period_ns = 333_333_333
    assert cache.episodes[0]["spans"] == [(0, period_ns, length * period_ns)]
    frames = np.array([7, 6301, length - 1])
    windows = cache.windows([0] * 3, (frames + 1) * period_ns, {"state": {"strategy": "hold"}})
    assert windows["state"].valid.all() and not windows["state"].age_ns.any()
    assert np.array_equal(windows["state"].array[:, 0], frames_of(length)[STATE][frames])
    at = period_ns + round(float(uneven["timestamp"][20]) * 1e9)
    assert np.array_equal(cache.windows([1], [at])["state"].array[0, 0], uneven[STATE][20])


def slower(root, version, spacings=(0.1, 0.1)):
    """A dataset whose fps is 30, and whose timestamps say otherwise: an episode for each spacing [s]."""
    files = Files(root, version, features={})
    for number, spacing in enumerate(spacings):
        timestamps = (np.arange(20) * spacing).astype(np.float32)
        files.add(frames_of(20, number) | {"timestamp": timestamps})
    return files.finish()


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_timestamps_that_contradict_fps_are_told_once(tmp_path, version, capsys):
    """The rows have the timestamps, so a window of each frame of `fps` is mostly invalid."""
    root, out = slower(tmp_path / "dataset", version), tmp_path / "out"
    said = "frames are 100 ms apart (median of their stamps; from 100 to 100 ms apart), and fps 30 of meta/info.json says 33.33 ms"
    for _ in range(2):  # the second time, the episodes are kept
        assert importing.main([str(root), "--out", str(out)]) == 0
        (line,) = [each for each in capsys.readouterr().err.splitlines() if said in each]
        assert line.endswith("(2 episodes: episode_000000, episode_000001)")
    with pytest.warns(RuntimeWarning) as warned:
        alone = robocache.EpisodeCache.from_lerobot(root)
    assert [line for each in warned for line in str(each.message).splitlines()].count(line) == 1
    seconds = (np.arange(20) * 0.1).astype(np.float32).astype(float)
    frames = 33_333_333 + np.rint(seconds * 1e9).astype(np.int64)
    for cache in (alone, robocache.EpisodeCache.load(out / "rows.zarr")):
        state = cache.windows([0] * 20, frames, {"state": {"strategy": "hold"}})["state"]
        assert state.valid.all() and np.array_equal(state.array[:, 0], frames_of(20)[STATE])


def test_timestamps_that_fit_fps_say_nothing(tmp_path, capsys):
    """Of episodes that are slower, the lines name them alone: the last one so little that hold has the frame before."""
    root = slower(tmp_path / "dataset", "v2.1", (1 / 30, 0.04, 0.03334))
    assert importing.main([str(root), "--out", str(tmp_path / "out")]) == 0
    lines = [each for each in capsys.readouterr().err.splitlines() if "ms apart" in each]
    assert len(lines) == 2 and lines[0].startswith("episode_000001: frames are 40 ms apart")
    assert lines[1].startswith("episode_000002: stamps of frames are not at the ticks of fps 30 (")


def test_a_gap_in_the_timestamps_is_told(tmp_path, capsys):
    files = Files(tmp_path / "dataset", "v2.1", features={})
    timestamps = (np.arange(20) / 30 + (np.arange(20) >= 10)).astype(np.float32)
    files.add(frames_of(20) | {"timestamp": timestamps})
    root = files.finish()
    assert importing.main([str(root), "--out", str(tmp_path / "out")]) == 0
    said = "episode_000000: frames are unevenly spaced, from 33.33 to 1033 ms apart, where fps 30 says 33.33"
    assert said in capsys.readouterr().err
    with pytest.warns(RuntimeWarning, match="unevenly spaced, from 33.33 to 1033 ms apart"):
        robocache.EpisodeCache.from_lerobot(root)


@pytest.mark.parametrize("way", ["option", "configuration"])
def test_another_rate_than_that_of_the_frames_is_told(dataset, tmp_path, capsys, way):
    words = [str(dataset), "--out", str(tmp_path / "out"), "--resize", "8x8"]
    if way == "option":
        words += ["--rate-hz", "50"]
    else:
        config = tmp_path / "config.yaml"
        assert importing.main([str(dataset), "--write-config", str(config)]) == 0
        config.write_text(re.sub("rate_hz: [0-9.]+", "rate_hz: 50", config.read_text()))
        words = [*words[:3], "--config", str(config)]
    assert importing.main(words) == 0
    said = capsys.readouterr().err
    assert "the configured rate is 50 Hz, and there are 30 frames per second" in said
    assert said.count("the configured rate is") == 1


def test_numbers_of_a_dataset_are_a_cache(both):
    cache = robocache.EpisodeCache.from_lerobot(both)
    assert [episode["task"] for episode in cache.episodes] == ["pick", "place"]
    assert cache.streams["state"]["channels"] == ["a.position", "b.position", "grip.pos.position"]
    windows = cache.windows([0, 1], [8 * 33_333_333, 4 * 33_333_333])
    expected = [frames_of(20, 0)[STATE][7], frames_of(12, 1)[STATE][3]]
    assert np.array_equal(windows["state"].array[:, 0], expected) and windows["state"].valid.all()
    for given, numbers in ((both, [1]), (SimpleNamespace(root=both, episodes=[1]), None)):
        options = {} if numbers is None else {"episodes": numbers}
        (episode,) = robocache.EpisodeCache.from_lerobot(given, **options).episodes
        assert episode["name"] == "episode_000001"


def test_numbers_that_cannot_be_read_are_told(dataset):
    path = dataset / "data/chunk-000/episode_000000.parquet"
    path.unlink()
    with pytest.raises(
        ValueError,
        match=r"found 1 of 2 that cannot be read; episodes=\[1\] takes the others. The first: .*000000.parq",
    ):
        robocache.EpisodeCache.from_lerobot(dataset)
    assert len(robocache.EpisodeCache.from_lerobot(dataset, episodes=[1]).episodes) == 1


def test_many_episodes_that_can_be_read_are_told_in_short(tmp_path):
    root = slower(tmp_path / "dataset", "v2.1", [1 / 30] * 23)
    (root / "data/chunk-000/episode_000001.parquet").unlink()
    few = ", ".join(map(str, [0, *range(2, 21)]))
    with pytest.raises(ValueError, match=rf"; episodes=\[{few}, \.\.\.\] takes the others"):
        robocache.EpisodeCache.from_lerobot(root)


def test_rows_that_are_not_finite_are_left_out_and_told(dataset):
    def not_a_number(columns):
        columns[STATE][4][1] = float("nan")

    rewritten(dataset, not_a_number)
    with pytest.warns(RuntimeWarning, match="1 rows have NaN or infinity, and are left out"):
        cache = robocache.EpisodeCache.from_lerobot(dataset)
    windows = cache.windows(
        [0] * 20, np.arange(1, 21) * 33_333_333, {"state": {"strategy": "hold"}}
    )
    assert np.flatnonzero(~windows["state"].valid[:, 0]).tolist() == [4]


def exported(root, about=None):
    """A dataset as `to-lerobot` writes it: two streams are the state, and some frames are not valid."""
    valid = {"arm": [1, 6, 7], "hand": [12], "action": range(20), "top": [0, 1, 19]}
    flag = {"dtype": "bool", "shape": [1], "names": None}
    features = {f"valid.{stream}": flag for stream in valid} | {CAMERA: camera()}
    files = Files(root, "v3.0", features={**features, **STAMP})
    columns = frames_of(20)
    for stream, frames in valid.items():
        columns[f"valid.{stream}"] = ~np.isin(np.arange(20), frames)
    columns["stamp_ns"] = np.arange(40, 60) * 33_333_333
    columns["action"] = np.zeros((20, 2), np.float32)
    files.add(columns, {CAMERA: ([picture(at) for at in range(20)], {})})
    files.finish()
    of = {STATE: ["arm", "hand"], "action": ["action"], CAMERA: ["top"]}
    columns = {key: {"steps": dict.fromkeys(streams, 0)} for key, streams in of.items()}
    text = json.dumps({"columns": columns}) if about is None else about
    (root / "meta/robocache.json").write_text(text)
    return root


def test_frames_that_are_not_valid_stay_so(tmp_path):
    """An export has zeros there, which must not become a state or an action."""
    root = exported(tmp_path / "dataset")
    invalid = {"state": [1, 6, 7, 12], "action": [*range(20)], "top": [0, 1, 19], "reward": []}
    for cache in (
        robocache.EpisodeCache.from_dataset(root, tmp_path / "out", resize=(24, 32)),
        robocache.EpisodeCache.from_lerobot(root),
    ):
        instants = np.arange(40, 60) * 33_333_333
        for strategy in ("hold", "linear"):
            config = {
                name: {} if name == "top" else {"strategy": strategy}
                for name in invalid
                if name in cache.streams
            }
            windows = cache.windows([0] * 20, instants, config)
            for name in config:
                found = np.flatnonzero(~windows[name].valid[:, 0]).tolist()
                assert found == invalid[name], (name, strategy)
            valid = windows["state"].valid[:, 0]
            assert np.array_equal(windows["state"].array[valid, 0], frames_of(20)[STATE][valid])
        assert not [name for name in cache.streams if name.startswith("valid")]
        # The first step beyond the last frame is not valid, as LeRobot's padding is.
        beyond = cache.windows([0], [instants[-1] + 33_333_333])
        assert not any(beyond[name].valid.any() for name in cache.streams)
    said = list(importing.remarks(Dataset(root)))
    line = f"'valid.arm' is left out: it says which frames of {STATE} are valid"
    assert (
        line in said
        and f"'valid.top' is left out: it says which frames of {CAMERA} are valid" in said
    )


def test_an_export_says_the_lag_that_its_frames_have(tmp_path):
    """With `lag_ms`, its observations would have the lag twice."""
    root = exported(tmp_path / "dataset")
    told = "so write no lag_ms"
    assert told not in Dataset(root).stamps
    path = root / "meta/robocache.json"
    about = json.loads(path.read_text())
    targets = {"arm": [-40_000_000, -20_000_000], "top": [0]}
    about["contract"] = {"streams": {name: {"targets_ns": of} for name, of in targets.items()}}
    path.write_text(json.dumps(about))
    assert "the lag of the export already (arm 20 ms), so write no lag_ms" in Dataset(root).stamps


def test_an_export_without_its_description_is_an_error(tmp_path):
    """LeRobot's tools lose the file. Without it, zeros would be a state and an action."""
    root = exported(tmp_path / "dataset")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["target_ns.arm"] = {"dtype": "int64", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    Dataset(root)
    (root / "meta/robocache.json").unlink()
    with pytest.raises(ValueError, match=r"robocache\.json: expected this file of the export"):
        Dataset(root)
    # `valid.arm` of somebody else is a stream.
    del info["features"]["target_ns.arm"]
    (root / "meta/info.json").write_text(json.dumps(info))
    assert "valid.arm" in Dataset(root).features


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"columns": {"action": {}}}',
        '{"columns": 3}',
        '{"columns": {"action": {"steps": [1]}}}',
    ],
)
def test_a_damaged_description_of_an_export_is_an_error(tmp_path, text):
    with pytest.raises(ValueError, match=r"meta/robocache\.json: expected the columns and their"):
        Dataset(exported(tmp_path / "dataset", text))


def test_numbers_alone_warn_as_the_import_does(dataset):
    info = json.loads((dataset / "meta/info.json").read_text())
    info["features"]["note"] = {"dtype": "string", "shape": [1], "names": None}
    (dataset / "meta/info.json").write_text(json.dumps(info))
    with pytest.warns(RuntimeWarning, match="stamps: frame k is at tick k") as found:
        robocache.EpisodeCache.from_lerobot(dataset)
    (told,) = found
    assert str(told.message).splitlines() == list(importing.remarks(Dataset(dataset)))
    assert "'note' is left out: " in str(told.message) and told.filename == __file__
