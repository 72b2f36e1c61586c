"""A batch of windows: what `EpisodeCache.windows` gives."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .. import _native
from .._native import ALIGNMENT
from ..arrays.interop import is_torch
from ..contract import Contract
from ..message.dtypes import ARRAY_NAMES
from ..message.values import Values
from .action_rows import ActionRows
from .choices import answered
from .gpu import part

_DTYPES: dict[str, np.dtype[Any]] = {
    "f32": np.dtype("<f4"),
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),
    "u8": np.dtype("u1"),
    "i32": np.dtype("<i4"),
    "bool": np.dtype(np.bool_),
}


#: Rows on the host, or on a GPU.
_Episodes: TypeAlias = "_native.Episodes | _native.DeviceEpisodes"
#: The streams that a policy answers: names, or by stream what its rows are added to.
Answered: TypeAlias = "str | Sequence[str] | Mapping[str, Mapping[str, Any]] | None"
#: What the name of a stream's mask ends with, as of LeRobot's.
PAD = "_is_pad"


class View(NamedTuple):
    """A tensor in a buffer of windows: the name of its element type, its shape, and its strides and offset in elements."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class WindowStream:
    """What a plan says of a stream."""

    def __init__(
        self, means: Mapping[str, Any], name: str, dtype: str, offsets_ns: Sequence[int]
    ) -> None:
        self.name, self.dtype = name, dtype
        self.row_shape = tuple(means["row_shape"])
        self.coordinates_shape = means["coordinates_shape"]
        self.offsets_ns = np.array(offsets_ns, np.int64)
        # The step that is closest to the instant.
        self.present = int(np.argmin(np.abs(self.offsets_ns)))


def _check_reference(name: str, reference: WindowStream) -> None:
    """Raises ValueError if the last step of a reference is not its present one."""
    offsets_ns = reference.offsets_ns
    if offsets_ns[-1] > 0 or (np.diff(offsets_ns) <= 0).any():
        raise ValueError(
            f"reference of '{name}': expected steps of '{reference.name}' that rise to the present one, found the offsets "
            f"{offsets_ns.tolist()} ns"
        )


class WindowPlan(_native.WindowPlan):
    """Windows, prepared by `EpisodeCache.plan` for that cache: give it to `windows` as `config`.

    Attributes:
        streams: a list of what it has, with `name`, `dtype`, `row_shape`, `coordinates_shape` and `offsets_ns`.
        rows: by stream an `ActionRows`, if the windows make something of its values: `taken_back` makes actions of what a
            policy answers.
    """

    def __new__(
        cls,
        episodes: _Episodes,
        choices: str | None,
        meanings: Mapping[str, Any],
        rows: Mapping[str, ActionRows],
    ) -> WindowPlan:
        return super().__new__(cls, episodes, choices)

    def __init__(
        self,
        episodes: _Episodes,
        choices: str | None,
        meanings: Mapping[str, Any],
        rows: Mapping[str, ActionRows],
    ) -> None:
        self._episodes = episodes
        self.rows = dict(rows)
        self.streams = [WindowStream(meanings[about[0]], *about) for about in self._of_streams()]
        self._numbers = {stream.name: at for at, stream in enumerate(self.streams)}
        for made in self.rows.values():
            if made.reference is not None:
                _check_reference(made.stream, self.streams[self._numbers[made.reference]])
        masks = {f"{name}{end}" for name in self._numbers for end in (".valid", PAD)}
        if clash := [name for name in self._numbers if name in masks]:
            raise ValueError(
                f"config: expected no stream {clash[0]!r}, as the mask of another has this name"
            )
        # Whether the shares of valid steps were looked at, and until then what was seen: windows, and by stream the
        # valid steps and all of them.
        self.looked_at = False
        self.seen: tuple[int, dict[str, list[int]]] = (0, {})
        self._layouts: dict[int, tuple[int, dict[tuple[int, str], int]]] = {}
        self._views: dict[int, dict[str, View]] = {}

    def contract(self, *, actions: Answered = None) -> Contract:
        """What a policy relies on that is trained on these windows: a `robocache.Contract` of their streams. `actions` is as
        for `EpisodeCache.contract`."""
        return Contract(self._contract_json(answered(actions, self.rows)))

    def layout(self, windows: int) -> tuple[int, dict[tuple[int, str], int]]:
        """Bytes of the buffer of `windows` windows. Also, by (stream number, part), each part's offset."""
        found = self._layouts.get(windows)
        if found is None:
            size, parts = self._parts(windows)
            if len(self._layouts) > 64:
                self._layouts.clear()
            found = size, {(stream, kind): offset for stream, kind, offset in parts}
            self._layouts[windows] = found
        return found

    def view(
        self,
        name: str,
        windows: int,
        shaped: Callable[[Any], Any] = lambda whole: whole,
        *,
        kind: str = "values",
    ) -> View:
        """A part of a stream, "values" or "valid", for `Windows.tensors`. `shaped` is a function of torch that makes a view of
        it."""
        import torch

        number = self._numbers[name]
        stream = self.streams[number]
        dtype, row = ("bool", ()) if kind == "valid" else (stream.dtype, stream.row_shape)
        of_torch = getattr(torch, ARRAY_NAMES.get(dtype, dtype))
        # It has a shape and strides, and no memory.
        shape = windows, len(stream.offsets_ns), *row
        made = shaped(torch.empty(shape, dtype=of_torch, device="meta"))
        offset = self.layout(windows)[1][number, kind] // of_torch.itemsize
        return View(dtype, tuple(made.shape), made.stride(), offset + made.storage_offset())

    def views(self, windows: int) -> dict[str, View]:
        """All values by stream, and `STREAM.valid`, for `Windows.tensors`."""
        found = self._views.get(windows)
        if found is None:
            found = {}
            for name in self._numbers:
                found[name] = self.view(name, windows)
                found[f"{name}.valid"] = self.view(name, windows, kind="valid")
            if len(self._views) > 64:
                self._views.clear()
            self._views[windows] = found
        return found

    def __repr__(self) -> str:
        return f"WindowPlan({', '.join(self._numbers)})"


