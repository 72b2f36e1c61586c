"""What the numbers and images of a dataset are: angles, quaternions, grippers, images that are none or that are turned."""

import json

import numpy as np
import pytest
import yaml
from dataset_files import (
    HDF5_MAPPING,
    RLDS_STEPS,
    encoded,
    group,
    picture,
    tensor,
    write_calvin,
    write_hdf5,
    write_rlds,
)
from read_recordings import pixels, positions, read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")
pytest.importorskip("h5py")
pytest.importorskip("pyarrow")
import lerobot_files

import robocache
from robocache.datasets import calvin, importing, kinds, mapping_draft
from robocache.datasets.guess import guess
from robocache.datasets.lerobot import Dataset
from robocache.datasets.mapped_values import absolute_gripper, is_blank_picture

PERIOD_NS = 200_000_000
MAPPING = """\
rate_hz: 5
task: language_instruction
streams:
  state:
    field: observation/pose
    names: [x, roll, pitch, yaw, qx, qy, qz, qw, gripper]
    angular: [roll, pitch, yaw]
    quaternions: [[qx, qy, qz, qw]]
    held: [gripper]
"""


def poses(_, length):
    """Frames between which a line would be wrong: a yaw through pi, a quaternion that turns, a gripper that closes."""
    values = np.zeros((length, 9), np.float32)
    values[:, 0] = np.arange(length)
    values[:, 3] = np.where(np.arange(length) % 2, -3.1, 3.1)
    half = np.arange(length) * 0.4
    values[:, 6], values[:, 7] = np.sin(half), np.cos(half)
    values[:, 8] = np.arange(length) % 2
    return values


def mapped(tmp_path, text=MAPPING, change=None, **options):
    """A dataset of RLDS with poses, and its mapping."""
    fields = dict(RLDS_STEPS["featuresDict"]["features"])
    observation = fields.pop("observation")["featuresDict"]["features"]
    more = {"pose": tensor((9,), "float32"), "has_image": tensor((), "bool")}
    closedness = tensor((1,), "float32")
    steps = group(observation=group(**observation, **more), closedness=closedness, **fields)

    def changed(number, values):
        length = len(values["reward"])
        values["observation/pose"] = poses(number, length)
        values["observation/has_image"] = np.arange(length) != 1
        values["closedness"] = np.array([0, 0, 1, 0, -1][:length], np.float32)
        return values if change is None else change(number, values)

    splits = {"train": [[0, 1]]}
    root = write_rlds(tmp_path / "dataset", (5, 3), steps, changed, splits, **options)
    path = tmp_path / "mapping.yaml"
    path.write_text(text)
    return root, path


def between(tmp_path, root, path, instants):
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=path)
    found = cache.windows([0] * len(instants), instants, {"state": {"max_age_ms": 300}}, rows="all")
    assert found["state"].valid.all()
    return found["state"].float32()[:, 0]


