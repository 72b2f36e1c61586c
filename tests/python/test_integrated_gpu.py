"""What is asked of the driver of an integrated GPU, such as a Jetson's. The driver is fake_cuda.c; no GPU is needed.

What a GPU computes there is tested on a real one, whose driver is made to say the same (`benches/gpu.sh test`).
"""

import os
import sys
from collections import Counter
from pathlib import Path

import fake_driver
import pytest
import waiting

import robocache
from robocache import _native

pytestmark = pytest.mark.skipif(_native.cuda_version() is None, reason="built without CUDA")
#: Numbers of CUdevice_attribute.
UNIFIED_ADDRESSING, HOST_POINTER, REGISTER = 41, 91, 99
PROGRAM = """
import sys, robocache
pipeline = robocache.Pipeline(sys.argv[1], backend=sys.argv[2])
print(pipeline.backend)
"""
CONFIG = """\
rate_hz: 50
streams:
  camera: {type: sensor_msgs/Image, topic: /camera, max_age_ms: 100, dtype: u8, ring_rows: 4,
           image: {resize: {width: 8, height: 8}, max_width_px: 64, max_height_px: 64}}
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The folder of the driver."""
    return fake_driver.build(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def made(driver, tmp_path):
    """`made(backend, {number: value})` makes a pipeline; returns the process, and how often each call was made."""

    def make(backend, attributes):
        calls = tmp_path / "calls"
        calls.write_text("")
        fakes = ",".join(f"{number}={value}" for number, value in attributes.items())
        more = {"FAKE_CUDA_ATTRIBUTES": fakes, "FAKE_CUDA_CALLS": str(calls)}
        path = os.pathsep.join(map(str, [Path(robocache.__file__).parents[1], *sys.path]))
        environment = os.environ | more | {"LD_LIBRARY_PATH": str(driver), "PYTHONPATH": path}
        run = waiting.run([sys.executable, "-c", PROGRAM, CONFIG, backend], env=environment)
        return run, Counter(calls.read_text().split())

    return make


def test_kernels_take_the_address_that_the_driver_gives_for_registered_memory(made):
    run, calls = made("auto", {})
    assert run.stdout == "cpu+cuda\n", run.stderr
    assert calls["cuMemHostRegister"] == calls["cuMemHostGetDevicePointer"] > 0
    assert calls["cuMemHostUnregister"] == calls["cuMemHostRegister"]


def test_if_both_use_one_address_the_driver_is_not_asked_for_another(made):
    run, calls = made("auto", {HOST_POINTER: 1})
    assert run.stdout == "cpu+cuda\n", run.stderr
    assert calls["cuMemHostRegister"] > 0 and not calls["cuMemHostGetDevicePointer"]


def test_a_driver_that_registers_no_memory_is_not_asked_to(made):
    for backend, expected in (("auto", "cpu+cuda\n"), ("cuda", "cuda\n")):
        run, calls = made(backend, {REGISTER: 0})
        assert run.stdout == expected, run.stderr
        assert calls["cuMemHostAlloc"] > 0 and not calls["cuMemHostRegister"]


def test_without_unified_addressing_the_gpu_is_not_used(made):
    run, _ = made("cuda", {UNIFIED_ADDRESSING: 0})
    assert run.returncode == 1
    assert "RuntimeError" in run.stderr and "Fake: expected unified addressing" in run.stderr
    run, calls = made("auto", {UNIFIED_ADDRESSING: 0})
    assert run.stdout == "cpu\n" and not calls, run.stderr
