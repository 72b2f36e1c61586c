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


def test_an_action_with_the_lag_of_an_observation_is_told(recwarn):
    """`{}` is what a policy sees; an action is what it answers, and would be late by the lag."""
    row = {"rows": np.zeros((20, 2), np.float32), "stamp_ns": np.arange(20) * PERIOD}
    streams = {"action": {**row, "lag_ms": 40}, "state": {**row, "lag_ms": 40}}
    cache = robocache.EpisodeCache.from_arrays(streams, [20], rate_hz=30)
    for config in ({"label": True}, {"label": False}, {"horizon": {"steps": 1}}, {"lag_ms": 40}):
        cache.plan({"action": config, "state": {}})
    assert not recwarn
    for ask in (
        lambda: cache.plan({"action": {}, "state": {}}),
        lambda: cache.plan(),
        lambda: cache.windows([0], [PERIOD]),
        lambda: cache.windows([0], [PERIOD], rows="all"),
    ):
        cache._plans.clear()
        with pytest.warns(
            UserWarning, match="'action': its step is 40 ms before the instant"
        ) as told:
            ask()
        assert [each.filename for each in told] == [__file__]


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
    with pytest.warns(RuntimeWarning, match=r"valid steps inside the episodes: state 8 %"):
        cache.windows(np.zeros(40, np.int64), instants, config)
    plan = cache.plan(config)
    assert plan.looked_at
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.windows(np.zeros(40, np.int64), instants, config)
        # Padding is no fault: steps inside the episode count.
        cache.windows(
            np.zeros(20, np.int64), np.arange(20) * PERIOD, {"action": {"horizon": {"steps": 99}}}
        )


def test_the_mask_of_a_label_does_not_depend_on_other_streams(frames):
    def cache_of(*names):
        rows = np.arange(50, dtype=np.float32)[:, None]
        stamps = np.arange(50) * PERIOD
        longer = {"rows": np.zeros((90, 1), np.float32), "stamp_ns": np.arange(-20, 70) * PERIOD}
        streams = {"action": {"rows": rows, "stamp_ns": stamps}, "late": longer}
        lengths = {"action": [50], "late": [90]}
        return robocache.EpisodeCache.from_arrays(
            {name: streams[name] for name in names},
            {name: lengths[name] for name in names},
            rate_hz=30,
        )

    for strategy in ("hold", "linear", "nearest"):
        for steps in ({"steps": 10}, {"steps": 10, "rate_hz": 50}):
            config = {"action": {"horizon": steps, "strategy": strategy}}
            alone, beside = (
                cache_of(*names).windows([0, 0], [45 * PERIOD, -PERIOD], config)["action"]
                for names in (("action",), ("action", "late"))
            )
            inside = (alone.target_ns >= 0) & (alone.target_ns <= 49 * PERIOD)
            assert (alone.valid == inside).all() and not inside.all()
            assert (beside.valid == inside).all() and (beside.array == alone.array).all()


def test_steps_of_no_length_are_an_error(frames):
    cache, _ = frames
    for step_ms in (0, -33):
        for key in ("history", "horizon"):
            with pytest.raises(
                ValueError, match=f"step_ms in {key} of 'state': expected more than 0"
            ):
                cache.plan({"state": {key: {"steps": 2, "step_ms": step_ms}}})
    assert cache.plan({"state": {"history": {"steps": 1, "step_ms": 0}}})
    with pytest.raises(ValueError, match="required of 'state': expected true or false, found 'no'"):
        cache.plan({"state": {"required": "no"}})


