"""`backend=`, `voxelize_occupancy`, `self_test` and what says what is installed: the public names of the RoboCache that came before."""

import inspect
import io
import sys

import pytest
import waiting

torch = pytest.importorskip("torch")

import robocache  # noqa: E402 (torch may not be there)
from robocache import _native  # noqa: E402
from robocache.arrays import installation  # noqa: E402

HAS_GPU = torch.cuda.is_available() and _native.cuda_version() is not None
DEVICES = ["cpu"] + ["cuda"] * HAS_GPU
on_devices = pytest.mark.parametrize("device", DEVICES)
KEYS = {
    *(f"{name}_extension_available" for name in ("cuda", "multimodal", "voxelize")),
    *("pytorch_available", "cuda_device_available", "gpu_name"),
}


def calls(device):
    """Each function with a backend, as a function of it."""
    rows, times = torch.rand(2, 9, 3, device=device), torch.arange(9.0, device=device).expand(2, -1)
    targets = torch.tensor([[0.5, 3.25], [1.0, 7.5]], device=device)
    points = torch.rand(2, 50, 3, device=device)
    return {
        "resample_trajectories": (rows, times, targets),
        "fuse_multimodal": (rows, times, rows, times, rows, times, targets),
        "voxelize_pointcloud": (points[0],),
        "voxelize_occupancy": (points, [4, 5, 6], 0.2, [0.0, 0.0, 0.0]),
    }


@on_devices
def test_the_backend_changes_no_bit(device):
    for name, given in calls(device).items():
        function = getattr(robocache, name)
        parameters = inspect.signature(function).parameters
        assert list(parameters)[-1] == "backend" and parameters["backend"].default is None
        plain = function(*given)
        assert torch.equal(function(*given, backend="pytorch"), plain)
        if device == "cuda":
            assert torch.equal(function(*given, backend="cuda"), plain)


def test_a_backend_that_cannot_be_is_an_error():
    for name, given in calls("cpu").items():
        function = getattr(robocache, name)
        with pytest.raises(RuntimeError, match="backend: expected 'cuda', 'pytorch' or None, fo"):
            function(*given, backend="numpy")
        expected = "tensors on a GPU" if HAS_GPU else "a GPU for 'cuda', found none: "
        with pytest.raises(RuntimeError, match=f"backend: expected {expected}"):
            function(*given, backend="cuda")


@on_devices
@pytest.mark.parametrize("as_tensors", [False, True])
def test_clouds_become_grids_of_zeros_and_ones_with_x_first(device, as_tensors):
    random = torch.Generator().manual_seed(4)
    points = torch.rand(3, 400, 3, generator=random) * 3 - 1.5
    size, origin, shape = 0.25, [-1.0, -0.5, 0.0], [8, 5, 3]
    expected = torch.zeros(3, *shape)
    for cloud, point in torch.cartesian_prod(torch.arange(3), torch.arange(400)).tolist():
        cell = ((points[cloud, point].double() - torch.tensor(origin)) / size).floor().int()
        if all(0 <= own < most for own, most in zip(cell.tolist(), shape, strict=True)):
            expected[(cloud, *cell.tolist())] = 1
    given = [shape, size, origin]
    if as_tensors:
        given = [torch.tensor(shape, dtype=torch.int32), size, torch.tensor(origin)]
        given = [each.to(device) if hasattr(each, "to") else each for each in given]
    found = robocache.voxelize_occupancy(points.to(device), *given)
    assert found.dtype == torch.float32 and found.is_contiguous()
    assert torch.equal(found.cpu(), expected) and 0 < expected.sum() < expected.numel()
    empty = robocache.voxelize_occupancy(points[:, :0].to(device), *given)
    assert empty.shape == expected.shape and not empty.any()


@pytest.mark.parametrize(
    "points, shape, size",
    [((1, 9, 2), [4, 4, 4], 0.1), ((9, 3), [4, 4, 4], 0.1), ((1, 9, 3), [0, 4, 4], 0.1)]
    + [((1, 9, 3), [4, 4, 4], -0.1)],
)
def test_grids_that_cannot_be_are_told(points, shape, size):
    with pytest.raises(ValueError, match="expected"):
        robocache.voxelize_occupancy(torch.rand(points), shape, size, [0, 0, 0])


def test_the_self_test_passes(capsys):
    assert robocache.self_test() is True
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3 * len(DEVICES) and all(line.endswith(": as expected") for line in said)


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("resample_trajectories", lambda found: found + 2**-4),
        ("resample_trajectories", lambda found: found[:, :-1]),
        ("resample_trajectories", lambda found: found / 0),
        ("fuse_multimodal", lambda found: found.roll(1, 2)),
        ("voxelize_pointcloud", lambda found: found.transpose(0, 1)),
        ("voxelize_pointcloud", lambda found: found.roll(1, 2)),
        (
            "voxelize_occupancy",
            lambda found: found * (torch.arange(len(found)) < 1)[:, None, None, None],
        ),
    ],
)
def test_the_self_test_finds_what_is_wrong(monkeypatch, name, wrong):
    function = getattr(installation, name)
    monkeypatch.setattr(
        installation, name, lambda *given, **named: wrong(function(*given, **named))
    )
    with pytest.raises(RuntimeError, match=r" on cpu: expected .*, found "):
        robocache.self_test()


def test_the_self_test_tests_every_operation(monkeypatch):
    called = set()
    for name in calls("cpu"):

        def noted(*given, name=name, function=getattr(installation, name), **named):
            called.add(name)
            return function(*given, **named)

        monkeypatch.setattr(installation, name, noted)
    assert robocache.self_test() and called == set(calls("cpu"))


def test_what_is_installed():
    info = robocache.check_installation()
    assert set(info) == KEYS and info["pytorch_available"] is True
    assert info["cuda_device_available"] is torch.cuda.is_available()
    assert info["cuda_extension_available"] is robocache.is_cuda_available() is HAS_GPU
    assert (info["gpu_name"] is None) is not torch.cuda.is_available()
    stream = io.StringIO()
    robocache.print_installation_info(stream)
    said = stream.getvalue()
    assert torch.__version__ in said and robocache.__version__ in said
    why = "works" if HAS_GPU else "without CUDA" if _native.cuda_version() is None else "GPU"
    assert why in said


def test_what_is_installed_without_torch():
    code = "import importlib.util as u; find = u.find_spec\n"
    code += "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
    code += "import robocache; info = robocache.check_installation()\n"
    code += "print(info['pytorch_available'], info['cuda_device_available'], info['gpu_name'])\n"
    code += "robocache.print_installation_info()"
    run = waiting.run([sys.executable, "-c", code])
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[0] == "False False None" and "PyTorch:" in run.stdout
