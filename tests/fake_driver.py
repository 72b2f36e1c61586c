"""Builds a CUDA driver that computes nothing (fake_cuda.c), for a program that finds it in LD_LIBRARY_PATH."""

import os
import shlex
from pathlib import Path

import waiting


def build(folder):
    """Compiles it into this folder, and returns the folder."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    source = Path(__file__).parent / "python" / "fake_cuda.c"
    command = [*compiler, "-shared", "-fPIC", "-pthread", "-o", folder / "libcuda.so.1", source]
    waiting.run(command, check=True)
    # A loader may ask for this name first, and would find the machine's own driver.
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder
