"""The compiled part of the package. What users call is in the package itself."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, final

from typing_extensions import Self, disjoint_base

#: Segments and windows start at multiples of this many bytes.
ALIGNMENT: int

def main(arguments: Sequence[str]) -> int:
    """Runs the command line; the first argument is the program's name. Returns the exit code."""

def version() -> str:
    """The version of the package."""

def cuda_version() -> str | None:
    """The version of CUDA that the kernels were compiled with, as 1000 * major + 10 * minor, or None."""

def contract_of(text: str, file: str, commands: bool) -> str:
    """The JSON of the contract of a configuration: of a node, which makes its commands, or of a pipeline, which makes none."""

def contract_read(text: str) -> tuple[str, str]:
    """The JSON of a contract in its only form, and its digest."""

def contract_only(text: str, streams: Sequence[str]) -> str:
    """The JSON of the contract of some streams."""

def contract_accept(path: str, served: str, keys: Sequence[str]) -> str:
    """Accepts differences in the contract of a folder, and returns its JSON."""

def contract_differences(trained: str, served: str) -> list[tuple[str, str, str]]:
    """Key, kind and sentence of each thing that `served` serves otherwise than `trained` says."""

def contract_load(path: str) -> str:
    """The JSON of the contract in a folder or a file."""

def contract_save(text: str, folder: str) -> None:
    """Writes a contract into a folder."""
@final
class ActionForm:
    """The chunks of one stream of actions in a contract."""

    def __new__(cls, text: str, joints: Sequence[str] | None) -> Self:
        """Finds the actions of these joints in the contract; the only ones by default."""
    @property
    def joints(self) -> list[str]:
        """In the order of a row."""
    @property
    def rows(self) -> int:
        """Of a chunk."""
    @property
    def reference(self) -> tuple[str, list[int]] | None:
        """The stream whose newest step relative rows are added to, and the shape of its segment."""
    def values(self, step: Sequence[float]) -> list[float]:
        """The reference of each joint, by this step."""

@final
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
    @property
    def pointer(self) -> int:
        """The address of the first element."""
    def part(self, offset: int, shape: Sequence[int], dtype: str) -> DeviceArray:
        """An array of a part of the same memory, which begins `offset` bytes into this one."""

# An address, a number of elements, and the address of the offsets of episodes or 0.
_Instants = tuple[int, int, int]
# The number of a GPU and the handle of its stream; or -1 for the host, and a number of threads (0: all cores).
_Place = tuple[int, int]

@final
class View:
    """An array of any library, as the operations see it."""

    def __new__(cls, array: Any, name: str, stream: int) -> View:
        """Reads an array; `name` is that of the argument, for errors."""
    @property
    def pointer(self) -> int:
        """The address of the first element."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
    @property
    def dtype(self) -> str:
        """The name of the elements' type."""
    @property
    def device(self) -> int:
        """The number of the GPU; -1 for memory of the host."""
    @property
    def contiguous(self) -> bool:
        """Whether its elements follow each other."""
    @property
    def read_only(self) -> bool:
        """Whether it must not be written."""

@final
class Rule:
    """How values follow from the rows of a stream of `dim` elements."""

    def __new__(
        cls,
        strategy: str,
        max_age_ns: int,
        max_gap_ns: int,
        fill: str,
        dim: int,
        lanes: str,
    ) -> Rule: ...

@final
class Direct:
    """Resamples and fuses tensors of torch in the usual case; for everything else its methods return None.

    A stream is (rows, stamps, strategy, max_age_ns, max_gap_ns, fill, letters of lanes); the result is (values, valid,
    age_ns), with a dimension of streams in the last two of `fuse`. There, times may be `seconds`, float32 or float64.
    """

    def __new__(
        cls,
        tensor: type,
        template: Any,
        empty_like: Any,
        threads: Any,
        rule: Any,
        dtypes: Sequence[Any],
        asks: Sequence[Any],
    ) -> Direct: ...
    def take(
        self,
        rows: Any,
        stamps: Any,
        targets: Any,
        strategy: str,
        max_age_ns: int | None,
        max_gap_ns: int | None,
        fill: str,
        lanes: Sequence[str] | None,
        dtype: Any,
        row_offsets: Any,
        target_offsets: Any,
        out: Any,
    ) -> tuple[Any, Any, Any] | None:
        """The same as `resample`, of the arguments of `robocache.resample` as the caller gave them."""
    def resample(
        self,
        rows: Any,
        stamps: Any,
        targets: Any,
        strategy: str,
        max_age_ns: int,
        max_gap_ns: int,
        fill: str,
        lanes: str,
        dtype: Any,
    ) -> tuple[Any, Any, Any] | None: ...
    def fuse(
        self, streams: Sequence[tuple[Any, ...]], targets: Any, dtype: Any, seconds: bool
    ) -> tuple[Any, Any, Any] | None: ...