class Windows(Mapping[str, "WindowSegment"]):
    """A batch of windows in one buffer: a mapping of the names of streams to their segments.

    Attributes:
        batch_size: how many windows there are.
        plan: the WindowPlan that they follow.
        buffer: all bytes. The buffer of every segment begins at a multiple of 64 bytes. If the cache has a device: a uint8
            tensor of torch there, if the program has imported torch, or else an array for DLPack.
        instants_ns: `[windows]` the instants, with their jitter. Those of a GPU are the caller's own array.
    """

    def __init__(
        self,
        buffer: Any,
        plan: WindowPlan,
        parts: dict[tuple[int, str], int],
        instants_ns: Any,
        latency_ns: np.ndarray | None,
    ) -> None:
        self.buffer, self.instants_ns, self.plan = buffer, instants_ns, plan
        self._streams, self._about = plan._numbers, plan.streams
        self._parts, self._latency_ns = parts, latency_ns
        self.batch_size = len(instants_ns)
        self._version = _version_of(instants_ns)
        # By number of a stream what was made of its values.
        self._made: dict[int, Any] = {}
        if plan.rows and not isinstance(buffer, np.ndarray) and not is_torch(buffer):
            name = next(iter(plan.rows))
            raise RuntimeError(f"'{name}': expected a program that imports torch for rows on a GPU")
        # A reference may have rows of its own. Those of others are of it as the node serves it, in any order of streams.
        references = {rows.reference for rows in plan.rows.values() if rows.reference is not None}
        present = {name: self[name]._present() for name in references}
        for name, rows in plan.rows.items():
            self._make(name, rows, present.get(rows.reference))

    def _make(self, name: str, rows: ActionRows, reference: tuple[Any, Any] | None) -> None:
        """Makes rows of a stream's values. Where the reference is not valid, no row is.

        Args:
            reference: of `WindowSegment._present`; None without relative channels.
        """
        segment, served = self[name], None
        values = segment.array
        if reference is not None:
            served, valid = reference
            segment.valid[...] &= valid
        self._made[self._streams[name]] = rows.made(values, served)

    def __len__(self) -> int:
        return len(self._streams)

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __contains__(self, name: object) -> bool:
        return name in self._streams

    # Not by the segments, which are arrays.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> WindowSegment:
        if name not in self._streams:
            raise KeyError(f"expected one of {', '.join(self._streams)}, found {name!r}")
        return WindowSegment(self, self._streams[name])

    def tensors(self, views: Sequence[View]) -> list[Any]:
        """Parts of the buffer as tensors of torch that share its memory."""
        if isinstance(self.buffer, np.ndarray):
            return [_host_tensor(self.buffer, view) for view in views]
        import torch

        whole, found = self.buffer, []
        if not isinstance(whole, torch.Tensor):
            whole = torch.from_dlpack(whole)
        size = self.plan.layout(self.batch_size)[0]
        if len(whole) > size:  # it is of the caller
            whole = whole[:size]
        bases: dict[str, tuple[Any, int]] = {}
        for dtype, shape, strides, offset in views:
            base = bases.get(dtype)
            if base is None:
                of_type = whole.view(getattr(torch, ARRAY_NAMES.get(dtype, dtype)))
                base = bases[dtype] = of_type.as_strided, of_type.storage_offset()
            view, begin = base
            found.append(view(shape, strides, begin + offset))
        return found

    def torch(self) -> dict[str, Any]:
        """By stream the values as torch tensors, and `STREAM.valid` (bool); they share the buffer's memory. `STREAM_is_pad`
        (bool) is its opposite, as LeRobot's policies take it."""
        views = self.plan.views(self.batch_size)
        tensors = dict(zip(views, self.tensors(list(views.values())), strict=True))
        for name in self.plan.rows:
            tensors[name] = self[name].torch()
        for name in self:
            tensors[f"{name}{PAD}"] = ~tensors[f"{name}.valid"]
        return tensors

    def __repr__(self) -> str:
        return f"Windows({self.batch_size} of {', '.join(self)})"


