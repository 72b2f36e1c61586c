"""`Pipeline`: messages in, fused tensors out, in the process of the policy.

pipeline = robocache.Pipeline("robot.yaml")
pipeline.push("joints", message_bytes, receive_ns)
tensor = pipeline.tick(pipeline.number_at(receive_ns))
if tensor is not None and tensor["joints"].valid.all():
    act(tensor["joints"].float32())
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from .. import _native
from ..arrays.interop import unmasked
from ..contract import Contract, config_text
from ..message.tensor import FusedTensor
from ..message.views import Views
from .samples import as_sample

_I64 = np.iinfo(np.int64)


class PushResult(NamedTuple):
    """The outcome of a message. It is true if the message was accepted.

    Attributes:
        accepted: whether the message, or a part of it, was taken.
        rows: how many rows (or transforms) it became.
        reason: why it, or a part of it, was not taken, such as "late" or "non_finite"; "waits" if it
            waits for a transform that may still come; None if all of it was taken.
        detail: the same in a sentence, with what was expected and found; None likewise.
    """

    accepted: bool
    rows: int
    reason: str | None
    detail: str | None

    def __bool__(self) -> bool:
        return self.accepted


def device_number(device: Any) -> int:
    """The number of a GPU, from an int, "cuda:N" or a torch.device."""
    text = str(device)
    number = text.removeprefix("cuda:") if text != "cuda" else "0"
    if isinstance(device, bool) or not number.isdecimal():
        raise ValueError(f"device: expected the number of a GPU or 'cuda:N', found {device!r}")
    return int(number)


def checked_output(output: str, digest: bool) -> str:
    """Where tensors are: "host" or "cuda". The digest is made on the host."""
    if output == "cuda" and digest:
        raise ValueError("digest: expected none of tensors on a GPU, found it with output='cuda'")
    return str(output)


def nanoseconds(value: SupportsIndex, name: str) -> int:
    """An instant or a number as a Python int that fits 64 bits; floats are refused."""
    try:
        number = operator.index(value)
    except TypeError:
        found = type(value).__name__
        raise TypeError(f"{name}: expected an integer, found {found}") from None
    if not _I64.min <= number <= _I64.max:
        raise ValueError(f"{name}: expected an integer of 64 bits, found {number}")
    return number


def message_bytes(message: Any) -> bytes:
    """The bytes of a message, without a copy if they are `bytes`."""
    if isinstance(message, bytes):
        return message
    try:
        return bytes(memoryview(message))
    except TypeError:
        found = type(message).__name__
        raise TypeError(f"message: expected the bytes of a message, found {found}") from None


class Pipeline:
    """All streams of a configuration, from their messages to the fused tensor.

    The caller has the clock: it says when each message was received, and which tick it wants. Nothing
    runs in the background. The tensors are bit for bit those of `fusion_node` and of `robocache replay`
    for the same messages.

    Args:
        config: a path, the text of a configuration (a str with line breaks), or a dict.
        backend: "auto", "cpu" or "cuda", as the node's parameter.
        device: the GPU: a number, "cuda:N" or a torch.device.
        output: where the tensors are: "host", or "cuda" for memory of the GPU, apart from where images and
            clouds are encoded: by the GPU, or with backend="cpu" by cores. Then a tensor's segments are
            `DeviceSegment`s, and the bits are the same.
        digest: whether each tensor gets the digest that the node makes (`FusedTensor.digest`); not with
            output="cuda".

    Raises ValueError if the configuration or an argument is wrong, with what was expected and found;
    RuntimeError if the backend cannot be used.

    Several threads may push while another ticks. Every method releases the GIL while it computes. In a
    forked process each method raises RuntimeError: make the pipeline after the fork.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any],
        backend: str = "auto",
        device: Any = 0,
        *,
        output: str = "host",
        digest: bool = False,
    ) -> None:
        text, file = config_text(config)
        place = (str(backend), device_number(device), checked_output(output, digest))
        self._native = _native.Pipeline(text, file, *place, bool(digest))
        self._inputs = self.inputs
        self._views = Views()

    def push(self, input: str, message: Any, receive_ns: SupportsIndex) -> PushResult:
        """Takes a serialized message (CDR) of an input. Returns a `PushResult`.

        Args:
            input: the input's name (that of its stream; with several inputs followed by the input's
                number, see `inputs`), or its topic. A topic may feed several inputs: each takes it.
            message: bytes, or what has a buffer of them.
            receive_ns: when it was received, on the clock of the ticks [ns].

        A message that is dropped raises nothing: the result says why, and `stats` counts it.

        Raises KeyError if there is no such input, RuntimeError if the backend failed.
        """
        if not isinstance(input, str):
            raise TypeError(f"input: expected a str, found {type(input).__name__}")
        receive_ns = nanoseconds(receive_ns, "receive_ns")
        results = self._native.push(input, message_bytes(message), receive_ns)
        if len(results) == 1:
            return PushResult(*results[0])
        refused = [result for result in results if result[2] is not None] or results
        accepted = any(result[0] for result in results)
        return PushResult(accepted, sum(result[1] for result in results), *refused[0][2:])

    def push_array(
        self,
        input: str,
        array: Any,
        stamp_ns: SupportsIndex,
        receive_ns: SupportsIndex | None = None,
        *,
        encoding: str | None = None,
        fields: Sequence[str] | None = None,
        frame_id: str | None = None,
    ) -> PushResult:
        """Takes an array in place of a message. Returns a `PushResult`.

        The same checks and the same encoder as for a message follow, so it gives the same bits as the
        message with these numbers.

        Args:
            input: the input's name, or its topic if that has one input.
            array: for a vector [channels], in the order of `inputs`' channels; for an image [H, W] or
                [H, W, C] of uint8; for a depth image [H, W] of uint16 [mm] or float32 [m]; for points
                [N, fields] of float32. What NumPy can read, in host memory.
            stamp_ns: when it was measured [ns]. Zero means "not set", as in a message.
            receive_ns: when it was received [ns]; `stamp_ns` if None.
            encoding: of an image, as in `sensor_msgs/Image`; by default rgb8, rgba8 or mono8 by the shape,
                16UC1 or 32FC1 by the type of a depth image.
            fields: the names of a point's numbers; by default ["x", "y", "z"].
            frame_id: the frame of the data; by default the one that the configuration expects.

        Raises ValueError or TypeError if the array is not of the input's kind, KeyError if there is no such
        input, RuntimeError if the backend failed. Numbers that a message could also have, such as NaN, raise
        nothing: the result says so.
        """
        stamp_ns = nanoseconds(stamp_ns, "stamp_ns")
        receive_ns = stamp_ns if receive_ns is None else nanoseconds(receive_ns, "receive_ns")
        known = self._known(input)
        array, encoding, fields = as_sample(
            known, np.asarray(unmasked(array, "array")), encoding, fields
        )
        result = self._native.push_array(
            known["name"], array, (stamp_ns, receive_ns), frame_id, encoding, fields
        )
        return PushResult(*result)

    def _known(self, input: str) -> dict[str, Any]:
        """The input of this name, or the only one of this topic."""
        named = [known for known in self._inputs if known["name"] == input]
        found = named or [known for known in self._inputs if known["topic"] == input]
        if len(found) != 1:
            names = ", ".join(known["name"] for known in self._inputs)
            raise KeyError(f"input: expected one of {names}, found {input!r}")
        return found[0]

    def tick(self, number: SupportsIndex) -> FusedTensor | None:
        """Returns the `FusedTensor` of a tick; None if a required stream holds it back.

        Tick `number` is at `number * period_ns`. It sees every message that was pushed before. The arrays
        are read-only views of memory that no later tick overwrites while a view of it lives. When
        the last view is gone, a later tick uses the memory again; on a GPU, as soon as the streams that
        took the arrays by DLPack have done what was put on them before that.

        Raises RuntimeError if the backend failed.
        """
        native, _held_back_by = self._native.tick(nanoseconds(number, "number"))
        return None if native is None else self._views.of(native)

    def tick_at(self, ns: SupportsIndex) -> FusedTensor | None:
        """Returns the tensor of the newest tick at or before this instant [ns], as `tick`."""
        return self.tick(self.number_at(ns))

    def number_at(self, ns: SupportsIndex) -> int:
        """The number of the newest tick at or before this instant [ns]."""
        return self._native.number_at(nanoseconds(ns, "ns"))

    def stamp_of(self, number: SupportsIndex) -> int:
        """The instant of a tick [ns]."""
        return self._native.stamp_of(nanoseconds(number, "number"))

    def begin_epoch(self) -> int:
        """Forgets all rows, as when the clock jumps back. Call it between two episodes.

        Returns the number of the new epoch.
        """
        return self._native.begin_epoch()

    @property
    def period_ns(self) -> int:
        """Time between two ticks [ns]."""
        return self._native.period_ns

    @property
    def backend(self) -> str:
        """The name of the backend that is used."""
        return self._native.backend

    def contract(self) -> Contract:
        """What a policy relies on that is trained on these tensors: a `robocache.Contract`."""
        return Contract(self._native.contract())

    @property
    def layout(self) -> list[dict[str, Any]]:
        """What each segment means: a list of dicts with the fields of `robocache_ros/msg/SegmentInfo`.

        Among them `name`, `shape` (steps first), `dtype`, `channels`, `units`, `lag_ns`,
        `target_offsets_ns`.
        """
        return json.loads(self._native.layout())

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The inputs: a list of dicts with name, stream, topic, ros_type, quality of service, timeline."""
        return json.loads(self._native.inputs())

    def stats(self) -> dict[str, Any]:
        """The counters until now, as a dict.

        `inputs` has per input "NAME TOPIC" received, accepted, and dropped by reason; `streams` per
        stream the rows, the steps and why steps were invalid; `held_back_by` per stream the ticks that it
        held back.
        """
        return json.loads(self._native.stats())

    def __repr__(self) -> str:
        names = [segment["name"] for segment in self.layout]
        return f"Pipeline({names}, period_ns={self.period_ns}, backend={self.backend!r})"
