"""Labels: what a policy is trained to say. Their steps are those of LeRobot's datasets, with LeRobot's mask."""

import warnings

import numpy as np
import pytest
from bags import MS, T0, wrench, write_bag
from replays import replay

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

PERIOD = 33_333_333
LENGTHS = (20, 12)


@pytest.fixture(scope="module")
def frames():
    """A cache of two episodes of frames at 30 Hz, and their actions."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(sum(LENGTHS), 2)).astype(np.float32)
    stamps = np.concatenate([np.arange(count) * PERIOD for count in LENGTHS])
    stream = {"rows": rows, "stamp_ns": stamps, "max_age_ms": 50}
    streams = {"action": stream, "state": {**stream, "rows": -rows, "lag_ms": 33.333333}}
    cache = robocache.EpisodeCache.from_arrays(streams, list(LENGTHS), rate_hz=30)
    return cache, [rows[:20], rows[20:]]


def of_lerobot(rows, frame, deltas):
    """The steps and the mask of LeRobotDataset: rows beyond an episode are its first or its last."""
    wanted = frame + np.asarray(deltas)
    return rows[np.clip(wanted, 0, len(rows) - 1)], (wanted < 0) | (wanted >= len(rows))


@pytest.mark.parametrize(
    ("steps", "deltas"),
    [
        ({"horizon": {"steps": 16}}, range(16)),
        ({"horizon": {"steps": 16, "step_ms": 1000 / 30}}, range(16)),
        ({"horizon": {"steps": 16, "rate_hz": 30}}, range(16)),
        ({"history": {"steps": 2}, "horizon": {"steps": 15}, "label": True}, range(-1, 15)),
        ({"label": True}, [0]),
        ({"horizon": {"steps": 1}}, [0]),
    ],
)
@pytest.mark.parametrize("strategy", ["hold", "linear", "nearest"])
def test_chunks_are_those_of_lerobot(frames, steps, deltas, strategy):
    cache, actions = frames
    for episode, rows in enumerate(actions):
        numbers = np.arange(len(rows))
        found = cache.windows(
            np.full(len(rows), episode),
            numbers * PERIOD,
            {"action": {**steps, "strategy": strategy}},
        )["action"]
        for frame in numbers:
            values, is_pad = of_lerobot(rows, frame, deltas)
            assert (found.array[frame] == values).all(), (episode, frame)
            assert found.is_pad[frame].tolist() == is_pad.tolist()
            assert found.valid[frame].tolist() == (~is_pad).tolist()


def test_a_history_repeats_the_first_row_if_asked(frames):
    cache, actions = frames
    config = {"state": {"history": {"steps": 3}, "lag_ms": 0, "fill": "first"}}
    found = cache.windows([0, 0, 0], np.arange(3) * PERIOD, config)["state"]
    for frame in range(3):
        values, is_pad = of_lerobot(-actions[0], frame, [-2, -1, 0])
        assert (found.array[frame] == values).all()
        assert found.is_pad[frame].tolist() == is_pad.tolist()
    # The others leave what is before the first row at zeros.
    for fill in ("zero", "last"):
        before = cache.windows([0], [0], {"state": {**config["state"], "fill": fill}})["state"]
        assert not before.array[0, :2].any() and not before.valid[0, :2].any()


def test_a_label_has_no_lag_unless_it_says_one(frames):
    cache, _ = frames
    at = [5 * PERIOD]
    lag = {"state": {"horizon": {"steps": 2}, "lag_ms": 10}}
    for config, expected in (
        ({"state": {}}, [-PERIOD]),
        ({"state": {"history": {"steps": 2}}}, [-2 * PERIOD, -PERIOD]),
        ({"state": {"horizon": {"steps": 2}}}, [0, PERIOD]),
        ({"state": {"label": True}}, [0]),
        ({"state": {"horizon": {"steps": 2}, "label": False}}, [-PERIOD, 0]),
        (lag, [-10 * MS, PERIOD - 10 * MS]),
    ):
        found = cache.windows([0], at, config)["state"]
        assert (found.target_ns[0] - at[0]).tolist() == expected, config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"label": 1}, "label of 'action': expected true or false, found 1"),
        ({"label": True, "rows": "strict"}, "rows of 'action': expected all, because a label"),
        ({"fill": "hold"}, "fill of 'action': expected one of zero, last, first, found 'hold'"),
        ({"strategy": "cubic"}, "strategy of 'action': expected one of hold, nearest"),
        ({"dtype": "float32"}, "dtype of 'action': expected one of f32"),
        ({"horizon": {"steps": 2, "step_ms": 5, "rate_hz": 5}}, "horizon of 'action': expected"),
        ({"horizon": {"steps": 2, "rate_hz": 0}}, "rate_hz in horizon of 'action': expected more"),
        ({"horizon": {"steps": True}}, "horizon of 'action': expected steps"),
        ({"offsets_ns": [0], "lag_ms": 5}, "offsets_ns of 'action': expected no lag_ms"),
    ],
)
def test_what_no_label_can_be_is_told(frames, config, message):
    with pytest.raises(ValueError, match=message):
        frames[0].plan({"action": config})


def test_a_step_that_is_almost_a_frame_is_told(frames, recwarn):
    cache, _ = frames
    for step_ms in (1000 / 30, 33.333333, 50, 66.666666):
        cache.plan({"action": {"horizon": {"steps": 100, "step_ms": step_ms}}})
    assert not recwarn
    with pytest.warns(
        UserWarning, match=r'is 33 ms off its frame. {"steps": 100} is one frame each'
    ):
        cache.plan({"action": {"horizon": {"steps": 100, "step_ms": 33}}})


@pytest.mark.parametrize(
    ("step_ms", "expected"),
    [
        (500, 15 * PERIOD),
        (100, 3 * PERIOD),
        (60_000, 1800 * PERIOD),
        (40, 40 * MS),
        (33.4, 33_400_000),
    ],
)
def test_a_step_of_whole_frames_is_on_the_grid_of_frames(frames, step_ms, expected):
    """500 ms are 15 frames of 30 Hz, 5 ns less; of a robot's messages they stay 500 ms."""
    cache, _ = frames
    of_step = {"history": {"steps": 2, "step_ms": step_ms}, "lag_ms": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (stream,) = cache.plan({"state": of_step}).streams
    assert stream.offsets_ns.tolist() == [-expected, 0]


def test_a_step_of_messages_stays_as_it_is(commands):
    (stream,) = commands.plan({"command": {"horizon": {"steps": 2, "step_ms": 25.000001}}}).streams
    assert stream.offsets_ns.tolist() == [0, 25 * MS + 1]


def test_a_step_needs_a_length_if_the_cache_has_no_rate():
    stream = {"rows": np.zeros((4, 1), np.float32), "stamp_ns": np.arange(4) * PERIOD}
    cache = robocache.EpisodeCache.from_arrays({"x": stream}, [4])
    assert cache.period_ns is None
    with pytest.raises(ValueError, match="horizon of 'x': expected step_ms or rate_hz, because"):
        cache.plan({"x": {"horizon": {"steps": 2}}})
    with pytest.raises(ValueError, match="period_ns: expected the time from one instant"):
        robocache.WindowSampler.of(cache, batch_size=1)


CONFIG = """
rate_hz: 50
lag_ms: 20
streams:
  command:
    type: geometry_msgs/WrenchStamped
    topic: /command
    fields: [force]
    strategy: linear
    max_age_ms: 60
    max_gap_ms: 80
    ring_rows: 8
    dtype: f32
"""


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A cache of a bag: command k of value k at 20 Hz, 25 ms off the ticks, from the instant T0 on."""
    folder = tmp_path_factory.mktemp("commands")
    stamps = [T0 + 5 * MS + at * 50 * MS for at in range(200)]
    messages = [("/command", ns, wrench(ns, at, 0, 0)) for at, ns in enumerate(stamps)]
    bag = write_bag(folder / "bag", messages)
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    replay(config, folder / "out", bag, options=["--format", "rows"])
    return robocache.EpisodeCache.load(folder / "out/rows.zarr")


def test_step_0_of_a_chunk_is_of_the_same_kind_as_the_rest(commands):
    assert commands.period_ns == 20 * MS
    instant = T0 + 5 * MS + 4975 * MS  # between commands 99 and 100
    config = {"command": {"horizon": {"steps": 4, "step_ms": 50}}}
    found = commands.windows([0], [instant], config)["command"]
    assert found.array[0, :, 0].tolist() == [99.5, 100.5, 101.5, 102.5] and found.valid.all()
    # What a policy sees is what had come.
    seen = commands.windows([0], [instant], {"command": {"lag_ms": 0}})["command"]
    assert seen.array[0, 0, 0] == 99
    # Which rows others see does not change a label.
    strict = commands.windows([0], [instant], config, rows="strict")["command"]
    assert (strict.array == found.array).all()
    served = commands.windows(
        [0], [instant], {"command": {**config["command"], "rows": "as_served"}}
    )["command"]
    # By default a stream that is no label keeps its lag.
    assert served.target_ns[0, 0] == instant - 20 * MS


def test_no_step_is_valid_beyond_the_bag(commands):
    end = commands.episodes[0]["spans"][0][2]
    config = {"command": {"horizon": {"steps": 3, "step_ms": 20}}}
    found = commands.windows([0], [end], config)["command"]
    assert found.valid[0].tolist() == [True, False, False]
    assert (found.array[0] == [[199, 0, 0]] * 3).all()
    begin = commands.episodes[0]["spans"][0][1]
    before = {"command": {"offsets_ns": [-20 * MS, 0], "label": True}}
    first = commands.windows([0], [begin], before)["command"]
    assert first.valid[0].tolist() == [False, True] and not first.array.any()


def test_a_history_that_the_ring_cannot_hold_is_an_error(commands):
    """8 rows of 20 Hz are 350 ms."""
    within = {"command": {"history": {"steps": 4, "step_ms": 100}, "lag_ms": 0}}
    instants = T0 + np.arange(1000, 9000, 130) * MS
    found = commands.windows(np.zeros(len(instants), np.int64), instants, within)["command"]
    assert found.valid.all()
    beyond = {"command": {"history": {"steps": 4, "step_ms": 200}, "lag_ms": 0}}
    for rows in (None, "strict", "as_served"):
        with pytest.raises(
            ValueError, match=r"history of 'command': expected 0.350 s or less.* found 0.600 s"
        ):
            commands.windows([0], [instants[0]], beyond, rows=rows)
    found = commands.windows(np.zeros(len(instants), np.int64), instants, beyond, rows="all")[
        "command"
    ]
    assert found.valid.all()


def test_mostly_invalid_windows_are_told_once(frames):
    cache, _ = frames
    config = {"state": {"strategy": "hold", "max_age_ms": 3, "lag_ms": 0}}
    instants = np.arange(40) * 7 * MS
    with pytest.warns(RuntimeWarning, match=r"valid at the instants of this batch: state 8 %"):
        cache.windows(np.zeros(40, np.int64), instants, config)
    plan = cache.plan(config)
    assert plan.looked_at
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.windows(np.zeros(40, np.int64), instants, config)
        # Padding is no fault: the first step of a label counts.
        cache.windows(
            np.zeros(20, np.int64), np.arange(20) * PERIOD, {"action": {"horizon": {"steps": 99}}}
        )