@final
class VoxelRule:
    """How clouds become voxel grids."""

    def __new__(
        cls,
        origin_m: Sequence[float],
        size_m: float,
        shape: Sequence[int],
        channels: Sequence[tuple[str, str]],
        fields: Sequence[str],
        wide: bool,
        min_points: int,
        of_values: int,
        t_base_sensor: Sequence[Sequence[float]],
    ) -> VoxelRule: ...

@final
class ImageRule:
    """How images become rows."""

    def __new__(
        cls,
        sizes: Sequence[tuple[int, int]],
        filter: str,
        fit: str,
        crop: tuple[int, int, int, int] | None,
        layout: str,
        color: str,
        mean: Sequence[float],
        std: Sequence[float],
        pad_value: int,
        of_values: int,
    ) -> ImageRule: ...
    @property
    def shape(self) -> list[int]:
        """The shape of a row."""

def empty(device: int, shape: Sequence[int], dtype: str) -> DeviceArray:
    """Memory on a GPU, or with -1 on the host."""

def current_stream(tensor: type, device: int) -> int | None:
    """The handle of the current stream of a GPU, of the library that has this type of tensors; None if it does not tell C
    code."""

def synchronize(device: int) -> None:
    """Waits for everything on a GPU."""

def fuse(
    place: _Place,
    types: tuple[int, int],
    episodes: int,
    targets: _Instants,
    out: tuple[int, int, int],
    streams: Sequence[tuple[Rule, int, int, _Instants]],
) -> None:
    """Resamples streams: `types` are those of values and of times, which are 0 for int64 nanoseconds, 1 and 2 for seconds
    in float32 and float64. `out` has the addresses of values, validity and ages; a stream is its rule, the address and
    the element type of its rows, and its stamps. The caller answers for addresses and shapes."""

def gradient(
    place: _Place,
    types: tuple[int, int],
    episodes: int,
    targets: _Instants,
    of_values: int,
    streams: Sequence[tuple[Rule, int, int, _Instants]],
) -> None:
    """Writes the gradients of rows, given that of the values. The addresses of rows are those of the gradients."""

def voxelize(
    place: _Place,
    rule: VoxelRule,
    cloud_points: tuple[int, int],
    offsets: Sequence[int],
    out: int,
) -> list[tuple[int, int, int, int]]:
    """Writes the grids of clouds, and returns what happened to the points of each."""

def scatter(
    place: _Place, rule: VoxelRule, clouds: tuple[int, int, int], out: int, mark: int
) -> bool:
    """Puts counts, or a mark per occupied voxel, on a stream: `[clouds, X, Y, Z]` in words of 32 bits. `clouds` are the
    address, the number of clouds and the points of each. False: it does not take these points. Only builds with CUDA
    have it."""

def encode_images(
    place: _Place, rule: ImageRule, encoding: str, images: tuple[int, int, int, int], out: int
) -> None:
    """Writes the rows of images: address, number, height and width."""
@final
class Episodes:
    """Rows of many episodes; `robocache.EpisodeCache` is what users call."""

    @staticmethod
    def of_store(
        path: str | PathLike[str],
        streams: Sequence[str] | None = None,
        threads: int | None = None,
        episodes: Sequence[int] | None = None,
        of: int | None = None,
        packed: bool = False,
    ) -> Episodes:
        """Reads a store of `robocache replay --format rows`."""
    @staticmethod
    def open(
        path: str | PathLike[str],
        verify: bool = False,
        episodes: Sequence[int] | None = None,
        of: int | None = None,
    ) -> Episodes:
        """Opens a folder that `save` or `convert` wrote."""
    @staticmethod
    def convert(
        store: str | PathLike[str],
        path: str | PathLike[str],
        streams: Sequence[str] | None = None,
        threads: int | None = None,
        episodes: Sequence[int] | None = None,
        of: int | None = None,
    ) -> Episodes:
        """Writes a store into a new folder, and opens that."""
    @staticmethod
    def names(path: str | PathLike[str], saved: bool) -> list[str]:
        """The names of the episodes of a store or of a saved folder."""
    @staticmethod
    def of_columns(described: str, columns: Sequence[Sequence[dict[str, Any]]]) -> Episodes:
        """Episodes of arrays. `described` is JSON; `columns` has for each stream its rings, each as arrays by name."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the episodes into a new folder."""
    def described(self) -> str:
        """What is said of the episodes: JSON."""
    def packed(self) -> list[str]:
        """The names of the streams whose rows stay compressed."""
    def size(self, stream: str) -> tuple[int, int]:
        """Rows and bytes of a stream."""
    def reach(self, stream: str) -> list[tuple[int, int]]:
        """By span the first and the last instant at which a stream has a row."""
    def statistics(
        self, stream: str, episodes: Sequence[int] | None = None
    ) -> list[tuple[str, int, float, float, float, float, float, float]]:
        """Per channel of the rows of these episodes: name, rows, mean, standard deviation, least, greatest, quantiles of 1 %
        and 99 %."""
    def on_device(
        self,
        device: int,
        memory: Sequence[str],
        device_bytes: int | None = None,
        pinned_bytes: int | None = None,
    ) -> DeviceEpisodes:
        """Takes the rows to where a GPU reaches them. `memory` has for each stream `auto`, `device`, `pinned` or `mapped`.
        Only in builds with CUDA."""

