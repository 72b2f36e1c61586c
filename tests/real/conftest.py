"""The folder of published data: ROBOCACHE_REAL_DATA names it. Without it, these tests are skipped.

They compare with other readers: pyarrow, PyAV, Pillow, SciPy, NumPy, and a reader of TFRecord files in this folder.
"""

import os
from pathlib import Path

import pytest

DATA = os.environ.get("ROBOCACHE_REAL_DATA")


@pytest.fixture(name="real")
def real_fixture():
    """The path of a part of the data by its name. The test is skipped if it is not there."""
    if not DATA:
        pytest.skip("ROBOCACHE_REAL_DATA names no folder with published data")

    def path(name):
        found = Path(DATA).resolve() / name
        if not found.exists():
            pytest.skip(f"{found} is not there")
        return found

    return path
