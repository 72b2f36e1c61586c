"""The operations on NumPy arrays, compared with an implementation of their rules in NumPy."""

import hashlib
import multiprocessing
import re
from pathlib import Path

import numpy as np
import pytest
import waiting
from operations_reference import NO_AGE, resample

import robocache
from robocache import _native

CASES = 2000
LIMITS = [3_000_000, 50_000_000, None]


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def random_stream(random, counts, dim, dtype):
    """Rows and stamps of episodes with these numbers of rows, concatenated."""
    total = sum(counts)
    rows = random.uniform(-4, 4, (total, dim)).astype(np.float32)
    if dtype == "float16":
        rows = rows.astype(np.float16)
    elif dtype == "bfloat16":
        rows = (rows.view(np.uint32) >> 16).astype(np.uint16)
    base = random.choice([1_795_000_000_123_456_789, 0, -5_000_000_000])
    stamps = [
        base + np.cumsum(1 + random.integers(0, 20_000_000, count)).astype(np.int64)
        for count in counts
    ]
    return rows, np.concatenate([*stamps, np.empty(0, np.int64)])


def random_targets(random, counts, stamps):
    low, high = (stamps.min(), stamps.max()) if len(stamps) else (0, 1)
    targets = random.integers(low - 20_000_000, high + 80_000_000, sum(counts))
    hits = random.random(sum(counts)) < 0.25
    if len(stamps):
        targets[hits] = random.choice(stamps, hits.sum())
    return targets


def offsets_of(counts):
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def random_case(seed):
    """The arguments of a call, and its result by the reference."""
    random = np.random.default_rng(seed)
    dtype = str(random.choice(["float32", "float16", "bfloat16"]))
    row_type = str(random.choice(["float32", dtype]))
    dim = int(random.choice([1, 2, 3, 4, 7, 33, 70]))
    episodes = int(random.integers(1, 4))
    ragged_rows, ragged_targets = random.random(2) < 0.5
    rows_of = (
        random.choice([0, 1, 2, 5, 40], episodes)
        if ragged_rows
        else [int(random.choice([1, 2, 30]))] * episodes
    )
    targets_of = (
        random.choice([0, 1, 9], episodes)
        if ragged_targets
        else [int(random.choice([0, 1, 8]))] * episodes
    )
    rows, stamps = random_stream(random, rows_of, dim, row_type)
    targets = random_targets(random, targets_of, stamps)
    lanes = (
        None if random.random() < 0.5 else list(random.choice(["linear", "angular", "held"], dim))
    )
    keywords = {
        "strategy": str(random.choice(["hold", "nearest", "linear"])),
        "max_age_ns": random.choice(LIMITS),
        "max_gap_ns": random.choice(LIMITS),
        "fill": str(random.choice(["zero", "last", "first"])),
        "lanes": lanes,
    }
    row_offsets, target_offsets = offsets_of(rows_of), offsets_of(targets_of)
    parts = []
    for episode in range(episodes):
        own = slice(*row_offsets[episode : episode + 2])
        of_targets = targets[slice(*target_offsets[episode : episode + 2])]
        limits = [
            NO_AGE if keywords[key] is None else keywords[key]
            for key in ("max_age_ns", "max_gap_ns")
        ]
        parts.append(
            resample(
                rows[own],
                stamps[own],
                of_targets,
                keywords["strategy"],
                *limits,
                keywords["fill"],
                lanes,
                dtype,
            )
        )
    expected = [np.concatenate(part) for part in zip(*parts, strict=True)]
    if not ragged_rows:
        rows, stamps = rows.reshape(episodes, -1, dim), stamps.reshape(episodes, -1)
    if not ragged_targets:
        targets = targets.reshape(episodes, -1)
    expected = [part.reshape(*targets.shape, *part.shape[1:]) for part in expected]
    keywords["row_offsets"] = row_offsets if ragged_rows else None
    keywords["target_offsets"] = target_offsets if ragged_targets else None
    return (rows, stamps, targets), {**keywords, "dtype": dtype}, expected


def as_bits(values):
    return values.view(np.uint16) if values.dtype.name == "bfloat16" else values


