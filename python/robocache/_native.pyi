"""The compiled part of the package. What users call is in the package itself."""

from collections.abc import Sequence
from typing import Any

def main(arguments: Sequence[str]) -> int:
    """Runs the command line; the first argument is the program's name. Returns the exit code."""

def version() -> str:
    """The version of the package."""

def cuda_version() -> str | None:
    """The version of CUDA that the kernels were compiled with, as 1000 * major + 10 * minor, or None."""

class DeviceArray:
    """An array of the extension, which other libraries read by DLPack without a copy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
    @property
    def dtype(self) -> str:
        """The name of the elements' type."""
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