def test_elements_are_interpolated_as_what_they_are(tmp_path):
    root, path = mapped(tmp_path)
    content = yaml.safe_load(importing.generated(importing.opened(root, path)))
    assert content["streams"]["state"]["strategy"] == "slerp"
    values = between(tmp_path, root, path, [PERIOD_NS, PERIOD_NS * 3 // 2, 2 * PERIOD_NS])
    assert np.array_equal(values[[0, 2]], poses(0, 2))
    x, yaw, gripper = values[1, 0], values[1, 3], values[1, 8]
    assert x == 0.5 and gripper == 0.0
    assert abs(abs(yaw) - np.pi) < 1e-6  # through pi, not through 0
    assert np.allclose(values[1, 6:8], [np.sin(0.2), np.cos(0.2)], atol=1e-6)
    assert abs(np.linalg.norm(values[1, 4:8]) - 1) < 1e-6


def test_frames_without_a_value_are_not_valid(tmp_path):
    text = (
        "rate_hz: 5\nstreams:\n  top: {field: observation/image_0, valid: observation/has_image}\n"
    )
    root, path = mapped(tmp_path, text + "  state: observation/pose\n")
    recording, _ = importing.recordings(importing.opened(root, path))
    found = read(recording)
    assert [stamp for stamp, _ in found["/top"]] == [k * PERIOD_NS for k in (1, 3, 4, 5)]
    assert len(found["/state"]) == 5
    cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=path)
    windows = cache.windows([0, 0], [PERIOD_NS, 2 * PERIOD_NS])
    assert windows["top"].valid.tolist() == [[True], [False]]


def test_a_flag_of_the_episode_holds_for_all_frames(tmp_path):
    flag = "episode_metadata/has_image"
    text = f"rate_hz: 5\nstreams:\n  top: {{field: observation/image_0, valid: {flag}}}\n"
    root, path = mapped(tmp_path, text + "  state: observation/pose\n", has_image=[True, False])
    first, second = (read(each) for each in importing.recordings(importing.opened(root, path)))
    assert len(first["/top"]) == 5 and second["/top"] == [] and len(second["/state"]) == 3
    with pytest.warns(RuntimeWarning):
        cache = robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=path)
    windows = cache.windows([0, 1], [PERIOD_NS] * 2)
    assert windows["top"].valid.tolist() == [[True], [False]] and windows["state"].valid.all()


def test_an_image_of_one_colour_is_none(tmp_path):
    def change(_, values):
        if len(values["reward"]) == 5:
            values["observation/image_0"][1] = encoded(np.zeros((48, 64, 3), np.uint8), "png")
            values["observation/image_0"][3] = encoded(np.full((48, 64, 3), 90, np.uint8), "jpeg")
        return values

    text = "rate_hz: 5\nstreams:\n  top: {field: observation/image_0, blank: invalid}\n"
    root, path = mapped(tmp_path, text, change)
    recording, _ = importing.recordings(importing.opened(root, path))
    assert [stamp for stamp, _ in read(recording)["/top"]] == [k * PERIOD_NS for k in (1, 3, 5)]


def test_a_picture_is_blank_only_if_it_has_one_colour():
    size = (256, 256)
    for kind in ("png", "jpeg"):
        assert is_blank_picture(encoded(np.zeros((*size, 3), np.uint8), kind), size)
        almost = np.zeros((*size, 3), np.uint8)
        almost[200:216, 8:24] = 255
        assert not is_blank_picture(encoded(almost, kind), size)
        assert not is_blank_picture(encoded(picture(0, *size), kind), size)
    assert not is_blank_picture(b"\xff\xd8 damage", size)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([0, 0, 1, 0, -1, 0], [1, 1, 0, 0, 1, 1]),
        ([0, -1, 0, 0.05, 0.6], [0, 1, 1, 1, 0]),
        ([0, 0.1, -0.1], [1, 1, 1]),
        ([], []),
    ],
)
def test_a_relative_gripper_becomes_what_it_is_to_be(changes, expected):
    assert absolute_gripper(changes).tolist() == expected