class WindowSegment(Values):
    """The windows of one stream. Arrays are views of the buffer, made when they are asked for. It is an array of its
    numbers, too: `numpy.asarray(segment)`, `segment[0]`.

    Attributes:
        name, dtype: of the stream; the type is "f32", "f16", "bf16", "u8" or "i32".
        shape: `(windows, steps, row...)`.
    """

    def __init__(self, windows: Windows, number: int) -> None:
        self._windows, self._number = windows, number
        self._stream = windows._about[number]
        self.name, self.dtype = self._stream.name, self._stream.dtype
        steps = len(self._stream.offsets_ns)
        made = windows._made.get(number)
        row = self._stream.row_shape if made is None else made.shape[2:]
        self.shape = (windows.batch_size, steps, *row)

    def _view(self, kind: str, dtype: Any, shape: Sequence[int]) -> Any:
        offset = self._windows._parts.get((self._number, kind))
        if offset is None:
            return None
        shape = (*self.shape[:2], *shape)
        size = math.prod(shape) * np.dtype(dtype).itemsize
        buffer = self._windows.buffer
        if not isinstance(buffer, np.ndarray):
            name = self.dtype if kind == "values" else np.dtype(dtype).name
            return part(buffer, offset, size, name, shape)
        return buffer[offset : offset + size].view(dtype).reshape(shape)

    @property
    def array(self) -> Any:
        """`[windows, steps, row...]`: the values as they are in the buffer. For bf16 these are no numbers but their bits as
        uint16, because NumPy has no bfloat16: `float32` and `torch` give numbers for every type. If the cache has a device:
        a tensor of torch (bf16 as torch.bfloat16), or, if torch was not imported, an array for DLPack; so are the others."""
        made = self._windows._made.get(self._number)
        return self._served() if made is None else made

    def _served(self) -> Any:
        """The values in the buffer, before rows are made of them."""
        return self._view("values", _DTYPES[self.dtype], self._stream.row_shape)

    def _present(self) -> tuple[Any, Any]:
        """The served values of the newest step `[windows, row...]`, and a copy of its `valid` `[windows, 1]`."""
        valid = self.valid[:, -1:]
        return self._served()[:, -1], valid.clone() if is_torch(valid) else valid.copy()

    @property
    def valid(self) -> Any:
        """`[windows, steps]` bool: whether a step may be used."""
        return self._view("valid", np.bool_, ())

    @property
    def is_pad(self) -> Any:
        """`[windows, steps]` bool: the opposite of `valid`, as a new array."""
        return ~self.valid

    @property
    def age_ns(self) -> Any:
        """`[windows, steps]` int64: the target minus the stamp of the newest row used, or NO_AGE."""
        return self._view("age_ns", np.int64, ())

    @property
    def target_ns(self) -> Any:
        """`[windows, steps]` int64: the instants of the steps. Raises RuntimeError if the caller has written its tensor of
        instants since. If a CUDA graph has the windows, they are those of its last replay."""
        late: Any = self._windows._latency_ns
        instants = self._windows.instants_ns
        version = self._windows._version
        if version is not None and version != instants._version:
            raise RuntimeError(
                "target_ns: expected the instants of the windows, found a tensor that was written since: give a copy of it"
            )
        offsets = self._stream.offsets_ns
        late = np.int64(0) if late is None else late[self._number]
        if not isinstance(instants, np.ndarray):
            import torch

            instants = torch.as_tensor(instants)
            late, offsets = (
                torch.as_tensor(each, device=instants.device) for each in (late, offsets)
            )
            return (instants - late)[:, None] + offsets
        return (instants - late)[:, None] + offsets

    @property
    def count(self) -> Any:
        """`[windows, steps]` uint32: voxels in use of a sparse grid; None for others."""
        return self._view("count", np.uint32, ())

    @property
    def coordinates(self) -> Any:
        """`[windows, steps, voxels, 3]` int32: where the voxels of a sparse grid are; None for others."""
        return self._view("coordinates", np.int32, self._stream.coordinates_shape or ())

    def float32(self) -> Any:
        """A copy of the values as float32. `array` of f32 is a view of them."""
        if not isinstance(self._windows.buffer, np.ndarray):
            return self.torch().float()
        if self.dtype != "bf16":
            return self.array.astype(np.float32)
        return (self.array.astype(np.uint32) << 16).view(np.float32)

    def torch(self) -> Any:
        """The values as a torch.Tensor (bf16 as torch.bfloat16) that shares the buffer's memory."""
        array = self.array
        if isinstance(array, np.ndarray):
            return _torch_of(array, self.dtype)
        import torch

        return array if isinstance(array, torch.Tensor) else torch.from_dlpack(array)

    def __repr__(self) -> str:
        bits = self.dtype == "bf16" and isinstance(self._windows.buffer, np.ndarray)
        note = ", array: bits as uint16" if bits else ""
        return f"WindowSegment({self.name}: {self.dtype} {list(self.shape)}{note})"