@final
class DeviceEpisodes:
    """Rows of many episodes, for a GPU."""

    def episodes(self) -> Episodes:
        """The episodes, with the rows where they are now."""
    def memory(self) -> list[str]:
        """Per stream where its rows are: `device`, `pinned` or `mapped`."""

@final
class DeviceOrder:
    """The order of a sampler on a GPU. Only in builds with CUDA."""

    def __new__(
        cls,
        device: int,
        table: int,
        counts: tuple[int, int],
        order: tuple[int, int, int],
        batches: tuple[int, int],
        ranks: tuple[int, int],
        *,
        weighted: bool,
        shuffle: bool,
    ) -> DeviceOrder:
        """Prepares it. `table` is an address of int64: for each range its items and those before it, first instant, episode
        and epoch; then, if it is weighted, for each episode its items and those before it, and its chance with those before
        it. `counts` are ranges and episodes, `order` has seed, period and items, `batches` their number and size, and
        `ranks` has rank and world."""
    def launch(self, place: tuple[int, int], taken: int, items: int) -> None:
        """Puts the items of the next batch on a stream of the GPU: addresses of the counter and of `[3, batch_size]`."""

@disjoint_base
class WindowPlan:
    """Windows of episodes, prepared where they are made."""

    def __new__(cls, episodes: Episodes | DeviceEpisodes, choices: str | None = None) -> Self:
        """Prepares windows; `choices` is JSON, or None for what the node makes."""
    def _of_streams(self) -> list[tuple[str, str, list[int]]]:
        """Per stream: name, element type, offsets of the targets [ns]."""
    def _contract_json(self, actions: str) -> str:
        """JSON; `actions`, JSON too, are the streams that the policy answers."""
    def _parts(self, windows: int) -> tuple[int, list[tuple[int, str, int]]]:
        """Bytes of the buffer of so many windows, and its parts: stream, what it holds, first byte."""
    def _run(
        self,
        episodes: bytes,
        instants_ns: bytes,
        out: Any,
        epochs: bytes | None = None,
        latency_ns: bytes | None = None,
        threads: int | None = None,
    ) -> None:
        """Writes the windows of a batch into `out`, uint8 in the layout of so many windows; the others are bytes of
        int64."""
    def _launch(
        self,
        place: tuple[int, int],
        out: tuple[int, int],
        episodes: bytes,
        instants_ns: bytes,
        epochs: bytes | None = None,
        latency_ns: bytes | None = None,
        threads: int | None = None,
    ) -> None:
        """Puts the windows of a batch on a stream of the GPU, if the plan is of one. `out` is the address of memory there and
        its length in bytes. The others are bytes of int64. Only in builds with CUDA."""
    def _launch_items(
        self,
        place: tuple[int, int],
        out: tuple[int, int],
        windows: int,
        items: tuple[int, int, int],
        latency_ns: bytes | None = None,
    ) -> None:
        """The same for items on the GPU: how many, and the addresses of their episodes, instants and epochs (0 for the
        latest)."""

# Stamp [ns], run, epoch, tick and digest of a message.
_Head = tuple[int, int, int, int, int]
# Of a segment [bytes]: name, dtype, shape, and where its elements are and what is said of its steps: valid, target_ns,
# age_ns, count and inputs_valid.
_SegmentPlaces = tuple[str, str, list[int], int, tuple[int, int, int, int, int]]
# Of a message [bytes]: base frame, whether its numbers are big-endian, begin and length of its data, segments.
_Places = tuple[str, bool, tuple[int, int], list[_SegmentPlaces]]