def test_a_mapping_has_a_relative_gripper(tmp_path):
    text = "rate_hz: 5\nstreams:\n  gripper: {field: closedness, relative_gripper: [gripper]}\n"
    root, path = mapped(tmp_path, text)
    dataset = importing.opened(root, path)
    assert yaml.safe_load(importing.generated(dataset))["streams"]["gripper"]["strategy"] == "hold"
    recording, _ = importing.recordings(dataset)
    assert positions(recording, "/gripper")[:, 0].tolist() == [1, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("orient", "turned"),
    [
        ("rotate_180", np.s_[::-1, ::-1]),
        ("flip_vertical", np.s_[::-1]),
        ("flip_horizontal", np.s_[:, ::-1]),
    ],
)
def test_images_are_turned(tmp_path, orient, turned):
    file, path = write_hdf5(tmp_path / "demo.hdf5", (3,)), tmp_path / "mapping.yaml"
    old = "obs/agentview_rgb"
    path.write_text(HDF5_MAPPING.replace(old, f"{{field: {old}, orient: {orient}}}"))
    (recording,) = importing.recordings(importing.opened(file, path))
    for at, found in enumerate(pixels(recording, "/top")):
        assert np.array_equal(found, picture(at)[turned])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[roll, pitch, yaw]",
            "[roll, rall]",
            "streams.state.angular: expected one of x, roll, .* found 'rall'",
        ),
        (
            "held: [gripper]",
            "held: [yaw]",
            "streams.state.held: expected 'yaw' in one list, found it in angular",
        ),
        ("held: [gripper]", "held: gripper", "streams.state.held: expected a list of texts"),
        (
            "[[qx, qy, qz, qw]]",
            "[[qx, qy, qz]]",
            "quaternions: expected the names x, y, z, w of each quaternion",
        ),
        (
            "[[qx, qy, qz, qw]]",
            "[[qy, qx, qz, qw]]",
            "quaternions: expected elements that follow each other",
        ),
        ("[[qx, qy, qz, qw]]", "[]", "quaternions: expected a list of quaternions"),
        (
            "held: [gripper]",
            "blank: invalid",
            "streams.state.blank: expected no such key, .* is numbers",
        ),
        (
            "held: [gripper]",
            "blank: yes",
            "streams.state.blank: expected invalid, or no such key, found True",
        ),
        (
            "held: [gripper]",
            "orient: left",
            "streams.state.orient: expected one of rotate_180, flip_vertical",
        ),
        (
            "held: [gripper]",
            "valid: action",
            "streams.state.valid: expected one number of each frame, such as",
        ),
        (
            "observation/pose",
            "observation/image_0",
            "streams.state.names: expected no such key, .* is an image",
        ),
        (
            "  state:",
            "  top: {field: observation/image_0, orient: rotate_180}\n  state:",
            "streams.top.orient: expected no such key, because observation/image_0 is JPEG or PNG",
        ),
        ("task: language_instruction", "task: []", "task: expected where the task is"),
        (
            "task: language_instruction",
            "task: [language_instruction, x]",
            "task: expected one of .* found 'x'",
        ),
    ],
)
def test_a_wrong_kind_is_an_error(tmp_path, old, new, said):
    assert old in MAPPING
    root, path = mapped(tmp_path, MAPPING.replace(old, new))
    with pytest.raises(ValueError, match=said):
        importing.opened(root, path)


def test_a_first_mapping_guesses_and_says_so(tmp_path):
    def values(number, own):
        length = len(own["dones"])
        half = np.arange(length) * 0.3
        own["obs/eef_quat"] = np.stack([np.sin(half), 0 * half, 0 * half, np.cos(half)], axis=1)
        own["obs/eef_euler"] = np.stack(
            [0 * half, 0 * half, np.where(half > 0.5, -3.1, 3.1)], axis=1
        )
        own["obs/gripper"] = np.where(half > 0.5, 1.0, -1.0)
        return own

    file, text = write_hdf5(tmp_path / "demo.hdf5", change=values), tmp_path / "mapping.yaml"
    assert importing.main([str(file), "--write-mapping", str(text)]) == 0
    written = yaml.safe_load(text.read_text())["streams"]
    assert written["eef_quat"]["quaternions"] == [["x", "y", "z", "w"]]
    assert written["eef_euler"]["angular"] == ["roll", "pitch", "yaw"]
    assert written["gripper"]["held"] == ["gripper"]
    assert written["joint_states"] == "obs/joint_states"
    assert text.read_text().count("# guessed: ") == 3
    importing.generated(importing.opened(file, text))


