"""Datasets of CALVIN as recordings and as rows: values are those of NumPy."""

import json
import os
import pickle

import numpy as np
import pytest
from dataset_files import CALVIN_MAPPING, frame, write_calvin
from read_recordings import pixels, positions, read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache
from robocache.datasets import importing


@pytest.fixture(name="mapping")
def mapping_fixture(tmp_path):
    path = tmp_path / "mapping.yaml"
    path.write_text(CALVIN_MAPPING)
    return path


@pytest.fixture(name="whole")
def whole_fixture(tmp_path):
    """A mapping without annotations."""
    path = tmp_path / "whole.yaml"
    path.write_text(
        "".join(line + "\n" for line in CALVIN_MAPPING.splitlines() if "task" not in line)
    )
    return path


def recordings(root, mapping, **options):
    return importing.recordings(importing.opened(root, mapping), **options)


def test_values_are_those_of_numpy(tmp_path, whole):
    root = write_calvin(tmp_path / "training")
    found = recordings(root, whole)
    assert [(r.name, r.task) for r in found] == [
        ("training_000000", None),
        ("training_000001", None),
    ]
    for recording, numbers in zip(found, (range(10, 16), range(20, 23)), strict=True):
        frames = [np.load(root / f"episode_{at:07d}.npz") for at in numbers]
        for topic, field in {"/state": "robot_obs", "/action": "actions"}.items():
            assert np.array_equal(positions(recording, topic), [each[field] for each in frames])
        assert np.array_equal(pixels(recording, "/static"), [each["rgb_static"] for each in frames])
        assert recording.span_ns == (33_333_333, len(numbers) * 33_333_333)


def test_annotations_are_episodes(tmp_path, mapping):
    root, out = tmp_path / "task_D_D", tmp_path / "out"
    write_calvin(root / "training", annotations=[(11, 13, "push it"), (12, 15, "lift it")])
    write_calvin(root / "validation", spans=[(30, 34)], annotations=[(30, 31, "turn")])
    cache = robocache.EpisodeCache.from_dataset(root, out, mapping=mapping)
    told = [(episode["name"], episode["task"]) for episode in cache.episodes]
    assert told == [
        ("training_000000", "push it"),
        ("training_000001", "lift it"),
        ("validation_000002", "turn"),
    ]
    assert json.loads((out / "splits.json").read_text()) == {
        "training": ["training_000000", "training_000001"],
        "validation": ["validation_000002"],
    }
    windows = cache.windows([1, 2], [4 * 33_333_333, 33_333_333])
    assert all(windows[name].valid.all() for name in windows)
    for at, number in enumerate((15, 30)):
        expected = frame(number)
        shown = windows["static"].array[at, 0].transpose(1, 2, 0)
        assert np.array_equal(shown, expected["rgb_static"])
        assert np.array_equal(
            windows["state"].array[at, 0], expected["robot_obs"].astype(np.float32)
        )


def damages():
    def missing(path):
        path.unlink()

    def cut(path):
        path.write_bytes(path.read_bytes()[:-100])

    def flipped(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 4] ^= 0xFF
        path.write_bytes(data)

    def empty(path):
        path.write_bytes(b"")

    def without_a_camera(path):
        values = dict(np.load(path))
        del values["rgb_static"]
        np.savez(path, **values)

    def another_shape(path):
        values = dict(np.load(path))
        np.savez(path, **{**values, "robot_obs": np.zeros(3)})

    def objects(path):
        values = dict(np.load(path))
        np.savez(path, **{**values, "actions": np.array([{}], object)})

    return {
        missing: "0000012.npz: expected a frame, found no such file",
        cut: "0000012.npz: expected a frame as npz, found damage",
        flipped: "0000012.npz: rgb_static: expected an array, found damage",
        empty: "0000012.npz: expected a frame as npz, found damage",
        without_a_camera: "0000012.npz: expected an array 'rgb_static', found none",
        another_shape: r"robot_obs: expected numbers of the shape \[15\] .* found float64 of \[3\]",
        objects: "0000012.npz: actions: expected an array, found damage",
    }


@pytest.mark.parametrize(("damage", "said"), damages().items())
def test_a_damaged_frame_is_an_error(tmp_path, whole, damage, said):
    root = write_calvin(tmp_path / "training")
    damage(root / "episode_0000012.npz")
    found = recordings(root, whole)
    with pytest.raises((ValueError, OSError), match=said):
        read(found[0])
    assert len(read(found[1])["/static"]) == 3
    if damage.__name__ in ("missing", "cut"):
        failed, good = importing.import_dataset(root, tmp_path / "out", mapping=whole)
        assert "done" in good and said in str(failed)


