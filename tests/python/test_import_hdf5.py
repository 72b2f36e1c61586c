"""Demonstrations of RoboMimic and LIBERO as recordings and as rows: values are those of h5py."""

import json

import numpy as np
import pytest
from dataset_files import HDF5_MAPPING, demonstration, picture, write_hdf5
from read_recordings import messages, pixels, positions, read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("h5py")
import h5py

import robocache
from robocache.datasets import importing


@pytest.fixture(name="mapping")
def mapping_fixture(tmp_path):
    path = tmp_path / "mapping.yaml"
    path.write_text(HDF5_MAPPING)
    return path


def recordings(root, mapping, **options):
    return importing.recordings(importing.opened(root, mapping), **options)


def test_values_are_those_of_h5py(tmp_path, mapping):
    path = write_hdf5(tmp_path / "pick_demo.hdf5", (5, 3, *[2] * 9))
    found = recordings(path, mapping)
    assert [recording.name for recording in found[:2]] == ["pick_demo_demo_0", "pick_demo_demo_1"]
    assert found[10].name == "pick_demo_demo_10"
    assert all(recording.task == "open the drawer" for recording in found)
    with h5py.File(path) as file:
        for number, recording in enumerate(found):
            group = file[f"data/demo_{number}"]
            assert np.array_equal(positions(recording, "/joints"), group["obs/joint_states"])
            assert np.array_equal(positions(recording, "/action"), group["actions"])
            assert np.array_equal(positions(recording, "/done")[:, 0], group["dones"])
            assert np.array_equal(pixels(recording, "/top"), group["obs/agentview_rgb"])
    assert found[0].span_ns == (50_000_000, 250_000_000)
    assert messages(found[0], "/done")[0].name == ["done"]


def test_rows_of_a_folder_and_its_splits(tmp_path, mapping, capsys):
    root, out = tmp_path / "libero", tmp_path / "out"
    masks = {"train": ["demo_0", "demo_2"], "valid": ["demo_1"], "few": ["demo_2"]}
    write_hdf5(root / "a b.hdf5", task="open it", masks=masks)
    write_hdf5(root / "b.hdf5", (2,), task="close it", masks={"train": ["demo_0", "demo_9"]})
    arguments = [str(root), "--mapping", str(mapping), "--out", str(out)]
    assert importing.main(arguments) == 0
    assert "'b.hdf5: mask/train: demo_9' is left out: not in the file" in capsys.readouterr().err
    cache = robocache.EpisodeCache.load(out / "rows.zarr")
    told = [(episode["name"], episode["task"]) for episode in cache.episodes]
    assert told == [
        ("a_b_demo_0", "open it"),
        ("a_b_demo_1", "open it"),
        ("a_b_demo_2", "open it"),
        ("b_demo_0", "close it"),
    ]
    assert json.loads((out / "splits.json").read_text()) == {
        "train": ["a_b_demo_0", "a_b_demo_2", "b_demo_0"],
        "valid": ["a_b_demo_1"],
        "few": ["a_b_demo_2"],
    }
    windows = cache.windows([2], [4 * 50_000_000])
    assert np.array_equal(windows["top"].array[0, 0].transpose(1, 2, 0), picture(23))
    expected = demonstration(2, 4)["actions"][3].astype(np.float32)
    assert np.array_equal(windows["action"].array[0, 0], expected)
    names = [r.name for r in recordings(root, mapping, split="valid")]
    assert names == ["a_b_demo_1"]
    assert importing.main([*arguments, "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)
    assert [list(outcome) for outcome in outcomes] == [["kept"]] * 4


def test_a_damaged_file_is_told_and_the_others_go_on(tmp_path, mapping, capsys):
    root, out = tmp_path / "libero", tmp_path / "out"
    path = write_hdf5(root / "a.hdf5")
    write_hdf5(root / "b.hdf5", (2, 2))
    path.write_bytes(path.read_bytes()[:3000])
    (root / "c.hdf5").write_text("no file of HDF5")
    assert importing.main([str(root), "--mapping", str(mapping), "--out", str(out)]) == 1
    told = capsys.readouterr().err
    assert "a: failed: " in told and "c: failed: " in told
    assert told.count("expected an HDF5 file, found damage: it may be truncated") == 2
    assert len(robocache.EpisodeCache.load(out / "rows.zarr").episodes) == 2
    (root / "b.hdf5").unlink()
    with pytest.raises(ValueError, match="a.hdf5: expected an HDF5 file, found damage"):
        importing.opened(root, mapping)


def wrong_demonstrations():
    def without_a_camera(values):
        del values["obs/agentview_rgb"]

    def ragged(values):
        values["actions"] = values["actions"][:-1]

    def another_shape(values):
        values["obs/joint_states"] = values["obs/joint_states"][:, :3]

    def another_size(values):
        values["obs/agentview_rgb"] = values["obs/agentview_rgb"][:, :8]

    def floats(values):
        values["obs/agentview_rgb"] = values["obs/agentview_rgb"] / 255

    def text(values):
        values["actions"] = np.array([b"left"] * 3)

    def empty(values):
        for name in values:
            values[name] = values[name][:0]

    def single(values):
        values["actions"] = np.float64(1)

    return {
        without_a_camera: "demo_1: expected an array 'obs/agentview_rgb', found none",
        ragged: "demo_1/actions: expected 3 frames as in obs/agentview_rgb, found 2",
        another_shape: r"obs/joint_states: expected numbers of the shape \[7\] .* found float64 of \[3\]",
        another_size: r"expected uint8 of the shape \[48, 64, 3\] .*demo_0 of .* found uint8 of \[8, 64, 3\]",
        floats: r"expected uint8 of the shape .* found float64 of \[48, 64, 3\]",
        text: r"actions: expected numbers of the shape \[7\] .* found",
        empty: "expected a frame or more, found none",
        single: "expected an array 'actions', found no array",
    }


@pytest.mark.parametrize(("wrong", "said"), wrong_demonstrations().items())
def test_a_wrong_demonstration_is_an_error(tmp_path, mapping, wrong, said):
    def change(number, values):
        if number == 1:
            wrong(values)
        return values

    path = write_hdf5(tmp_path / "demo.hdf5", change=change)
    found = recordings(path, mapping)
    with pytest.raises(ValueError, match=said):
        read(found[1])
    assert len(read(found[2])["/top"]) == 4


def test_damage_inside_a_file_is_an_error(tmp_path, mapping):
    path = tmp_path / "demo.hdf5"
    write_hdf5(path)
    with h5py.File(path, "a") as file:
        group = file["data/demo_1"]
        values = group["actions"][()]
        del group["actions"]
        group.create_dataset(
            "actions", data=values, chunks=(3, 7), compression="gzip", fletcher32=True
        )
        at = group["actions"].id.get_chunk_info(0).byte_offset
    data = bytearray(path.read_bytes())
    data[at + 20] ^= 0xFF
    path.write_bytes(data)
    found = recordings(path, mapping)
    with pytest.raises(ValueError, match="demo.hdf5: expected a whole HDF5 file, found damage"):
        read(found[1])
    assert len(read(found[0])["/top"]) == 5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.__delitem__("data"), "expected a group 'data' with demonstrations"),
        (
            lambda file: [file["data"].__delitem__(f"demo_{at}") for at in range(3)],
            "expected a demonstration or more",
        ),
        (
            lambda file: file.create_dataset("mask/train", data=np.arange(3)),
            "mask/train: expected names",
        ),
    ],
)
def test_a_wrong_file_is_an_error(tmp_path, mapping, change, said):
    path = write_hdf5(tmp_path / "demo.hdf5")
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(ValueError, match=said):
        for recording in recordings(path, mapping):
            read(recording)