def test_a_first_mapping_names_the_known_one_that_fits(tmp_path):
    def values(number, own):
        length = len(own["dones"])
        own["obs/agentview_image"] = own["obs/robot0_eye_in_hand_image"] = own.pop(
            "obs/agentview_rgb"
        )
        own["obs/robot0_eef_pos"] = np.zeros((length, 3))
        own["obs/robot0_eef_quat"] = np.tile([0.0, 0, 0, 1], (length, 1))
        own["obs/robot0_gripper_qpos"] = np.zeros((length, 2))
        return own

    file, text = write_hdf5(tmp_path / "demo.hdf5", change=values), tmp_path / "mapping.yaml"
    assert importing.main([str(file), "--write-mapping", str(text)]) == 0
    assert "The known mapping robomimic fits these files: --mapping robomimic" in text.read_text()


def turning(length, degrees=False):
    yaw = np.where(np.arange(length) % 2, -3.1, 3.1)
    return np.stack(
        [np.arange(length) * 0.1, 0 * yaw, 0 * yaw, yaw * (57.3 if degrees else 1)], axis=1
    )


def test_a_guess_by_names_needs_values_that_are_angles():
    names = ["x", "ee.roll", "ee.pitch", "ee.yaw"]
    assert guess("state", names, [turning(9)]).angular == ("ee.roll", "ee.pitch", "ee.yaw")
    degrees = guess("state", names, [turning(9, degrees=True)])
    assert degrees.angular == () and degrees.held == ("ee.roll", "ee.pitch", "ee.yaw")
    # A joint that is called so is none of three.
    assert guess("state", ["x", "wrist_roll", "y", "z"], [turning(9)]) is None
    half = np.arange(9) * 0.2
    w_first = np.stack([np.cos(half), np.sin(half), 0 * half, 0 * half], axis=1)
    assert guess("state", ["qw", "qx", "qy", "qz"], [w_first]).held == ("qw", "qx", "qy", "qz")
    assert guess("state", ["qx", "qy", "qz", "qw"], [3 * w_first]) is None


def test_a_quaternion_with_rows_of_zeros_is_held_and_told():
    """A line through zero is no rotation, and a row of zeros is none."""
    names, half = ["x", "qx", "qy", "qz", "qw"], np.arange(9) * 0.2
    turns = np.stack([half, np.sin(half), 0 * half, 0 * half, np.cos(half)], axis=1)
    assert guess("pose", names, [turns]).quaternions == (("qx", "qy", "qz", "qw"),)
    turns[[2, 5], 1:] = 0
    found = guess("pose", names, [turns])
    assert found.held == ("qx", "qy", "qz", "qw") and found.quaternions == ()
    assert "because 2 of 9 rows that were looked at are zeros" in found.why
    assert (
        "with quaternions: [[qx, qy, qz, qw]] in place of held and strategy: slerp, rows of"
        in found.why
    )
    w_first = guess("pose", ["x", "qw", "qx", "qy", "qz"], [turns[:, [0, 4, 1, 2, 3]]])
    assert w_first.held == ("qw", "qx", "qy", "qz")
    # Zeros alone are no quaternion, whatever the statistics say.
    bounds = np.array([[0, 0, 0, 0, 0], [1, 1, 1, 1, 1.0]])
    assert guess("pose", names, [turns * [1, 0, 0, 0, 0]], bounds) is None


def test_what_is_written_for_rows_of_zeros_drops_them(tmp_path):
    """Rows of zeros, of a quaternion that the user writes as the guess advises, are dropped and counted."""

    def change(number, values):
        values["observation/pose"][1, 4:8] = 0
        return values

    root, path = mapped(tmp_path, MAPPING, change)
    with pytest.warns(RuntimeWarning, match="1 of 5 messages dropped: out_of_range"):
        robocache.EpisodeCache.from_dataset(root, tmp_path / "out", mapping=path)


