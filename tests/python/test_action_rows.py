"""Rows of actions in windows: relative to the present state, poses, six numbers, normalised, and their statistics."""

import json

import numpy as np
import pytest

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)

import robocache
from robocache.training import rotations as turns

LENGTHS = [30, 12]
PERIOD = 50_000_000
POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
RPY = ["x", "y", "z", "roll", "pitch", "yaw"]
CHUNK = {"horizon": {"steps": 5}}


def unit(q):
    return q / np.linalg.norm(q, axis=-1, keepdims=True)


def matrix(q):
    """Rotation matrices of quaternions, by the formula q v q*."""
    basis = []
    for axis in np.eye(3):
        v = np.broadcast_to(axis, (*q.shape[:-1], 3))
        cross = 2 * np.cross(q[..., :3], v)
        basis.append(v + q[..., 3:] * cross + np.cross(q[..., :3], cross))
    return np.stack(basis, -1)


def of_rpy(rpy):
    """Rz(yaw) Ry(pitch) Rx(roll)."""
    c, s = np.cos(rpy), np.sin(rpy)
    one, zero = np.ones_like(c[..., 0]), np.zeros_like(c[..., 0])

    def rotation(rows):
        return np.stack([np.stack(row, -1) for row in rows], -2)

    cx, cy, cz = (c[..., at] for at in range(3))
    sx, sy, sz = (s[..., at] for at in range(3))
    x = rotation([[one, zero, zero], [zero, cx, -sx], [zero, sx, cx]])
    y = rotation([[cy, zero, sy], [zero, one, zero], [-sy, zero, cy]])
    z = rotation([[cz, -sz, zero], [sz, cz, zero], [zero, zero, one]])
    return z @ y @ x


@pytest.fixture(scope="module", params=["quaternion", "rpy"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def cache(kind):
    """Poses and a gripper, of an arm and of what it was told."""
    random, names = np.random.default_rng(3), POSE if kind == "quaternion" else RPY
    streams = {}
    for name in ("state", "action"):
        position = random.normal(size=(sum(LENGTHS), 3))
        if kind == "quaternion":
            turn = unit(random.normal(size=(sum(LENGTHS), 4)))
        else:
            turn = random.uniform(-1.4, 1.4, (sum(LENGTHS), 3))
        grip = random.uniform(size=(sum(LENGTHS), 1))
        streams[name] = {
            "rows": np.concatenate([position, turn, grip], -1).astype(np.float32),
            "stamp_ns": np.concatenate([np.arange(n) * PERIOD for n in LENGTHS]),
            "channels": [*names, "grip"],
            "strategy": "hold",
        }
    return robocache.EpisodeCache.from_arrays(streams, LENGTHS, rate_hz=20)


@pytest.fixture(scope="module")
def pose(kind):
    return POSE if kind == "quaternion" else RPY


EPISODES, INSTANTS = [0, 1, 0], np.array([3, 2, 20]) * PERIOD
PLAIN = {"state": {}, "action": CHUNK}


def windows(cache, **action):
    return cache.windows(EPISODES, INSTANTS, {"state": {}, "action": {**CHUNK, **action}})


def rotations(values, kind):
    return matrix(values[..., 3:7]) if kind == "quaternion" else of_rpy(values[..., 3:6])


def test_relative_channels_are_differences_to_the_present_state(cache):
    plain = cache.windows(EPISODES, INSTANTS, PLAIN)
    made = windows(cache, relative=["x", "grip"], reference="state")
    state, action = plain["state"].array[:, -1:], plain["action"].array
    expected = action.copy()
    for at in (0, -1):
        expected[..., at] -= state[..., at]
    assert np.array_equal(made["action"].array, expected)
    assert made["action"].shape == expected.shape
    everything = windows(cache, relative=True, reference="state")
    assert np.array_equal(everything["action"].float32(), action - state)
    assert np.array_equal(everything["state"].array, plain["state"].array)
    back = made.plan.rows["action"].taken_back(made["action"].array, state[:, 0])
    np.testing.assert_allclose(back, action, atol=1e-6)


@pytest.mark.parametrize("names", [("state", "action"), ("action", "state")])
def test_a_normalised_reference_is_as_the_node_serves_it(cache, names):
    """The state is an input of the policy, too, in any order of the streams."""
    plain = cache.windows(EPISODES, INSTANTS, PLAIN)
    channels = len(cache.streams["state"]["channels"])
    stats = {"mean": np.full(channels, 5.0), "std": np.full(channels, 3.0)}
    normalize = {"normalize": {"mode": "mean_std", "stats": stats}}
    action = {**CHUNK, "relative": True, "reference": "state"}
    config = {"state": normalize, "action": {**action, **normalize}}
    made = cache.windows(EPISODES, INSTANTS, {name: config[name] for name in names})
    alone = cache.windows(EPISODES, INSTANTS, {"state": {}, "action": config["action"]})
    state = plain["state"].array
    assert np.array_equal(made["action"].array, alone["action"].array)
    np.testing.assert_allclose(made["state"].array, (state - 5) / 3, rtol=1e-6)
    back = made.plan.rows["action"].taken_back(made["action"].array, state[:, 0])
    np.testing.assert_allclose(back, plain["action"].array, atol=2e-6)


def test_a_reference_is_valid_as_the_node_serves_it():
    """The state lacks its own reference, so its rows are invalid; the action needs only the state."""
    counts = {"base": [3], "state": [30], "action": [30]}
    streams = {
        name: {
            "rows": np.ones((rows, 1), np.float32),
            "stamp_ns": np.arange(rows) * PERIOD,
            "channels": ["a"],
        }
        for name, (rows,) in counts.items()
    }
    cache = robocache.EpisodeCache.from_arrays(streams, counts, rate_hz=20)
    state = {"relative": True, "reference": "base"}
    action = {"relative": True, "reference": "state"}
    for config in (
        {"base": {}, "state": state, "action": action},
        {"base": {}, "action": action, "state": state},
    ):
        made = cache.windows([0], [20 * PERIOD], config)
        assert made["state"].valid.tolist() == [[False]]
        assert made["action"].valid.tolist() == [[True]]


@pytest.mark.parametrize("offsets", [[0, PERIOD], [0, -PERIOD], [-PERIOD, -PERIOD], [PERIOD]])
def test_a_reference_ends_at_its_present_step(cache, offsets):
    config = {"state": {"offsets_ns": offsets}, "action": {"relative": True, "reference": "state"}}
    sentence = (
        "reference of 'action': expected steps of 'state' that rise to the present one, found"
    )
    with pytest.raises(ValueError, match=sentence):
        cache.windows(EPISODES, INSTANTS, config)


def test_a_pitch_of_ninety_degrees_keeps_its_rotation():
    near = [np.pi / 2, np.pi / 2 - 1e-6, np.pi / 2 - 3e-4, np.pi / 2 - 1e-3]
    pitches = [sign * pitch for pitch in near for sign in (1, -1)]
    grid = np.meshgrid(np.linspace(-3, 3, 13), pitches, np.linspace(-3, 3, 13), indexing="ij")
    rpy = np.stack(grid, -1).reshape(-1, 3)
    q = turns.of_rpy(np, rpy).astype(np.float32)
    found = turns.to_rpy(np, q)
    assert found.dtype == np.float32
    expected, back = of_rpy(rpy), of_rpy(np.float64(found))
    trace = np.einsum("nij,nij->n", expected, back)
    sine = np.linalg.norm(expected - back, axis=(1, 2)) / np.sqrt(8)
    degrees = 2 * np.degrees(np.arcsin(sine))
    assert degrees.max() < 0.05 and (trace > 2.99).all()


@pytest.mark.parametrize("order", ["rows", "columns", "columns_by_row"])
def test_relative_poses_are_transforms_of_six_numbers(cache, kind, pose, order):
    plain = cache.windows(EPISODES, INSTANTS, PLAIN)
    state, action = (np.float64(plain[name].array) for name in ("state", "action"))
    made = windows(cache, poses=[pose], rotation_6d=order, relative=pose, reference="state")
    origin, axes = state[:, -1:, :3], rotations(state[:, -1:], kind)
    back = np.swapaxes(axes, -1, -2)
    position = (back @ (action[..., :3] - origin)[..., None])[..., 0]
    turn = back @ rotations(action, kind)
    six = {
        "rows": turn[..., :2, :].reshape(*turn.shape[:-2], 6),
        "columns": np.swapaxes(turn[..., :2], -1, -2).reshape(*turn.shape[:-2], 6),
        "columns_by_row": turn[..., :2].reshape(*turn.shape[:-2], 6),
    }[order]
    expected = np.concatenate([position, six, action[..., -1:]], -1)
    np.testing.assert_allclose(made["action"].array, expected, atol=2e-6)
    rows = made.plan.rows["action"]
    assert len(rows.outputs) == 10 and rows.outputs[-1] == "grip"
    taken = rows.taken_back(made["action"].array, plain["state"].array[:, -1])
    np.testing.assert_allclose(taken[..., :3], action[..., :3], atol=2e-6)
    np.testing.assert_allclose(rotations(taken, kind), rotations(action, kind), atol=5e-6)
    one = rows.taken_back(made["action"].array[1], plain["state"].array[1, -1])
    assert np.array_equal(one, taken[1])


def test_relative_poses_keep_the_form_of_their_rotation(cache, kind, pose):
    plain = cache.windows(EPISODES, INSTANTS, PLAIN)
    made = windows(cache, poses=[pose], relative=pose, reference="state")
    state, action = plain["state"].array, plain["action"].array
    turn = np.swapaxes(rotations(state[:, -1:], kind), -1, -2) @ rotations(action, kind)
    np.testing.assert_allclose(rotations(made["action"].array, kind), turn, atol=5e-6)
    assert made["action"].shape == action.shape


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantile"])
def test_rows_are_normalised_by_statistics_of_what_comes_out(cache, mode, per_step, tmp_path):
    relative = {"relative": True, "reference": "state"}
    config = {"state": {}, "action": {**CHUNK, **relative}}
    sampler = robocache.WindowSampler.of(cache, batch_size=1, shuffle=False)
    found = cache.window_statistics(config, sampler, streams=["action"], per_step=per_step)
    every = cache.windows(*sampler.at(0, np.arange(sampler.items))[:2], config)["action"]
    # Steps beyond the episode do not count.
    used = np.where(every.valid[..., None], np.float64(every.array), np.nan)
    axis = 0 if per_step else (0, 1)
    of = found["action"]
    for name in ("mean", "std", "min", "max"):
        expected = getattr(np, f"nan{name}")(used, axis)
        np.testing.assert_allclose(of[name], expected, rtol=1e-5, atol=1e-6)
    # They are read from a histogram of 5,000 bins.
    q99 = np.nanquantile(used, 0.99, axis, method="inverted_cdf")
    assert (abs(of["q99"] - q99) <= (of["max"] - of["min"]) / 5000 + 1e-6).all()
    path = found.save_stats(tmp_path)
    stats = {"stats": path, "key": "action"}
    made = windows(cache, **relative, normalize={"mode": mode, **stats})["action"].array
    plain = np.float64(windows(cache, **relative)["action"].array)
    low, high = {"mean_std": ("mean", "std"), "min_max": ("min", "max")}.get(mode, ("q01", "q99"))
    low, high = of[low], of[high]
    expected = (plain - low) / high if mode == "mean_std" else 2 * (plain - low) / (high - low) - 1
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_a_file_of_statistics_is_read_again(cache, tmp_path):
    made = []
    for mean in (0.0, 4.0):
        channels = len(cache.streams["action"]["channels"])
        stats = {"action": {"mean": [mean] * channels, "std": [1.0] * channels}}
        (tmp_path / "stats.json").write_text(json.dumps(stats))
        of_file = {"stats": tmp_path / "stats.json", "key": "action"}
        made.append(windows(cache, normalize={"mode": "mean_std", **of_file})["action"].array)
    np.testing.assert_allclose(made[0] - made[1], 4, atol=1e-5)
    again = {**CHUNK, "normalize": {"mode": "mean_std", **of_file}}
    assert cache.plan({"action": again}) is cache.plan({"action": again})


def test_padded_steps_count_if_asked(cache):
    sampler = robocache.WindowSampler.of(cache, batch_size=1, shuffle=False)
    counts = [
        int(cache.window_statistics(PLAIN, sampler, padded=padded)["action"]["count"][0])
        for padded in (False, True)
    ]
    assert counts == [sum(LENGTHS) * 5 - 2 * (1 + 2 + 3 + 4), sum(LENGTHS) * 5]


def test_files_are_those_of_openpi_and_lerobot(cache, tmp_path):
    found = cache.statistics()
    keys = {"state": "state", "action": "actions"}
    written = json.loads(found.save_norm_stats(tmp_path, keys).read_text())
    assert written.keys() == {"norm_stats"}
    assert written["norm_stats"].keys() == {"state", "actions"}
    for of in written["norm_stats"].values():
        assert list(of) == ["mean", "std", "q01", "q99"]
    assert written["norm_stats"]["actions"]["mean"] == found["action"]["mean"].tolist()
    stats = json.loads(found.save_stats(tmp_path, {"state": "observation.state"}).read_text())
    assert stats["observation.state"]["count"] == [sum(LENGTHS)]
    assert json.loads(json.dumps(found.json()))["state"]["max"] == found["state"]["max"].tolist()
    with pytest.raises(ValueError, match="expected streams of action, state, found 'actions'"):
        found.save_stats(tmp_path, {"actions": "action"})


def test_a_row_without_its_reference_is_not_valid():
    streams = {
        name: {
            "rows": np.ones((rows, 1), np.float32),
            "stamp_ns": np.arange(rows) * PERIOD,
            "channels": ["a"],
        }
        for name, rows in (("state", 3), ("action", 30))
    }
    cache = robocache.EpisodeCache.from_arrays(streams, {"state": [3], "action": [30]}, rate_hz=20)
    relative = {**CHUNK, "relative": ["a"], "reference": "state"}
    made = cache.windows([0, 0], [PERIOD, 20 * PERIOD], {"state": {}, "action": relative})
    assert made["action"].valid.tolist() == [[True] * 5, [False] * 5]


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ({"relative": ["x"]}, "expected relative, the channels, and reference"),
        ({"reference": "state"}, "expected relative, the channels, and reference"),
        ({"relative": ["w"], "reference": "state"}, "relative of 'action': expected channels of x"),
        ({"relative": ["x"], "reference": "top"}, "expected one of action, state, found 'top'"),
        ({"rotation_6d": "rows"}, "expected poses beside it"),
        ({"poses": [["x", "y"]]}, "expected x, y, z and qx"),
        ({"normalize": {"mode": "mean"}}, r"expected mode \(mean_std, min_max, quantile\)"),
        (
            {"normalize": {"mode": "min_max", "stats": {"min": [0], "max": [1]}}},
            "numbers in min, one of each of x",
        ),
        (
            {"normalize": {"mode": "mean_std", "stats": {"mean": [0]}}},
            "expected std in stats|numbers in mean",
        ),
        ({"relative": ["x"], "reference": "state", "dtype": "f16"}, "expected dtype f32"),
    ],
)
def test_what_does_not_fit_is_an_error(cache, action, sentence):
    with pytest.raises(ValueError, match=sentence):
        windows(cache, **action)


def test_a_part_of_a_relative_pose_is_an_error(cache, pose):
    with pytest.raises(ValueError, match="expected all channels of a pose or none"):
        windows(cache, poses=[pose], relative=pose[:3], reference="state")


def test_equal_bounds_need_eps(cache):
    channels = len(cache.streams["action"]["channels"])
    stats = {"min": np.zeros(channels), "max": np.zeros(channels)}
    with pytest.raises(
        ValueError, match="expected finite numbers that differ, or eps, found none of x"
    ):
        windows(cache, normalize={"mode": "min_max", "stats": stats})
    windows(cache, normalize={"mode": "min_max", "stats": stats, "eps": 1e-6})