def _version_of(instants: Any) -> Any:
    """What tells whether a tensor is written; None for what is no tensor, and for what a CUDA graph reads again."""
    if isinstance(instants, np.ndarray) or not is_torch(instants) or instants.is_inference():
        return None
    torch = sys.modules["torch"]
    if instants.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    return instants._version


def _host_tensor(buffer: np.ndarray, view: View) -> Any:
    """A part of a buffer of the host as a tensor."""
    of_numpy = _DTYPES[view.dtype]
    size = of_numpy.itemsize
    in_bytes = [stride * size for stride in view.strides]
    array: np.ndarray = np.ndarray(view.shape, of_numpy, buffer, view.offset * size, in_bytes)
    return _torch_of(array, view.dtype)


def _torch_of(array: np.ndarray, dtype: str) -> Any:
    import torch

    if dtype == "bf16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def host_out(out: Any, size: int) -> np.ndarray:
    """The first `size` bytes of an output of the caller. Raises TypeError or ValueError if it is no such output."""
    expected = (
        f"out: expected a contiguous uint8 array of {size} bytes or more on the host, to be written"
    )
    if is_torch(out):
        if out.device.type != "cpu" or not out.is_contiguous() or out.is_neg():
            kind = "one" if out.is_contiguous() else "one with gaps"
            raise ValueError(f"{expected}, found {kind} on {out.device}")
        array = out.detach().numpy()
    elif isinstance(out, np.ndarray):
        array = out
    else:
        try:
            array = np.frombuffer(out, np.uint8)
        except TypeError:
            raise TypeError(f"{expected}, found {type(out).__name__}") from None
    if array.dtype != np.uint8 or array.ndim != 1 or len(array) < size:
        raise ValueError(f"{expected}, found {array.dtype} of the shape {list(array.shape)}")
    if not array.flags.c_contiguous or not array.flags.writeable:
        kind = "one that is read-only" if array.flags.c_contiguous else "one with gaps"
        raise ValueError(f"{expected}, found {kind}")
    if array.ctypes.data % 8:
        raise ValueError(f"{expected}, at an address that is a multiple of 8, found another")
    return array[:size]


#: Memory that nothing uses. The system clears new memory, which takes longer than to fill it with windows.
_spare: list[np.ndarray] = []
_SPARE_BYTES = 1 << 29
#: Of smaller ones, the allocator keeps the memory itself.
_LEAST_LENT = 1 << 20


class _Lent:
    """Memory that becomes spare when its last view is gone."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        self.__array_interface__ = memory.__array_interface__

    # Names of the module may be gone, if the program ends.
    def __del__(self, spare: list[np.ndarray] = _spare, most: int = _SPARE_BYTES) -> None:
        if len(self._memory) > most:
            return
        spare.append(self._memory)
        while sum(map(len, spare)) > most:
            # Another thread may have taken it.
            del spare[:1]


def aligned(size: int) -> np.ndarray:
    """`size` bytes, aligned as segments are: memory of earlier ones, if no view of that is left."""
    room = size + ALIGNMENT
    is_lent = room >= _LEAST_LENT
    memory: np.ndarray = np.asarray(_Lent(_taken(room))) if is_lent else np.empty(room, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def _taken(room: int) -> np.ndarray:
    """Spare memory of at least this size and less than twice of it, or new memory. Other threads may take some at once."""
    for _ in range(len(_spare)):
        try:
            memory = _spare.pop()
        except IndexError:
            break
        if room <= len(memory) < 2 * room:
            return memory
        _spare.insert(0, memory)
    return np.empty(room, np.uint8)
