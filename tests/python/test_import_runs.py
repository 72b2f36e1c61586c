"""What a run of `robocache import` leaves and says if it cannot do all that it was asked for."""

import fcntl
import json
import os
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import waiting
import yaml

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("pyarrow")
pytest.importorskip("av")
import lerobot_files

import robocache
from robocache.datasets import importing
from robocache.datasets.lerobot import Dataset
from robocache.node import whole

SIZE = ["--resize", "8x8"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--episodes", "99"], "expected numbers of episodes, 0 to 1, found 99"),
        (["--split", "val"], "found the split 'val'"),
        (["--tolerance-s", "-1"], "tolerance_s: expected 0 s or more"),
    ],
)
def test_a_failed_run_leaves_no_configuration(tmp_path, capsys, wrong, said):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3, 2)), tmp_path / "out"
    assert importing.main([str(root), "--out", str(out), *wrong]) == 1
    assert said in capsys.readouterr().err
    assert not (out / "config.yaml").exists()
    # Another option generates another configuration.
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 0
    assert not list(out.glob("*.partial"))


def test_a_run_in_which_every_episode_fails_leaves_no_configuration(tmp_path, capsys):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3, 2)), tmp_path / "out"
    videos = sorted(root.rglob("*.mp4"))
    kept = [video.read_bytes() for video in videos]
    for video in videos:
        video.write_bytes(b"no video")
    for table in root.rglob("episode_*.parquet"):
        table.rename(table.with_suffix(".away"))
    assert importing.main([str(root), "--out", str(out)]) == 1
    assert not (out / "config.yaml").exists()
    for table in root.rglob("episode_*.away"):
        table.rename(table.with_suffix(".parquet"))
    for video, data in zip(videos, kept, strict=True):
        video.write_bytes(data)
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 0
    capsys.readouterr()


def test_a_configuration_that_was_there_stays(tmp_path, capsys):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3, 2)), tmp_path / "out"
    assert (
        importing.main([str(root), "--out", str(out), "--write-config", str(tmp_path / "c.yaml")])
        == 0
    )
    out.mkdir()
    (tmp_path / "c.yaml").rename(out / "config.yaml")
    assert importing.main([str(root), "--out", str(out), "--episodes", "99"]) == 1
    assert (out / "config.yaml").exists()
    capsys.readouterr()


def test_a_preset_and_jpeg_go_together(tmp_path):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3,)), tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="stamps: "):
        outcomes = importing.import_dataset(root, out, preset="pi0", images="jpeg:95")
    assert outcomes[0]["done"]["streams"]["top"]["jpeg"]["images"] == 3
    top = yaml.safe_load((out / "config.yaml").read_text())["streams"]["top"]
    assert top["dtype"] == "u8" and top["image"]["preset"] == "pi0"
    cache = robocache.EpisodeCache.load(out / "rows.zarr")
    assert cache.streams["top"]["row_shape"] == [224, 224, 3]
    # Without JPEG the preset normalises.
    assert (
        "dtype"
        not in yaml.safe_load(importing.generated(Dataset(root), preset="pi0"))["streams"]["top"]
    )


def test_many_missing_episodes_are_one_line(tmp_path, capsys):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=[2] * 12), tmp_path / "out"
    for number in set(range(12)) - {1, 2, 4}:
        (root / f"data/chunk-000/episode_{number:06d}.parquet").unlink()
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 1
    lines = capsys.readouterr().err.splitlines()
    failed = [line for line in lines if "failed" in line]
    assert len(failed) == 1 and failed[0].startswith("episode_000000: failed: ")
    assert failed[0].endswith(
        "; 8 more failed for the same reason: episode_000003 to episode_000011"
    )
    assert "3 of 12 episodes are complete: --episodes 1-2,4 takes them alone" in lines
    assert importing.main([str(root), "--out", str(out), *SIZE, "--episodes", "1-2,4"]) == 0


def test_a_wrong_topic_is_one_line_for_all_episodes(tmp_path, capsys):
    root, config = (
        lerobot_files.write(tmp_path / "dataset", lengths=[2] * 6),
        tmp_path / "robot.yaml",
    )
    config.write_text(
        "rate_hz: 30\nstreams:\n  state: {type: sensor_msgs/JointState, topic: /stat, joints: [a], max_age_ms: 50}\n"
    )
    assert importing.main([str(root), "--out", str(tmp_path / "out"), "--config", str(config)]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if "failed" in line]
    assert len(lines) == 1 and "/stat" in lines[0]
    assert lines[0].endswith(
        "; 5 more failed for the same reason: episode_000001 to episode_000005"
    )


def test_python_warns_of_the_remarks_where_it_was_called(tmp_path):
    root = lerobot_files.write(tmp_path / "dataset", lengths=(3,))
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["note"] = {"dtype": "string", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    with pytest.warns(RuntimeWarning) as found:
        robocache.EpisodeCache.from_dataset(root, tmp_path / "out")
    (told,) = [
        each for each in found if "stamps: frame k is at tick k + 1 of 30 Hz" in str(each.message)
    ]
    assert "'note' is left out: " in str(told.message) and told.filename == __file__


def test_episodes_are_numbers_or_names_and_a_share_is_a_pair(tmp_path):
    dataset = Dataset(lerobot_files.write(tmp_path / "dataset", lengths=[2] * 6))

    def numbers(*arguments, **options):
        return [each.number for each in importing.chosen(dataset, *arguments, **options)]

    assert numbers((1, 3)) == [1, 3]
    assert numbers(["episode_000004", "episode_000000"]) == [0, 4]
    assert numbers(np.array([5, 1])) == [1, 5]
    assert numbers(share=(1, 4)) == [1, 5] and numbers(slice(2, None), share=(0, 2)) == [2, 4]
    with pytest.raises(ValueError, match="found the text 'train'"):
        numbers("train")
    with pytest.raises(ValueError, match="names of episodes, episode_000000 to .* found 'x'"):
        numbers(["x"])
    with pytest.raises(ValueError, match=r"share: expected \(rank, world\) with rank below world"):
        numbers(share=(2, 2))
    for wrong in (np.array([False, True] * 3), [2.7, 4.2], [None]):
        with pytest.raises(TypeError, match="episodes: expected integers, found"):
            numbers(wrong)
    with pytest.raises(
        ValueError, match="episodes: expected a list of numbers or names, or a slice"
    ):
        numbers(5)
    for wrong in ((0.5, 2), 3, (0, 1, 2)):
        with pytest.raises(TypeError, match="share: expected"):
            numbers(share=wrong)
    assert numbers([]) == []


def test_processes_that_import_at_once_wait_for_each_other(tmp_path):
    """The ranks of a training: one imports, and the others find its rows."""
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(9, 7)), tmp_path / "out"
    code = f"from robocache.importing import import_rows; import_rows({str(root)!r}, {str(out)!r})"
    command = [sys.executable, "-W", "ignore", "-c", code]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: waiting.run(command), range(4)))
    assert [(run.returncode, run.stderr) for run in runs] == [(0, "")] * 4
    assert len(robocache.EpisodeCache.load(out / "rows.zarr").episodes) == 2
    assert not list(out.glob("*.partial"))


def test_a_run_that_waits_says_so(tmp_path, monkeypatch):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3,)), tmp_path / "out"
    out.mkdir()
    other, told = os.open(out, os.O_RDONLY), []
    fcntl.flock(other, fcntl.LOCK_EX)

    def shown(message, category, filename, *_):
        if "another run writes into it" in str(message):
            told.append((str(message), category, filename))
            os.close(other)  # the other run ends

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", shown)
        (outcome,) = importing.import_dataset(root, out)
    assert "done" in outcome
    said = f"{out}: another run writes into it, and this one waits for its end"
    assert told == [(said, RuntimeWarning, __file__)]


def test_a_run_that_waited_needs_no_file_of_one_that_failed(tmp_path, monkeypatch):
    """A run that leaves no results removes the configuration, while others wait."""
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3,)), tmp_path / "out"
    replay_to = importing._native.replay_to

    def after_another(*arguments, **options):
        (out / "config.yaml").unlink()
        return replay_to(*arguments, **options)

    monkeypatch.setattr(importing._native, "replay_to", after_another)
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 0
    text = importing.generated(Dataset(root), resize=(8, 8))
    assert (out / "config.yaml").read_text() == text
    assert sorted(each.name for each in out.iterdir()) == [
        "config.yaml",
        "replay.json",
        "rows.zarr",
    ]


def test_complete_rows_are_not_written_to(tmp_path, monkeypatch):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3, 2)), tmp_path / "out"
    path = root / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "splits": {"train": "0:2"}}))
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 0
    assert (out / "splits.json").exists()

    def written(path, text):
        raise AssertionError(f"{path} is written again")

    monkeypatch.setattr(whole, "write", written)
    before = {each: each.stat().st_mtime_ns for each in [out, *out.iterdir()]}
    assert importing.main([str(root), "--out", str(out), *SIZE]) == 0
    assert {each: each.stat().st_mtime_ns for each in [out, *out.iterdir()]} == before
    # Other splits are written.
    path.write_text(json.dumps({**json.loads(path.read_text()), "splits": {"train": "0:1"}}))
    with pytest.raises(AssertionError, match="splits.json is written again"):
        importing.main([str(root), "--out", str(out), *SIZE])


def test_a_file_that_is_not_whole_is_no_result(tmp_path):
    for name in ("splits.json.12.ab.partial", "rows.zarr.partial/zarr.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert not importing._has_results(tmp_path)
    (tmp_path / "rows.zarr.parts").mkdir()
    (tmp_path / "rows.zarr.parts/episode_000000").touch()
    assert importing._has_results(tmp_path)


def test_results_name_what_their_values_mean(tmp_path):
    root, out = lerobot_files.write(tmp_path / "dataset", lengths=(3,)), tmp_path / "out"
    assert importing.main([str(root), "--out", str(out), *SIZE, "--format", "zarr"]) == 0
    ledger = (out / "replay.json").read_text()
    assert " values 1; configuration " in ledger
    # Results whose values mean something else are made again.
    (out / "replay.json").write_text(ledger.replace(" values 1; ", " values 0; "))
    options = [str(root), "--out", str(out), *SIZE, "--format", "zarr"]
    assert importing.main(options) == 0
    assert " values 1; configuration " in (out / "replay.json").read_text()
