"""The operations on torch tensors: on the CPU, and on a GPU if there is one."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from batches import bits, case, on_a_gpu, on_devices, same_bits, tensor  # noqa: E402

import robocache  # noqa: E402 (torch may not be there)
import robocache.arrays.torch  # noqa: E402
from robocache.arrays import batch_shapes, interop, torch_kernels  # noqa: E402

sys.path.insert(0, str(Path(__file__).parents[1]))

from test_operations import FLAT, OFFSETS, ROWS, STAMPS, TARGETS, random_case  # noqa: E402

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@on_devices
def test_random_cases_have_the_bits_of_the_reference(device):
    for seed in range(2000):
        arguments, keywords, expected = random_case(seed)
        keywords["dtype"] = TYPES[keywords["dtype"]]
        for key in ("row_offsets", "target_offsets"):
            keywords[key] = tensor(keywords[key], device)
        found = robocache.resample(*(tensor(each, device) for each in arguments), **keywords)
        assert found.values.device.type == device
        expected_bits = expected[0].view({4: np.int32, 2: np.int16}[expected[0].itemsize])
        assert (bits(found.values) == expected_bits).all(), seed
        assert (found.valid.cpu().numpy() == expected[1]).all(), seed
        assert (found.age_ns.cpu().numpy() == expected[2]).all(), seed


@on_devices
def test_tensors_that_are_not_contiguous_or_aligned_are_taken(device):
    rows, stamps, targets = case(device)
    expected = robocache.resample(rows, stamps, targets).values
    turned = rows.transpose(0, 2).contiguous().transpose(0, 2)
    same_bits(robocache.resample(turned, stamps.t().contiguous().t(), targets).values, expected)
    memory = torch.empty(rows.numel() + 1, device=device)[1:].view(rows.shape)
    memory.copy_(rows)
    same_bits(robocache.resample(memory, stamps, targets).values, expected)
    expanded = stamps[:1].expand(4, -1)
    same_bits(
        robocache.resample(rows, expanded, targets).values,
        robocache.resample(rows, expanded.contiguous(), targets).values,
    )


def shifted(tensor, by):
    """The same values, `by` bytes behind an aligned address."""
    memory = torch.zeros(tensor.nbytes + 8, dtype=torch.uint8, device=tensor.device)
    memory[by : by + tensor.nbytes] = tensor.contiguous().view(torch.uint8).flatten()
    # Only NumPy and DLPack make such tensors.
    if tensor.is_cuda:
        cupy = pytest.importorskip("cupy")
        of = cupy.from_dlpack(memory)[by : by + tensor.nbytes].view(str(tensor.dtype)[6:])
        found = torch.from_dlpack(of).view(tensor.shape)
    else:
        found = torch.frombuffer(
            memory.numpy(), dtype=tensor.dtype, offset=by, count=tensor.numel()
        )
        found = found.view(tensor.shape)
    assert found.data_ptr() % 8 == by
    return found


def generally(monkeypatch):
    """Every call goes the general way."""
    monkeypatch.setattr(torch_kernels, "DIRECT", None)
    monkeypatch.setattr(interop, "take", None)


@on_devices
@pytest.mark.parametrize("direct", [True, False])
def test_instants_and_offsets_that_are_not_aligned_are_copied(device, direct, monkeypatch):
    if not direct:
        generally(monkeypatch)
    rows, stamps, targets = case(device)
    expected = robocache.resample(rows, stamps, targets).values
    for own, other in (
        (shifted(stamps, 4), targets),
        (stamps, shifted(targets, 3)),
        (shifted(stamps, 1), shifted(targets, 7)),
    ):
        same_bits(robocache.resample(rows, own, other).values, expected)
    whole = torch.tensor([0, rows.shape[1]], device=device)
    ends = torch.tensor([0, targets.shape[1]], device=device)
    first = robocache.resample(
        rows[0],
        stamps[0],
        targets[0],
        row_offsets=shifted(whole, 4),
        target_offsets=shifted(ends, 4),
    )
    same_bits(first.values, expected[0])
    rows.requires_grad_()
    of_rows = [
        torch.autograd.grad(robocache.resample(rows, own, other).values.square().sum(), rows)[0]
        for own, other in ((stamps, targets), (shifted(stamps, 4), shifted(targets, 4)))
    ]
    same_bits(*of_rows)


@pytest.mark.parametrize("direct", [True, False])
def test_negated_views_of_rows_and_outputs(direct, monkeypatch):
    if not direct:
        generally(monkeypatch)
    rows, stamps, targets = case("cpu")
    expected = robocache.resample(rows, stamps, targets).values
    own = torch._neg_view(-rows)
    assert own.is_neg() and own.is_contiguous()
    same_bits(robocache.resample(own, stamps, targets).values, expected)
    own = torch.complex(torch.zeros_like(rows), -rows).conj().imag
    assert own.is_neg()
    same_bits(robocache.resample(own, stamps, targets).values, expected)
    out = torch._neg_view(torch.zeros_like(expected))
    with pytest.raises(ValueError, match="negated view"):
        robocache.resample(rows, stamps, targets, out=out)
    with pytest.raises(ValueError, match="negated view"):
        robocache.fuse([robocache.Stream(rows, stamps)], targets, out=out)
    points = torch.rand(50, 3)
    rule = {"origin_m": [0, 0, 0], "size_m": 0.5, "shape": [2, 2, 2]}
    found = robocache.voxelize(torch._neg_view(-points), **rule).values
    same_bits(found, robocache.voxelize(points, **rule).values)
    with pytest.raises(ValueError, match="out: expected"):
        robocache.voxelize(points, **rule, out=torch._neg_view(torch.zeros_like(found)))


def test_addresses_of_instants_that_are_not_aligned_are_an_error():
    rule = batch_shapes.rule("hold", 1, 1, "zero", 1, "")
    memory = np.zeros(64, np.int64)
    at = memory.ctypes.data
    for targets, ages, stamps, offsets in ((4, 0, 0, 0), (0, 4, 0, 0), (0, 0, 4, 0), (0, 0, 0, 4)):
        stream = (rule, at, 0, (at + stamps, 1, at + 64 + offsets if offsets else 0))
        with pytest.raises(ValueError, match="multiples of 8"):
            robocache._native.fuse(
                (-1, 1), (0, 0), 1, (at + targets, 1, 0), (at, at + 8, at + 16 + ages), [stream]
            )


def test_another_table_of_torch_leaves_the_plain_way():
    """What a torch of another version has is not taken for what is known."""
    import ctypes

    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    name, place = b"dlpack_exchange_api_of_another_version", ctypes.create_string_buffer(64)
    for table in (make(ctypes.addressof(place), name, None), 3, None):
        kind = type("Of", (), {"__dlpack_c_exchange_api__": table})
        with pytest.raises(TypeError, match="found none"):
            robocache._native.Direct(kind, *[None] * 4, [None] * 5, [None] * 6)


@on_devices
def test_the_caller_may_give_the_memory(device):
    rows, stamps, targets = case(device)
    out = torch.empty(4, 30, 24, device=device)
    assert robocache.resample(rows, stamps, targets, out=out).values is out
    same_bits(out, robocache.resample(rows, stamps, targets).values)
    with pytest.raises(RuntimeError, match="no gradient"):
        robocache.resample(rows.requires_grad_(), stamps, targets, out=out)


WRONG = [
    (
        TypeError,
        "rows: expected elements of float32, float16 or bfloat16",
        {"rows": ROWS.astype(float)},
    ),
    (TypeError, "stamps: expected elements of int64", {"stamps": STAMPS.astype(float)}),
    (ValueError, "stamps: expected the shape", {"stamps": STAMPS[:, :3]}),
    (ValueError, "rows: expected 2 episodes", {"rows": ROWS[:1], "stamps": STAMPS[:1]}),
    (ValueError, "rows: expected the shape", {"rows": FLAT}),
    (ValueError, "row_offsets: expected the shape", {"rows": FLAT, "row_offsets": OFFSETS[None]}),
    (ValueError, "strategy: expected hold", {"strategy": "cubic"}),
]


@on_devices
@pytest.mark.parametrize(("error", "message", "change"), WRONG, ids=[w[1] for w in WRONG])
def test_wrong_arguments_are_told(device, error, message, change):
    arguments = {"rows": ROWS, "stamps": STAMPS, "targets": TARGETS, **change}
    arguments = {
        key: tensor(each, device) if isinstance(each, np.ndarray) else each
        for key, each in arguments.items()
    }
    with pytest.raises(error, match=message):
        robocache.resample(**arguments)


def test_arrays_of_two_libraries_are_not_mixed():
    rows, stamps, targets = (tensor(each, "cpu") for each in (ROWS, STAMPS, TARGETS))
    with pytest.raises(TypeError, match="stamps: expected a torch tensor, found ndarray"):
        robocache.resample(rows, STAMPS, targets)
    with pytest.raises(TypeError, match="stamps: expected an array of the library of the rows"):
        robocache.resample(ROWS, stamps, TARGETS)
    with pytest.raises(ValueError, match="out: expected a tensor on cpu, found one on meta"):
        robocache.resample(rows, stamps, targets, out=torch.empty(2, 2, 3, device="meta"))


@on_a_gpu
def test_tensors_of_two_devices_are_not_mixed():
    rows, stamps, targets = case("cuda")
    with pytest.raises(ValueError, match="stamps: expected a tensor on cuda:0, found one on cpu"):
        robocache.resample(rows, stamps.cpu(), targets)


@on_a_gpu
def test_it_runs_on_the_current_stream():
    rows, stamps, targets = case("cuda", rows=4000, dim=128, steps=1000)
    expected = robocache.resample(rows * 3, stamps, targets).values
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    results = []
    for turn in range(40):
        with torch.cuda.stream(streams[turn % 4]):
            torch.cuda._sleep(100_000)
            # The rows are made on this stream, late: a launch elsewhere would read something else.
            results.append(robocache.resample(rows * 3, stamps, targets).values * 1)
    torch.cuda.synchronize()
    for found in results:
        same_bits(found, expected)


@on_a_gpu
def test_it_does_not_wait():
    rows, stamps, targets = case("cuda")
    robocache.resample(rows, stamps, targets)
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)
    robocache.resample(rows, stamps, targets)
    assert not torch.cuda.current_stream().query()
    torch.cuda.synchronize()


@on_a_gpu
def test_wrong_offsets_on_a_gpu_give_no_valid_values_and_no_wrong_access():
    rows, stamps, targets = (each.flatten(0, 1) for each in case("cuda"))
    for wrong in ([0, 10**12, -5, 200, 200], [-7, -6, -5, -4, -3], [500] * 5):
        offsets = torch.tensor(wrong, device="cuda")
        found = robocache.resample(
            rows, stamps, targets, row_offsets=offsets, target_offsets=offsets
        )
        assert found.values.isfinite().all()
        assert not found.valid[found.values.eq(0).all(-1)].any()
    torch.cuda.synchronize()


@on_a_gpu
@pytest.mark.parametrize("name", ["cupy", "jax.numpy"])
def test_arrays_of_other_libraries_on_a_gpu(name):
    library = pytest.importorskip(name)
    if name == "jax.numpy":
        pytest.importorskip("jax").config.update("jax_enable_x64", True)
    rows, stamps, targets = case("cuda")
    take = getattr(library, "from_dlpack", None)
    found = robocache.resample(take(rows), take(stamps), take(targets))
    assert type(found.values) is type(take(rows))
    same_bits(torch.from_dlpack(found.values), robocache.resample(rows, stamps, targets).values)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="fewer than two GPUs")
def test_tensors_of_a_gpu_that_is_not_the_current_one():
    rows, stamps, targets = case("cuda:1")
    found = robocache.resample(rows, stamps, targets)
    assert torch.cuda.current_device() == 0
    assert found.values.device == torch.device("cuda:1")
    assert torch.empty(1, device="cuda").device.index == 0
    expected = robocache.resample(*(each.to("cuda:0") for each in (rows, stamps, targets)))
    same_bits(found.values, expected.values)


class Loaded(torch.utils.data.Dataset):
    """A data set whose items are resampled in a worker."""

    def __len__(self):
        return 8

    def __getitem__(self, at):
        return robocache.resample(*case("cpu", seed=at)).values


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_it_works_in_the_workers_of_a_data_loader(method):
    robocache.resample(*case("cpu", rows=2000, dim=256, steps=2000))
    loader = torch.utils.data.DataLoader(
        Loaded(), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    for at, found in enumerate(loader):
        same_bits(found, Loaded()[at])


@on_devices
def test_clouds_and_images_of_tensors(device):
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (2, 3000, 4)).astype(np.float32)
    grid = {"origin_m": (-1, -1, -1), "size_m": 0.25, "shape": (8, 8, 8)}
    for channels in (["count"], ["count", "mean(i)"], ["min(i)", "last(range)", "sum(x)"]):
        expected = robocache.voxelize(points, fields="xyzi", channels=channels, **grid)
        of_tensor = tensor(points, device)
        found = robocache.voxelize(of_tensor, fields="xyzi", channels=channels, **grid)
        assert found.values.device.type == device
        assert (found.values.cpu().numpy() == expected.values).all()
        assert found.dropped.tolist() == expected.dropped.tolist()
    images = random.integers(0, 256, (3, 40, 60, 3), np.uint8)
    expected = robocache.encode_image(images, size=(32, 32), dtype="float16")
    found = robocache.encode_image(tensor(images, device), size=(32, 32), dtype=torch.float16)
    assert found.device.type == device
    assert (bits(found) == expected.view(np.int16)).all()


def test_the_output_is_noted_by_autograd_and_has_memory_of_its_own():
    rows, stamps = torch.arange(8.0).reshape(1, 8, 1), torch.arange(8)[None]
    out = torch.zeros(1, 8, 1)
    robocache.resample(rows, stamps, stamps, out=out)
    assert out._version == 1 and torch.equal(out, rows)
    with pytest.raises(ValueError, match="out: expected memory that no input has"):
        robocache.resample(rows, stamps, stamps, out=rows)


def test_a_negated_view_has_its_sign():
    rows, stamps = torch.arange(8.0).reshape(4, 2), torch.arange(4)
    found = robocache.resample(torch._neg_view(rows), stamps, stamps).values
    assert torch.equal(found, -rows)


@on_devices
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("single", [False, True])
def test_the_direct_way_has_the_results_of_the_general_one(device, dtype, single, monkeypatch):
    if torch_kernels.DIRECT is None:
        pytest.skip("this torch has no functions for C code")
    rows, stamps, targets = case(device, dtype)
    wide = case(device, dim=40, rows=33, seed=3)[0]
    others = case(device, rows=33, seed=3)[1]
    if single:
        rows, stamps, targets, wide, others = (
            each[0] for each in (rows, stamps, targets, wide, others)
        )
    lanes = ["quaternion"] * 8 + ["angular"] * 16
    streams = [
        robocache.Stream(rows, stamps, lanes=lanes, max_gap_ns=15, fill="last"),
        robocache.Stream(wide, others, strategy="nearest", max_age_ns=9),
        robocache.Stream(rows, stamps, strategy="hold"),
    ]

    def results():
        one = robocache.resample(rows, stamps, targets, lanes=lanes, max_gap_ns=15)
        return [one, robocache.fuse(streams, targets, dtype=dtype)]

    taken = []
    direct = torch_kernels.DIRECT

    class Watched:
        def take(self, *arguments):
            taken.append(direct.take(*arguments))
            return taken[-1]

        def fuse(self, *arguments):
            taken.append(direct.fuse(*arguments))
            return taken[-1]

    watched = Watched()
    monkeypatch.setattr(torch_kernels, "DIRECT", watched)
    monkeypatch.setattr(interop, "take", watched.take)
    found = results()
    assert len(taken) == 2 and not any(each is None for each in taken)
    generally(monkeypatch)
    for own, expected in zip(found, results(), strict=True):
        same_bits(own.values, expected.values)
        assert torch.equal(own.valid, expected.valid) and own.valid.dtype == torch.bool
        assert torch.equal(own.age_ns, expected.age_ns)


@on_devices
def test_threads_may_call_at_once(device):
    cases = [case(device, seed=seed, rows=20 + seed) for seed in range(4)]
    points = torch.rand(3000, 3, device=device)
    grid = {"origin_m": (0, 0, 0), "size_m": 0.25, "shape": (4, 4, 4), "channels": ["count"]}
    counts = robocache.voxelize(points, **grid).values
    expected = [robocache.resample(*each).values for each in cases]
    wrong = []

    def act(at):
        for _ in range(30):
            found = robocache.resample(*cases[at]).values
            if not torch.equal(found, expected[at]):
                wrong.append(at)
            if not torch.equal(robocache.voxelize(points, **grid).values, counts):
                wrong.append("voxelize")

    threads = [threading.Thread(target=act, args=(at,)) for at in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_an_output_never_overlaps_an_input():
    buffer = bytearray(4096)
    rows = torch.frombuffer(buffer, dtype=torch.float32, count=64).view(1, 8, 8)
    stamps, targets = torch.arange(8)[None], torch.arange(8)[None]
    # Two storages over one memory, and two halves of one storage.
    meets = torch.frombuffer(buffer, dtype=torch.float32, count=64, offset=128).view(1, 8, 8)
    with pytest.raises(ValueError, match="memory that no input has"):
        robocache.resample(rows, stamps, targets, out=meets)
    both = torch.rand(2, 8, 8)
    found = robocache.resample(both[:1], stamps, targets, out=both[1:])
    assert torch.equal(found.values, both[:1])
    pixels = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)
    with pytest.raises(ValueError, match="memory that no input has"):
        robocache.encode_image(pixels, size=(16, 16), layout="hwc", dtype="uint8", out=pixels)