def test_what_never_moves_is_not_guessed():
    still = [np.tile([1.0, 0, 0, 0], (5, 1))] * 2
    assert guess("state", ["qw", "qx", "qy", "qz"], still) is None
    assert guess("state", ["x", "roll", "pitch", "yaw"], still) is None
    # The statistics say that it moves elsewhere, so nobody knows how.
    bounds = np.array([[1.0, 0, 0, 0], [1.0, 0, 0, 2]])
    held = guess("state", ["x", "roll", "pitch", "yaw"], still, bounds)
    assert held.held == ("roll", "pitch", "yaw") and held.angular == ()


def test_statistics_refute_a_guess():
    names = ["x", "roll", "pitch", "yaw"]
    bounds = np.array([[0, -1, -1, -1], [1, 1, 1, 174.0]])
    assert guess("state", names, [turning(9)], bounds).held == ("roll", "pitch", "yaw")
    assert guess("state", names, [turning(9)], bounds * np.nan).angular == ("roll", "pitch", "yaw")
    two = np.array([[0.0], [1.0]] * 5)
    assert guess("action", ["gripper"], [two], np.array([[0.0], [1.0]])).held == ("gripper",)
    assert guess("action", ["gripper"], [two], np.array([[0.0], [1.2]])) is None


def test_an_element_of_two_values_is_held():
    values = np.stack([np.arange(9) % 2, np.arange(9) * 0.1, np.arange(9) % 2 * 0.7], axis=1)
    assert guess("action", ["0", "1", "2"], [values]).held == ("0",)
    assert guess("action", ["a", "b", "gripper"], [values]).held == ("a", "gripper")
    # In few frames a number may have two values by chance.
    assert guess("action", ["0", "1", "2"], [values[:3]]) is None


def test_rows_that_are_not_finite_change_no_guess():
    names, values = ["x", "roll", "pitch", "yaw"], turning(20)
    values[4] = np.nan
    assert guess("state", names, [values]).angular == ("roll", "pitch", "yaw")
    assert guess("state", names, [values * np.nan]) is None


def lerobot(root, *episodes):
    """A dataset whose state has these values, an array for each episode."""
    names = ["x", "ee.roll", "ee.pitch", "ee.yaw"]
    state = {"dtype": "float32", "shape": [4], "names": names}
    files = lerobot_files.Files(root, "v2.1", features={lerobot_files.STATE: state})
    for values in episodes:
        columns = lerobot_files.frames_of(len(values))
        files.add({**columns, lerobot_files.STATE: values.astype(np.float32)})
    return files.finish()