def test_random_cases_have_the_bits_of_the_reference():
    for seed in range(CASES):
        arguments, keywords, expected = random_case(seed)
        found = robocache.resample(*arguments, **keywords)
        same_bits(as_bits(found.values), expected[0])
        same_bits(found.valid, expected[1])
        same_bits(found.age_ns, expected[2])


def test_streams_are_fused_as_each_is_resampled():
    for seed in range(200):
        random = np.random.default_rng(seed)
        counts = [4, 9]
        streams = []
        for dim in random.integers(1, 9, random.integers(1, 7)):
            rows, stamps = random_stream(random, counts, int(dim), "float32")
            streams.append(robocache.Stream(rows, stamps, row_offsets=offsets_of(counts)))
        streams[0].strategy = "hold"
        targets = random_targets(random, [5, 5], streams[0].stamps).reshape(2, 5)
        found = robocache.fuse(streams, targets, dtype="float16")
        parts = [
            robocache.resample(
                stream.rows,
                stream.stamps,
                targets,
                strategy=stream.strategy,
                row_offsets=stream.row_offsets,
                dtype="float16",
            )
            for stream in streams
        ]
        same_bits(found.values, np.concatenate([part.values for part in parts], -1))
        same_bits(found.valid, np.stack([part.valid for part in parts]))
        same_bits(found.age_ns, np.stack([part.age_ns for part in parts]))


ROWS = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
STAMPS = np.array([[0, 10, 20, 30]] * 2)
TARGETS = np.array([[5, 15], [25, 40]])


def test_one_episode_needs_no_batch():
    found = robocache.resample(ROWS[0], STAMPS[0], TARGETS[0])
    assert found.values.tolist() == [[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]]
    assert found.valid.tolist() == [True, True]
    assert found.age_ns.tolist() == [-5, -5]


def test_arrays_that_are_not_contiguous_are_taken():
    wide = np.repeat(ROWS, 2, axis=2)[:, :, ::2]
    turned = np.asfortranarray(STAMPS)
    read_only = TARGETS.copy()
    read_only.flags.writeable = False
    assert not wide.flags.c_contiguous
    found = robocache.resample(wide, turned, read_only)
    same_bits(found.values, robocache.resample(ROWS, STAMPS, TARGETS).values)


def test_the_caller_may_give_the_memory():
    out = np.empty((2, 2, 3), np.float32)
    found = robocache.resample(ROWS, STAMPS, TARGETS, out=out)
    assert found.values is out
    same_bits(out, robocache.resample(ROWS, STAMPS, TARGETS).values)


def test_quaternions_turn_the_short_way():
    half = np.sqrt(0.5)
    rows = np.array([[0, 0, 0, 1], [0, 0, -half, -half]], np.float32)
    found = robocache.resample(rows, np.array([0, 10]), np.array([5]), strategy="slerp")
    expected = [[0, 0, np.sin(np.pi / 8), np.cos(np.pi / 8)]]
    np.testing.assert_allclose(found.values, expected, atol=1e-6)
    lanes = ["quaternion"] * 4
    again = robocache.resample(rows, np.array([0, 10]), np.array([5]), lanes=lanes)
    same_bits(again.values, found.values)


def test_no_rows_and_no_targets():
    empty = robocache.resample(ROWS[:, :0], STAMPS[:, :0], TARGETS)
    assert not empty.valid.any()
    assert not empty.values.any()
    assert (empty.age_ns == robocache.NO_AGE).all()
    assert robocache.resample(ROWS, STAMPS, TARGETS[:, :0]).values.shape == (2, 0, 3)
    none = robocache.resample(
        ROWS[0, :0],
        STAMPS[0, :0],
        TARGETS[0, :0],
        row_offsets=np.array([0]),
        target_offsets=np.array([0]),
    )
    assert none.values.shape == (0, 3)


def test_a_nan_stays_one_and_harms_no_other_value():
    rows = ROWS.copy()
    rows[0, 1, 0] = np.nan
    for dtype in ("float32", "float16"):
        values = robocache.resample(rows, STAMPS, TARGETS, dtype=dtype).values
        assert np.isnan(values[0, :, 0]).all()
        assert np.isfinite(values[0, :, 1:]).all()