def test_frames_of_one_shape_before_an_odd_one_come(tmp_path, whole):
    def change(at, values):
        return {**values, "actions": np.zeros(6)} if at == 13 else values

    root = write_calvin(tmp_path / "training", change=change)
    got = 0
    with pytest.raises(ValueError, match="actions: expected numbers of the shape"):
        for batch in recordings(root, whole)[0].arrays([True] * 3):
            got += len(batch)
    assert got == 3 * 3


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        (np.array([[5, 3]]), "expected a first frame before the last, found 5 and 3"),
        (np.array([[-5, 3]]), "expected a first frame before the last, found -5 and 3"),
        (np.array([[0, 1 << 60]]), "expected at most 1000000 frames, found 1152921504606846977"),
        (np.array([[1.5, 3]]), "expected pairs of a first and a last frame, found float64"),
        (np.arange(4), "expected pairs of a first and a last frame"),
        (np.array(4), "expected pairs of a first and a last frame"),
        (np.zeros((0, 2), int), "expected an episode or more, found none"),
        (np.array([[{}, 1]], object), "ep_start_end_ids.npy: expected an array, found damage"),
    ],
)
def test_wrong_spans_are_an_error(tmp_path, whole, spans, said):
    root = write_calvin(tmp_path / "training")
    np.save(root / "ep_start_end_ids.npy", spans, allow_pickle=True)
    with pytest.raises(ValueError, match=said):
        recordings(root, whole)


def annotations(texts, spans):
    return np.array({"language": {"ann": texts}, "info": {"indx": spans}}, object)


class Program:
    """A pickle of it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_annotations_run_no_program(tmp_path, mapping):
    root = write_calvin(tmp_path / "training")
    path = root / "lang_annotations/auto_lang_ann.npy"
    np.save(path, np.array({"language": Program(tmp_path / "made")}, object), allow_pickle=True)
    pickle.loads(pickle.dumps(Program(tmp_path / "proof")))
    assert (tmp_path / "proof").exists(), "such a pickle does run"
    with pytest.raises(
        ValueError, match="expected annotations, found damage: .*mkdir, which is no"
    ):
        importing.opened(root, mapping)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02cnumpy.f2py.__main__\ndtype\n.",
        b"\x80\x03cnumpy\nndarray\n(K\x01\x85cnumpy\ndtype\nX\x01\x00\x00\x00O\x85RC\x08AAAAAAAAtR.",
    ],
    ids=["a program of NumPy", "an object at any address"],
)
def test_annotations_reach_nothing_of_numpy(tmp_path, mapping, pickled):
    root = write_calvin(tmp_path / "training")
    with (root / "lang_annotations/auto_lang_ann.npy").open("wb") as file:
        about = {"descr": "|O", "fortran_order": False, "shape": ()}
        np.lib.format.write_array_header_1_0(file, about)
        file.write(pickled)
    with pytest.raises(ValueError, match="expected annotations, found damage"):
        importing.opened(root, mapping)


def test_wrong_annotations_are_an_error(tmp_path, mapping):
    root = write_calvin(tmp_path / "training")
    path = root / "lang_annotations/auto_lang_ann.npy"
    for value, said in (
        (np.array({"language": {}}, object), "expected language/ann and info/indx, found others"),
        (np.zeros(3), "expected annotations, found damage"),
        (annotations(["a"], [(1, 2), (3, 4)]), "expected a text for each of 2 spans, found 1"),
        (annotations(["a", "b"], [(1, 2), (3,)]), "expected pairs of a first and a last frame"),
    ):
        np.save(path, value, allow_pickle=True)
        with pytest.raises(ValueError, match=said):
            importing.opened(root, mapping)
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError, match="expected annotations, found damage"):
        importing.opened(root, mapping)
    path.unlink()
    with pytest.raises(ValueError, match="task: expected a file of annotations in"):
        importing.opened(root, mapping)


def test_a_first_mapping_knows_the_rate(tmp_path):
    root, text = write_calvin(tmp_path / "training"), tmp_path / "mapping.yaml"
    assert importing.main([str(root), "--write-mapping", str(text)]) == 0
    written = text.read_text()
    assert "rate_hz: 30 # " in written and "task: lang_annotations/auto_lang_ann.npy" in written
    assert "# rgb_tactile: left out, an image of [16, 12, 6]" in written
    assert "# depth_static: left out, 10000 numbers, at most 4096" in written
    assert [r.task for r in recordings(root, text)] == ["push it"]