def read_message(message: Any) -> tuple[_Head, _Places]:
    """Finds and checks the parts of a `robocache_ros/msg/FusedTensor`: `bytes`, or an array of uint8. Raises ValueError."""
@final
class SharedReader:
    """Reads the tensors that a node shares under a name. One thread at a time waits."""

    def __new__(cls, service: str) -> SharedReader: ...
    def wait(self, patience_s: float | None) -> SharedTensor | None:
        """The newest tensor that was not taken yet; None if none came in time. Without patience, waits for ever."""
    def latest(self) -> SharedTensor | None:
        """The newest tensor that was not taken yet; None if there is none."""
    def info(self) -> str | None:
        """What the tensors mean, as JSON: the fields of `robocache_ros/msg/FusedTensorInfo`. None if nothing has come."""
    @property
    def is_open(self) -> bool:
        """True if a node has made the service."""
    def services(self) -> list[str]:
        """The names under which nodes share tensors."""
    @property
    def missed(self) -> int:
        """Tensors that came and went while nobody looked."""
    @property
    def copied(self) -> int:
        """Tensors that were copied, because the caller keeps as many as a reader may."""
    def close(self) -> None: ...

#: Stamp [ns], run, stage and what the group waits for; the newest chunk and its delay in command ticks; chunks that were
#: refused, with their reasons; commands, chunks, late chunks and late rows; clipped commands per joint.
_Status = tuple[
    tuple[int, int, str, str],
    tuple[int, int] | None,
    list[tuple[int, str]],
    tuple[int, int, int, int],
    list[tuple[str, int]],
]

@final
class SharedWriter:
    """Sends chunks of actions to a node. One thread at a time uses it."""

    def __new__(cls, service: str, group: str, names: list[str]) -> SharedWriter: ...
    def send(
        self,
        answered: tuple[int, int, int, int],
        values: Any,
        reference: Any,
    ) -> int:
        """Sends a chunk that answers the tensor with this run, epoch, stamp [ns] and tick. Returns its number."""
    def status(self) -> _Status | None:
        """The newest status of the group; None before the first."""
    def info(self, run: int) -> str | None:
        """What the tensors of a run mean, as JSON; None if nothing of this run has come."""
    @property
    def has_node(self) -> bool:
        """True if a node takes chunks under this name."""
    def groups(self) -> list[str]:
        """The groups of the node, as far as a status of each has come."""
    def services(self) -> list[str]:
        """The names under which nodes share tensors."""
    def close(self) -> None: ...

@final
class SharedTensor:
    """The bytes of a `robocache_ros/msg/FusedTensor` in shared memory, which is kept until the last view is gone.

    `numpy.asarray` makes a read-only view of them, uint8 [bytes].
    """

    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def run(self) -> int:
        """The run of the node: all tensors of a run have their parts at the same places."""
    def head(self) -> _Head: ...
    def places(self) -> _Places: ...
    @property
    def device_len(self) -> None:
        """None: the data is on the host."""

@final
class TensorBytes:
    """The bytes of a `robocache_ros/msg/FusedTensor`, in memory that is used again after its last view.

    `numpy.asarray` makes a read-only view of them, uint8 [bytes].
    """

    def __len__(self) -> int: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def head(self) -> _Head: ...
    def places(self) -> _Places:
        """Where its parts are. If the data is on a GPU, its places are those that it has in `complete`."""
    @property
    def device_len(self) -> int | None:
        """The bytes of the data on a GPU; None if the data is on the host."""
    def device_array(self, shape: Sequence[int], dtype: str, offset: int) -> DeviceArray:
        """A part of the data on a GPU, from byte `offset` on. Raises RuntimeError if it is on the host."""
    def complete(self) -> bytes:
        """A copy of the whole message, wherever its data is."""

_Pushed = tuple[bool, int, str | None, str | None]

@final
class Pipeline:
    """What `robocache.Pipeline` is made of."""

    def __new__(
        cls, text: str, file: str, backend: str, device: int, output: str, digest: bool
    ) -> "Pipeline": ...
    def push(self, input: str, message: bytes, receive_ns: int) -> list[_Pushed]:
        """What became of the message in each of the inputs: accepted, rows, reason, detail."""
    def push_array(
        self,
        input: str,
        array: Any,
        stamps_ns: tuple[int, int],
        frame_id: str | None,
        encoding: str | None,
        fields: Sequence[str] | None,
    ) -> _Pushed:
        """`stamps_ns`: of the measurement and of the arrival."""
    def tick(self, number: int) -> tuple[TensorBytes | None, str | None]:
        """The tensor, or the stream that holds the tick back."""
    def begin_epoch(self) -> int: ...
    def number_at(self, ns: int) -> int: ...
    def stamp_of(self, number: int) -> int: ...
    @property
    def period_ns(self) -> int: ...
    @property
    def backend(self) -> str: ...
    def contract(self) -> str:
        """JSON."""
    def layout(self) -> str:
        """JSON."""
    def inputs(self) -> str:
        """JSON."""
    def info(self) -> bytes:
        """The bytes of the `robocache_ros/msg/FusedTensorInfo` of the tensors."""
    def stats(self) -> str:
        """JSON."""