def test_small_batches_are_told_of_too_and_gaps_ahead():
    stamps = np.arange(1, 201) * 200 * MS
    stream = {"rows": np.zeros((200, 1), np.float32), "stamp_ns": stamps}
    cache = robocache.EpisodeCache.from_arrays({"state": stream}, [200], rate_hz=5)
    assert cache.streams["state"]["max_age_ns"] == cache.streams["state"]["max_gap_ns"] == 200 * MS
    zeros = np.zeros(8, np.int64)
    config = {"state": {"max_age_ms": 1, "strategy": "hold"}}
    instants = stamps[:8] + 50 * MS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.windows(zeros, instants, config)
    with pytest.warns(RuntimeWarning, match="valid steps inside the episodes: state 0 %"):
        cache.windows(zeros, instants, config)
    # Each chunk begins at a frame, but most of its steps are between two frames that are too far apart.
    config = {
        "state": {"horizon": {"steps": 100, "rate_hz": 50}, "max_age_ms": 5, "max_gap_ms": 100}
    }
    with pytest.warns(RuntimeWarning, match=r"valid steps inside the episodes: state 1\d %"):
        cache.windows(np.zeros(16, np.int64), stamps[:16], config)


def test_own_steps_of_arrays_are_frames_and_labels(tmp_path):
    stamps = np.arange(1, 91) * PERIOD
    rows = np.arange(90, dtype=np.uint8)[:, None, None, None] * np.ones((1, 1, 2, 2), np.uint8)
    half = {"steps": 2, "step_ms": 500}
    own = {"top": {"rows": rows, "stamp_ns": stamps, "history": half}}
    asked = {"top": {"rows": rows, "stamp_ns": stamps}}
    found, expected = (
        robocache.EpisodeCache.from_arrays(streams, [90], rate_hz=30).windows(
            [0], [stamps[40]], config
        )["top"]
        for streams, config in ((own, None), (asked, {"top": {"history": half}}))
    )
    assert found.target_ns.tolist() == expected.target_ns.tolist()
    assert found.array[0, :, 0, 0, 0].tolist() == [25, 40]
    action = {
        "rows": np.arange(90, dtype=np.float32)[:, None],
        "stamp_ns": stamps,
        "horizon": {"steps": 3},
    }
    made = robocache.EpisodeCache.from_arrays({"action": action}, [90], rate_hz=30)
    made.save(tmp_path / "saved")
    for cache in (made, robocache.EpisodeCache.load(tmp_path / "saved")):
        for config in (None, {"action": {}}):
            label = cache.windows([0], [stamps[-1]], config)["action"]
            assert label.array.ravel().tolist() == [89, 89, 89]
            assert label.is_pad.ravel().tolist() == [False, True, True]


def test_stamps_that_are_late_on_the_grid_of_frames_are_an_error():
    exact = np.round((np.arange(90) + 1) * 1e9 / 30).astype(np.int64)
    rows = np.zeros((90, 1), np.float32)

    def made(stamps, **more):
        streams = {"a": {"rows": rows, "stamp_ns": stamps, **more}}
        return robocache.EpisodeCache.from_arrays(streams, [90], rate_hz=30)

    expected = "expected frame 2 at 2 * 33333333 = 66666666 ns, found 66666667: give frames"
    with pytest.raises(ValueError, match=expected.replace("*", r"\*")):
        made(exact)
    made((np.arange(90) + 1) * PERIOD)
    made(exact + np.arange(90) % 7 * MS)
    made(exact, received_ns=exact)
    for rate in (0, float("nan"), -30):
        with pytest.raises(ValueError, match="rate_hz: expected more than 0 Hz"):
            robocache.EpisodeCache.from_arrays(
                {"a": {"rows": rows, "stamp_ns": exact}}, [90], rate_hz=rate
            )
    with pytest.raises(ValueError, match="'a': expected stamp_ns, found rows"):
        robocache.EpisodeCache.from_arrays({"a": {"rows": rows}}, [90])


def test_names_that_a_batch_has_already_are_an_error():
    stream = {"rows": np.zeros((9, 1), np.float32), "stamp_ns": np.arange(9) * PERIOD}
    for name in ("a.valid", "a_is_pad"):
        cache = robocache.EpisodeCache.from_arrays({"a": stream, name: stream}, [9], rate_hz=30)
        with pytest.raises(ValueError, match=f"expected no stream '{name}'"):
            cache.plan()
        assert cache.plan({name: {}})
