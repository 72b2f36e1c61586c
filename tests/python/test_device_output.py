"""`Pipeline(output="cuda")`. Without a GPU only its errors are tested, and the others are skipped."""

import ctypes
import gc

import numpy as np
import pytest
import waiting
from device_case import CONFIG, START_NS, has_gpu, push, same

import robocache
from robocache import _native
from robocache.contract import config_text

needs_gpu = pytest.mark.skipif(not has_gpu(), reason="no GPU: tensors cannot be on one")


def test_without_a_gpu_the_error_says_why():
    if has_gpu():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="backend cuda: "):
        robocache.Pipeline(CONFIG, output="cuda")
    with pytest.raises(RuntimeError, match="backend cuda: "):
        robocache.Pipeline(CONFIG, backend="cpu", output="cuda")


def test_wrong_places_are_told():
    with pytest.raises(ValueError, match="output: expected host or cuda, found 'gpu'"):
        robocache.Pipeline(CONFIG, output="gpu")
    with pytest.raises(ValueError, match="digest: expected none of tensors on a GPU"):
        robocache.Pipeline(CONFIG, output="cuda", digest=True)


def live(output):
    return _native.LivePipeline(*config_text(CONFIG), "cpu", 0, output, False, False, 0, [])


def newest(pipeline):
    """A tensor that was not taken yet."""
    return waiting.until(lambda: pipeline.wait(1.0), "a tensor of the running pipeline", nap=0)


def test_a_wait_may_be_of_any_length():
    pipeline = live("host")
    for patience in (1e300, float("inf"), 1e18, waiting.PATIENCE):
        assert len(pipeline.wait(patience)) > 0
    for patience in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="patience_s: expected no negative number"):
            pipeline.wait(patience)
    with pytest.raises(RuntimeError, match="expected `watch` before a report"):
        pipeline.report()
    pipeline.close()


def test_tensors_of_a_running_pipeline_are_not_written_while_they_are_held():
    pipeline = live("host")
    held = [np.asarray(newest(pipeline)) for _ in range(25)]
    copies = [array.tobytes() for array in held]
    held_too = [np.asarray(newest(pipeline)) for _ in range(10)]
    assert [array.tobytes() for array in held] == copies
    assert len(set(copies)) == len(copies) and len(held_too) == 10
    pipeline.close()


@needs_gpu
def test_a_running_pipeline_leaves_tensors_on_the_gpu():
    pipeline = live("cuda")
    tensors = [newest(pipeline) for _ in range(8)]
    assert all(tensor.device_len for tensor in tensors)
    del tensors
    pipeline.close()


@needs_gpu
@pytest.mark.parametrize("backend", ["auto", "cuda", "cpu"])
def test_tensors_on_the_gpu_have_the_bits_of_those_on_the_host(backend):
    host = robocache.Pipeline(CONFIG, backend="cpu")
    device = robocache.Pipeline(CONFIG, backend=backend, output="cuda")
    valid = set()
    for number in push([host, device], 7, 60):
        expected, found = host.tick(number), device.tick(number)
        assert found.message is None
        assert (found.run, found.epoch) == (expected.run, expected.epoch)
        for name, segment in found.segments.items():
            assert segment.shape == expected[name].shape
            assert segment.__dlpack_device__() == (2, 0)
            assert (segment.valid == expected[name].valid).all()
            valid.update([name] if segment.valid.all() else [])
        same(found.on_host(), expected)
    assert valid == set(host.tick(0).segments)


@needs_gpu
def test_a_tensor_that_is_held_is_not_written_again():
    device = robocache.Pipeline(CONFIG, output="cuda")
    held, copies = [], []
    for number in push([device], 3, 40):
        tensor = device.tick(number)
        held.append(tensor)
        copies.append(tensor.on_host())
    for tensor, copy in zip(held, copies, strict=True):
        same(tensor.on_host(), copy)
    places = {tensor.data.pointer for tensor in held}
    assert len(places) == len(held)
    del held, tensor
    gc.collect()
    again = device.tick_at(START_NS + 500_000_000)
    assert again.data.pointer in places


@needs_gpu
def test_an_empty_pipeline_gives_zeros_that_are_not_valid():
    tensor = robocache.Pipeline(CONFIG, output="cuda").tick(5)
    assert not any(segment.valid.any() for segment in tensor.segments.values())
    assert not np.any(tensor.on_host().data)


def flags_of(array):
    """The flags that an array tells a reader of DLPack 1.0."""
    capsule = array.__dlpack__(max_version=(1, 0))
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # After the version, the context and the deleter: 4 + 4 + 8 + 8 bytes.
    return ctypes.c_uint64.from_address(pointer(capsule, b"dltensor_versioned") + 24).value


@needs_gpu
def test_a_reader_is_told_that_a_tensor_must_not_be_written():
    tensor = robocache.Pipeline(CONFIG, output="cuda").tick(5)
    assert {flags_of(segment.array) for segment in tensor.segments.values()} == {1}