@final
class ReplayEpisode:
    """An episode in a bag."""

    @property
    def name(self) -> str: ...
    @property
    def bag(self) -> Any: ...
    @property
    def task(self) -> str | None: ...

@final
class ReplaySettings:
    """How episodes are replayed."""

def find_episodes(
    bags: Sequence[str | PathLike[str]], **options: Any
) -> tuple[list[ReplayEpisode], ReplaySettings]:
    """The episodes of bags, and how they are replayed. `options` are `robocache.node.replay_options.COMMON`, by name."""

def look_at_episode(bag: str | PathLike[str]) -> tuple[str, bool, bool]:
    """How a bag of a node's episode ended: "complete", "running", "killed" or "unknown"; whether the recording has its end; and
    whether a mark says that it is not wanted. Raises RuntimeError if its marks cannot be read."""
@final
class ReplayRequest:
    """A replay of bags into files. `options` are those of `robocache.node.replay_options`, by name; None stands for a
    default. `kept_in` is a folder whose complete results count as kept. With `waits`, the run waits while another writes into
    `out`; otherwise that is an error. Raises ValueError if a value does not fit."""

    def __new__(
        cls,
        bags: Sequence[str | PathLike[str]],
        config: str | PathLike[str],
        out: str | PathLike[str],
        **options: Any,
    ) -> "ReplayRequest": ...
    def made_of(self) -> list[tuple[str, str]]:
        """What the results would be made of: per episode its name, and a text that differs if the result may differ.
        Raises ValueError."""

def replay_to(
    request: ReplayRequest,
    progress: Any = None,
    has_bar: bool = False,
    recordings: Sequence[Any] | None = None,
    waits: Any = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """What became of each episode of a request, as `robocache replay --json` prints it, and why there is no store of all.
    `waits` gets the folder, if another run writes into it. With `has_bar`, stderr has the bar and the warnings.
    `recordings`, of which `robocache.datasets.kinds` has the kinds, stand for the bags of the request."""
@final
class ReplayRun:
    """The replay of one episode, in a thread of its own."""

    def __new__(
        cls,
        episode: ReplayEpisode,
        settings: ReplaySettings,
        text: str,
        file: str,
        device: int,
        digest: bool,
        threads: int,
    ) -> "ReplayRun": ...
    def next(self) -> TensorBytes | None:
        """The next tensor; None after the last."""
    def summary(self) -> dict[str, Any] | None:
        """The numbers of the episode; None before the end."""
    def close(self) -> None: ...

@final
class LivePipeline:
    """What `robocache.ros.PipelineNode` is made of: the node's runtime and its threads."""

    def __new__(
        cls,
        text: str,
        file: str,
        backend: str,
        device: int,
        output: str,
        simulated: bool,
        digest: bool,
        priority: int,
        cpus: Sequence[int],
    ) -> "LivePipeline": ...
    def push(
        self, input: int, message: bytes, published_ns: int | None, arrived_ns: int | None
    ) -> None: ...
    def set_clock(
        self, message: bytes, published_ns: int | None, arrived_ns: int | None
    ) -> bool: ...
    def wait(self, patience_s: float) -> TensorBytes | None:
        """The newest tensor that was not taken; None if none came in time."""
    @property
    def missed(self) -> int: ...
    @property
    def period_ns(self) -> int: ...
    def inputs(self) -> str:
        """JSON."""
    def contract(self) -> str:
        """JSON."""
    def layout(self) -> str:
        """JSON."""
    def stats(self) -> str:
        """JSON."""
    def see(
        self, input: int, seen: Sequence[tuple[str | None, str, bool, bool]]
    ) -> tuple[bool, bool]:
        """Notes the publishers of an input's topic: node, type, whether each offers reliable, and transient
        local. Returns what to ask for."""
    def watch(self, topics: Sequence[str], middleware: str, files: str) -> None:
        """Begins the first window of the health report."""
    def report(self) -> tuple[int, list[tuple[str, int, str, list[tuple[str, str]]]]]:
        """The report of `/diagnostics`: stamp [ns] and statuses: part, level, message, values."""
    def close(self) -> None: ...