def test_a_lerobot_dataset_is_guessed_and_told(tmp_path, capsys):
    root, out = lerobot(tmp_path / "dataset", turning(20)), tmp_path / "out"
    assert importing.main([str(root), "--out", str(out)]) == 0
    said = "'observation.state': guessed by names and values: ee.roll, ee.pitch, ee.yaw are angles [rad]"
    assert said in capsys.readouterr().err
    text = (out / "config.yaml").read_text()
    assert (
        "# Guessed: ee.roll, ee.pitch, ee.yaw are angles [rad]. Change it if it is wrong." in text
    )
    assert yaml.safe_load(text)["streams"]["state"]["angular"] == ["ee.roll", "ee.pitch", "ee.yaw"]
    cache = robocache.EpisodeCache.load(out / "rows.zarr")
    middle = cache.windows([0], [33_333_333 * 3 // 2], {"state": {"max_age_ms": 50}}, rows="all")
    assert abs(abs(middle["state"].float32()[0, 0, 3]) - np.pi) < 1e-5
    # Who gives a configuration guesses nothing.
    assert not any("guessed" in line for line in importing.remarks(Dataset(root), generates=False))


def test_degrees_of_a_lerobot_dataset_are_held(tmp_path):
    root = lerobot(tmp_path / "dataset", turning(20, degrees=True))
    content = yaml.safe_load(importing.generated(Dataset(root)))
    assert content["streams"]["state"]["held"] == ["ee.roll", "ee.pitch", "ee.yaw"]
    assert "angular" not in content["streams"]["state"]


def test_a_guess_is_told_if_all_elements_are_held(tmp_path):
    state = {"dtype": "float32", "shape": [1], "names": ["gripper"]}
    files = lerobot_files.Files(tmp_path / "dataset", "v2.1", features={lerobot_files.STATE: state})
    columns = lerobot_files.frames_of(20)
    files.add({**columns, lerobot_files.STATE: (np.arange(20) % 2)[:, None].astype(np.float32)})
    text = importing.generated(Dataset(files.finish()))
    assert yaml.safe_load(text)["streams"]["state"]["strategy"] == "hold"
    assert "# Guessed: gripper is held, because it has two values. Change it" in text


def test_a_guess_looks_at_several_episodes_and_the_statistics(tmp_path):
    """An episode that never moves says nothing of the others."""
    degrees = np.stack([np.zeros(20)] * 3 + [170 + 0.4 * np.arange(20)], axis=1)
    root = lerobot(tmp_path / "dataset", np.zeros((20, 4)), degrees)
    assert Dataset(root).guessed["observation.state"].held == ("ee.roll", "ee.pitch", "ee.yaw")
    cache = robocache.EpisodeCache.from_lerobot(root)
    between = cache.windows([1], [33_333_333 * 3 // 2])["state"].float32()
    assert between[0, 0, 3] == 170
    # Of 40 episodes 16 are looked at, so the statistics must say what the others have.
    of = {"observation.state": {"min": [0.0] * 4, "max": [1.0, 0.0, 0.0, 177.6]}}
    of_episode = {"episode_index": 1, "stats": of}
    for name, text in (("stats.json", of), ("episodes_stats.jsonl", of_episode)):
        root = lerobot(tmp_path / name, turning(20), degrees, *[turning(20)] * 38)
        assert Dataset(root).guessed["observation.state"].angular
        (root / "meta" / name).write_text(json.dumps(text))
        held = Dataset(root).guessed["observation.state"].held
        assert held == ("ee.roll", "ee.pitch", "ee.yaw")


def test_a_frame_that_is_not_valid_changes_no_guess(tmp_path):
    """An export has zeros there, and zeros are no quaternion."""
    half = np.arange(20) * 0.2
    turns = np.stack([np.sin(half), 0 * half, 0 * half, np.cos(half)], axis=1)
    turns[:2] = 0
    columns = lerobot_files.frames_of(20)
    state = {"dtype": "float32", "shape": [4], "names": ["qx", "qy", "qz", "qw"]}
    flag = {"dtype": "bool", "shape": [1], "names": None}
    files = lerobot_files.Files(
        tmp_path / "dataset", "v2.1", features={lerobot_files.STATE: state, "valid.arm": flag}
    )
    columns |= {lerobot_files.STATE: turns.astype(np.float32), "valid.arm": np.arange(20) >= 2}
    root = files.add(columns) or files.finish()
    about = {"columns": {lerobot_files.STATE: {"steps": {"arm": 0}}}}
    (root / "meta/robocache.json").write_text(json.dumps(about))
    guessed = Dataset(root).guessed["observation.state"]
    assert guessed.quaternions == (("qx", "qy", "qz", "qw"),)


def test_a_first_mapping_reads_few_frames(tmp_path, monkeypatch):
    """CALVIN has a file for each frame."""
    root = write_calvin(tmp_path / "calvin", spans=((0, 299), (300, 599)))
    opened, enter = [], calvin._Frame.__enter__
    monkeypatch.setattr(calvin._Frame, "__enter__", lambda of: opened.append(1) or enter(of))
    monkeypatch.setattr(mapping_draft, "_FRAMES", 100)
    assert "streams:" in kinds.draft(root)
    assert 100 <= len(opened) <= 110