def test_a_first_mapping_has_the_rate_of_the_simulator(tmp_path):
    def change(number, values):
        return {
            **values,
            "obs/depth": np.zeros((len(values["dones"]), 90, 90)),
            "note": np.float32(1),
        }

    path, text = write_hdf5(tmp_path / "demo.hdf5", change=change), tmp_path / "mapping.yaml"
    assert importing.main([str(path), "--write-mapping", str(text)]) == 0
    written = text.read_text()
    assert "rate_hz: 20 # control_freq in env_args of the file" in written
    assert "task: problem_info/language_instruction" in written
    assert "# obs/depth: left out, 8100 numbers, at most 4096" in written
    assert "# note: left out, a single value" in written
    assert recordings(path, text)[0].task == "open the drawer"
    path = write_hdf5(tmp_path / "robomimic.hdf5", task=None)
    text.unlink()
    assert importing.main([str(path), "--write-mapping", str(text)]) == 0
    assert recordings(path, text)[0].task == "Lift"


def test_large_demonstrations_are_read_in_parts(tmp_path, mapping, monkeypatch):
    from robocache.datasets import hdf5

    path = write_hdf5(tmp_path / "demo.hdf5", (40,))
    monkeypatch.setattr(hdf5, "_BLOCK_BYTES", 30_000)
    (recording,) = recordings(path, mapping)
    assert np.array_equal(pixels(recording, "/top"), demonstration(0, 40)["obs/agentview_rgb"])
    assert np.array_equal(positions(recording, "/action"), demonstration(0, 40)["actions"])


def test_a_damaged_file_is_in_each_split(tmp_path, mapping):
    root = tmp_path / "robomimic"
    for name in ("a", "b"):
        path = write_hdf5(root / f"{name}.hdf5", masks={"train": ["demo_0"]})
    path.write_bytes(path.read_bytes()[:-100])
    done, failed = importing.import_dataset(root, tmp_path / "out", mapping=mapping, split="train")
    assert "done" in done and "expected an HDF5 file, found damage" in failed["failed"]["error"]


def test_a_task_that_is_not_there_is_an_error(tmp_path, mapping):
    path = write_hdf5(tmp_path / "a.hdf5", task=None)
    (failed,) = importing.import_dataset(path, tmp_path / "out", mapping=mapping)
    assert "expected a text at 'problem_info/language_instruction'" in failed["failed"]["error"]


def test_files_whose_episodes_would_have_one_name_are_an_error(tmp_path, mapping):
    for name in ("a b.hdf5", "a_b.hdf5"):
        write_hdf5(tmp_path / "libero" / name, (2,))
    with pytest.raises(ValueError, match="expected episodes whose names differ, found a_b_demo_0"):
        importing.opened(tmp_path / "libero", mapping)


@pytest.mark.parametrize(
    ("place", "said"),
    [("data/x", "expected groups in 'data'"), ("mask", "expected a group of masks")],
)
def test_an_array_in_the_place_of_a_group_is_an_error(tmp_path, mapping, place, said):
    path = write_hdf5(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        file[place] = np.zeros(3)
    with pytest.raises(ValueError, match=said):
        read(recordings(path, mapping)[0])


def test_values_in_another_file_are_an_error(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(5)))
    path = write_hdf5(tmp_path / "a.hdf5", (5,))
    with h5py.File(path, "a") as file:
        file["data/demo_0"].create_dataset("x", (5, 1), "u1", external=[(str(secret), 0, 5)])
    mapping = tmp_path / "x.yaml"
    mapping.write_text("rate_hz: 20\nstreams:\n  a: x\n")
    with pytest.raises(ValueError, match="expected the values of 'x' in this file"):
        read(recordings(path, mapping)[0])


def test_the_first_of_several_tasks_that_has_a_text_counts(tmp_path, mapping):
    path = write_hdf5(tmp_path / "a.hdf5")
    both = "task: [problem_info/missing, problem_info/language_instruction]"
    text = mapping.read_text().replace("task: problem_info/language_instruction", both)
    assert both in text
    mapping.write_text(text)
    assert {each.task for each in recordings(path, mapping)} == {"open the drawer"}
    mapping.write_text(text.replace("language_instruction", "neither"))
    (failed,) = importing.import_dataset(path, tmp_path / "out", mapping=mapping)
    said = "expected a text at 'problem_info/missing' or 'problem_info/neither' in the attributes"
    assert said in failed["failed"]["error"]