class OfAnotherLibrary:
    """An array that speaks DLPack and the array API standard, and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __array_namespace__(self):
        return OfAnotherLibrary

    @staticmethod
    def from_dlpack(array):
        return OfAnotherLibrary(np.from_dlpack(array))


def test_arrays_of_any_library_with_dlpack_are_taken_and_given():
    found = robocache.resample(*map(OfAnotherLibrary, (ROWS, STAMPS, TARGETS)))
    expected = robocache.resample(ROWS, STAMPS, TARGETS)
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, OfAnotherLibrary)
        same_bits(one.array, other)
    del found
    strided = OfAnotherLibrary(ROWS.transpose(0, 2, 1))
    with pytest.raises(ValueError, match="rows: expected a contiguous array"):
        robocache.resample(strided, OfAnotherLibrary(STAMPS), OfAnotherLibrary(TARGETS))


OFFSETS = np.array([0, 4, 8])
FLAT = ROWS.reshape(8, 3)

WRONG = [
    (TypeError, "rows: expected elements of float32, float16, bfloat16, found float64", {"rows": ROWS.astype(float)}),
    (TypeError, "rows: expected an array", {"rows": ROWS.tolist()}),
    (TypeError, "stamps: expected elements of int64, found float64", {"stamps": STAMPS.astype(float)}),
    (TypeError, "targets: expected elements of int64, found int32", {"targets": TARGETS.astype(np.int32)}),
    (ValueError, "stamps: expected the shape [2, 4], found [2, 3]", {"stamps": STAMPS[:, :3]}),
    (ValueError, "rows: expected 2 episodes, as there are of targets, found 1", {"rows": ROWS[:1], "stamps": STAMPS[:1]}),
    (ValueError, "targets: expected the shape [T] or [B, T], found []", {"targets": np.int64(3) * np.ones((), np.int64)}),
    (ValueError, "rows: expected the shape [B, S, D]", {"rows": FLAT}),
    (ValueError, "stamps: expected strictly increasing ones in each episode, found 30 after 30", {"stamps": np.array([[0, 10, 20, 30], [0, 10, 30, 30]])}),
    (ValueError, "strategy: expected hold, nearest, linear or slerp, found cubic", {"strategy": "cubic"}),
    (ValueError, "fill: expected zero, last or first, found next", {"fill": "next"}),
    (ValueError, "expected no negative numbers, found -1", {"max_age_ns": -1}),
    (TypeError, "dtype: expected elements of float32, float16, bfloat16, found float64", {"dtype": np.float64}),
    (TypeError, "rows: expected float32 or the values' type, float16, found bfloat16", {"rows": np.zeros((2, 4, 3), np.uint16), "dtype": "float16"}),
    (ValueError, "lanes: expected one for each of 3 elements, found 1", {"lanes": ["linear"]}),
    (ValueError, "lanes: expected names of linear, angular, quaternion, held", {"lanes": ["linear", "round", "linear"]}),
    (ValueError, "lanes: expected quaternions of 4 elements, found 3 of them", {"strategy": "slerp"}),
    (ValueError, "out: expected the shape [2, 2, 3], found [2, 2, 4]", {"out": np.zeros((2, 2, 4), np.float32)}),
    (TypeError, "out: expected elements of float32, found float64", {"out": np.zeros((2, 2, 3))}),
    (ValueError, "out: expected a contiguous array", {"out": np.zeros((2, 2, 6), np.float32)[:, :, ::2]}),
    (ValueError, "row_offsets: expected the shape [B + 1]", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS[None]}),
    (ValueError, "rows: expected 2 episodes", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS[:2]}),
    (ValueError, "row offsets: expected them from 0 to 8, found 0 to 9", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS + [0, 0, 1]}),
    (ValueError, "row offsets: expected them from 0 to 8, found -1 to 8", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS + [-1, 0, 0]}),
    (ValueError, "row offsets: expected no decrease, found 8 after 9", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS + [0, 5, 0]}),
    (ValueError, "target offsets: expected no decrease", {"targets": TARGETS.reshape(4), "target_offsets": np.array([0, 5, 4])}),
    (ValueError, "target_offsets: expected at least one offset", {"targets": TARGETS.reshape(4), "target_offsets": np.empty(0, np.int64)}),
    (ValueError, "targets: expected [B, T], or target_offsets", {"rows": FLAT, "stamps": STAMPS.reshape(8), "row_offsets": OFFSETS, "targets": TARGETS[0]}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "change"), WRONG, ids=[w[1] for w in WRONG])
def test_wrong_arguments_are_told(error, message, change):
    arguments = {"rows": ROWS, "stamps": STAMPS, "targets": TARGETS, **change}
    with pytest.raises(error, match=re.escape(message)):
        robocache.resample(**arguments)


def test_an_output_that_is_read_only_is_refused():
    out = np.empty((2, 2, 3), np.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        robocache.resample(ROWS, STAMPS, TARGETS, out=out)


def test_streams_of_several_types_need_one_for_the_values():
    streams = [
        robocache.Stream(ROWS, STAMPS),
        robocache.Stream(ROWS.astype(np.float16), STAMPS),
    ]
    with pytest.raises(ValueError, match="dtype: expected it"):
        robocache.fuse(streams, TARGETS)
    assert robocache.fuse(streams, TARGETS, dtype=np.float16).values.shape == (2, 2, 6)
    with pytest.raises(ValueError, match="streams: expected at least one"):
        robocache.fuse([], TARGETS)


def test_a_gpu_that_is_not_there_is_an_exception():
    with pytest.raises(RuntimeError):
        _native.empty(1000, [4], "float32")


def digest(_):
    random = np.random.default_rng(1)
    rows, stamps = random_stream(random, [400] * 8, 64, "float32")
    targets = random_targets(random, [300] * 8, stamps).reshape(8, -1)
    found = robocache.resample(rows.reshape(8, 400, 64), stamps.reshape(8, 400), targets)
    return hashlib.sha256(found.values.tobytes()).hexdigest()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_are_forked_or_spawned_compute_the_same(method):
    # Threads have been used before the fork.
    expected = digest(0)
    with multiprocessing.get_context(method).Pool(2) as pool:
        digests = pool.map_async(digest, range(4))
        waiting.until(digests.ready, "the digests of other processes")
        assert digests.get() == [expected] * 4


def test_the_output_has_memory_of_its_own():
    values = np.arange(8, dtype=np.float32).reshape(1, 8, 1)
    stamps = np.arange(8, dtype=np.int64)[None] * 10
    with pytest.raises(ValueError, match="out: expected memory that no input has"):
        robocache.resample(values, stamps, stamps, out=values)


@pytest.mark.parametrize("which", ["rows", "stamps", "targets", "row_offsets", "target_offsets"])
def test_the_output_meets_no_array_of_any_stream(which):
    buffer = np.zeros(4096, np.uint8)
    arrays = {
        "rows": np.arange(8, dtype=np.float32).reshape(8, 1),
        "stamps": np.arange(8, dtype=np.int64) * 10,
        "targets": np.arange(8, dtype=np.int64) * 10,
        "row_offsets": np.array([0, 8], np.int64),
        "target_offsets": np.array([0, 8], np.int64),
    }
    own = arrays[which]
    shared = buffer[: own.nbytes].view(own.dtype).reshape(own.shape)
    shared[:] = own
    out = buffer[:64].view(np.float32).reshape(8, 2)
    second = {**arrays, which: shared}
    streams = [
        robocache.Stream(each["rows"], each["stamps"], row_offsets=each["row_offsets"])
        for each in (arrays, second)
    ]
    targets, offsets = second["targets"], second["target_offsets"]
    with pytest.raises(ValueError, match="out: expected memory that no input has"):
        robocache.fuse(streams, targets, target_offsets=offsets, out=out)


def test_rows_of_too_many_elements_are_an_exception():
    nothing = np.empty((1, 0), np.int64)
    with pytest.raises(ValueError, match="expected fewer than 2\\^31"):
        robocache.resample(np.empty((1, 0, 2**60), np.float32), nothing, nothing)


def unaligned(array):
    """The same numbers, a byte beyond where their type may begin."""
    memory = np.empty(array.nbytes + 1, np.uint8)[1:]
    memory[:] = np.frombuffer(array.tobytes(), np.uint8)
    return memory.view(array.dtype).reshape(array.shape)


def test_arrays_that_are_not_aligned_are_copied_and_outputs_refused():
    rows, stamps = np.arange(8, dtype=np.float32).reshape(4, 2), np.arange(4) * 10
    targets = np.array([5, 20, 30])
    expected = robocache.resample(rows, stamps, targets, max_age_ns=100, max_gap_ns=100)
    odd = [unaligned(array) for array in (rows, stamps, targets)]
    assert not any(array.flags.aligned for array in odd)
    found = robocache.resample(*odd, max_age_ns=100, max_gap_ns=100)
    same_bits(found.values, expected.values)
    with pytest.raises(ValueError, match="out: .*multiples of their size"):
        out = unaligned(np.zeros((3, 2), np.float32))
        robocache.resample(rows, stamps, targets, max_age_ns=100, max_gap_ns=100, out=out)
    with pytest.raises(ValueError, match="stamps: expected elements at multiples"):
        _native.View(unaligned(stamps), "stamps", 1)


def test_an_array_with_a_mask_is_refused():
    masked = np.ma.masked_array(np.zeros((4, 2), np.float32), mask=np.eye(4, 2))
    for rows in (masked, masked[::2]):
        with pytest.raises(TypeError, match="rows: expected an array without a mask"):
            robocache.resample(rows, np.arange(len(rows)), np.arange(1))
    with pytest.raises(TypeError, match="rows: expected an array without a mask"):
        _native.View(masked, "rows", 1)


@pytest.mark.parametrize("shape", [(1 << 60,), (1 << 44, 1 << 3), (1 << 31, 1 << 31, 1 << 31)])
def test_memory_that_is_not_there_is_an_exception(shape):
    with pytest.raises((MemoryError, ValueError)):
        _native.empty(-1, shape, "float32")


def test_the_examples_of_the_page_print_what_it_says(capsys):
    page = Path(__file__).parents[2] / "docs" / "python.md"
    _, section = page.read_text().split("\n## Operations on arrays\n")
    examples = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {}
    for example in examples:
        exec(example, names)
        printed = re.findall(r"^print\(.*\)  # (.*?)(?::.*)?$", example, re.MULTILINE)
        assert "".join(capsys.readouterr().out.split()) == "".join("".join(printed).split())
    called = {name for name in robocache.__all__ if f"robocache.{name}(" in "".join(examples)}
    assert called >= {"resample", "fuse", "voxelize", "encode_image"}
    # What the page says of the example without a greatest age.
    rows, stamps, targets = (names[name] for name in ("rows", "stamps", "targets"))
    unlimited = robocache.resample(rows, stamps, targets, max_gap_ns=50_000_000)
    assert unlimited.valid.all() and (unlimited.values[0, 2] == rows[0, -1]).all()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda rows, times: robocache.resample_trajectories(rows, times, times),
            "source_data: expected a torch.Tensor, found numpy.ndarray; robocache.resample and",
        ),
        (
            lambda rows, times: robocache.fuse_multimodal(*[rows, times] * 3, times),
            "stream1_data: expected a torch.Tensor, found numpy.ndarray",
        ),
        (
            lambda rows, times: robocache.voxelize_pointcloud(rows[0]),
            "points: expected a torch.Tensor, found numpy.ndarray",
        ),
        (
            lambda rows, times: robocache.voxelize_occupancy(
                rows.tolist(), (8,) * 3, 0.1, (0,) * 3
            ),
            "points: expected a torch.Tensor, found builtins.list",
        ),
    ],
)
def test_functions_for_tensors_say_so(call, said):
    with pytest.raises(TypeError, match=said):
        call(np.zeros((1, 4, 3), np.float32), np.arange(4, dtype=np.float64)[None])
