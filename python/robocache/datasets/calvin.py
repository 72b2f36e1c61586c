"""Datasets of CALVIN: a file `episode_0000123.npz` for each frame.

`ep_start_end_ids.npy` has the first and the last frame of each episode. The annotations, such as
`lang_annotations/auto_lang_ann.npy`, have texts for parts of them: if the mapping names them, each part is an episode.
"""

import pickle
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .mapped import MAX_SIDE, MappedDataset, found_of, named

_SPANS = "ep_start_end_ids.npy"
_ANNOTATIONS = "lang_annotations/auto_lang_ann.npy"
#: Frames of an episode at most: CALVIN's longest have 100,000.
_MAX_FRAMES = 1_000_000
#: Of an array of a frame, before its compression: an image of the greatest size.
_MAX_BYTES = 3 * MAX_SIDE**2 + (1 << 16)


def recognises(root):
    """Whether the files at a path are of this kind."""
    return bool(_folders(Path(root)))


@dataclass(frozen=True)
class Episode:
    """The frames `first` to `last` of a folder."""

    number: int
    name: str
    folder: Path
    first: int
    last: int
    text: str | None


class CalvinDataset(MappedDataset):
    """A folder with `training` and `validation`, or one of these."""

    KIND = "CALVIN"

    def __init__(self, root):
        super().__init__(root)
        self._folders = _folders(self.root)
        self.source = "the first frame"

    def open(self, mapping):
        self.episodes, self.splits = [], {}
        for folder in self._folders:
            split = folder.resolve().name
            self.splits[split] = []
            spans = _annotated(folder, mapping) if mapping.tasks else _spans(folder)
            for first, last, text in spans:
                number = len(self.episodes)
                name = f"{named(split)}_{number:06d}"
                self.episodes.append(Episode(number, name, folder, first, last, text))
                self.splits[split].append(name)

    def fields(self):
        """As of `MappedDataset`, of the first frame that can be read."""
        damage = None
        for folder in self._folders:
            for first, _, _ in _spans(folder):
                path = _path(folder, first)
                try:
                    with _Frame(path) as frame:
                        self.source = path.name
                        return {name: _found(path, frame, name) for name in frame.files}
                except (ValueError, OSError) as error:
                    damage = damage or str(error)
        raise ValueError(damage or f"{self.root}: expected an episode or more, found none")

    def first_rate(self):
        return (
            30,
            "CALVIN records at 30 Hz (Mees et al., CALVIN, RA-L 2022); the files have no stamps",
        )

    def first_task(self):
        are_there = all((folder / _ANNOTATIONS).is_file() for folder in self._folders)
        return _ANNOTATIONS if are_there else None

    def files(self, episode):
        return [_path(episode.folder, at) for at in range(episode.first, episode.last + 1)]

    def length(self, episode):
        return episode.last - episode.first + 1

    def task(self, episode):
        return episode.text

    def blocks(self, episode, names):
        for at in range(episode.first, episode.last + 1):
            path = _path(episode.folder, at)
            with _Frame(path) as frame:
                fields = {name: self.field(name) for name in names}
                for field in fields.values():
                    if field not in frame.files:
                        raise ValueError(f"{path}: expected an array {field!r}, found none")
                yield {name: _array(path, frame, field)[None] for name, field in fields.items()}


def _path(folder, number):
    return folder / f"episode_{number:07d}.npz"


def _folders(root):
    """The folders with frames: their names are the splits."""
    if (root / _SPANS).is_file():
        return [root]
    inner = [root / name for name in ("training", "validation")]
    return [folder for folder in inner if (folder / _SPANS).is_file()]


class _Frame:
    """An open frame. What NumPy raises names the file."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        try:
            self._file = np.load(self._path, allow_pickle=False)
            if not isinstance(self._file, np.lib.npyio.NpzFile):
                raise ValueError("an array alone")
        except FileNotFoundError:
            raise FileNotFoundError(f"{self._path}: expected a frame, found no such file") from None
        except Exception as error:  # also what a wrong header raises, such as TokenError
            raise ValueError(
                f"{self._path}: expected a frame as npz, found damage: {error}"
            ) from None
        return self._file

    def __exit__(self, *raised):
        self._file.close()


def _array(path, frame, name):
    """An array of a frame. Damage, also a wrong checksum of the archive, is a ValueError."""
    try:
        size = frame.zip.getinfo(f"{name}.npy").file_size
        if size > _MAX_BYTES:
            raise ValueError(f"{size} bytes, more than {_MAX_BYTES}")
        return frame[name]
    except (
        Exception
    ) as error:  # also zlib.error, MemoryError, and what a wrong header of an array raises
        text = str(error) or type(error).__name__
        raise ValueError(f"{path}: {name}: expected an array, found damage: {text}") from None


def _found(path, frame, name):
    """What an array of a frame is. Other files in a frame are left out."""
    if f"{name}.npy" not in frame.zip.namelist():
        return "no array"
    array = _array(path, frame, name)
    return found_of(array.shape, array.dtype)


def _spans(folder):
    """First and last frame of each episode, and no text."""
    path = folder / _SPANS
    try:
        spans = np.load(path, allow_pickle=False)
        if not isinstance(spans, np.ndarray):
            raise ValueError("an archive of arrays")
    except Exception as error:  # as for a frame
        raise ValueError(f"{path}: expected an array, found damage: {error}") from None
    return _checked(path, spans, [None] * spans.shape[0] if spans.ndim else [])


def _annotated(folder, mapping):
    """First and last frame of each annotation, and its text."""
    task, *more = mapping.tasks
    if more:
        raise ValueError(
            f"{mapping.path}: task: expected one file of annotations, found {1 + len(more)}"
        )
    path = folder / task
    if not path.is_file():
        raise ValueError(
            f"{mapping.path}: task: expected a file of annotations in {folder}, such as {_ANNOTATIONS}, found no {task!r}"
        )
    found = _unpickled(path)
    try:
        texts, spans = _list(found["language"]["ann"]), _list(found["info"]["indx"])
        spans = [tuple(_list(span)) for span in spans]
    except (KeyError, TypeError, IndexError):
        raise ValueError(f"{path}: expected language/ann and info/indx, found others") from None
    if len(texts) != len(spans):
        raise ValueError(
            f"{path}: expected a text for each of {len(spans)} spans, found {len(texts)}"
        )
    if any(len(span) != 2 or not all(type(at) is int for at in span) for span in spans):
        raise ValueError(f"{path}: expected pairs of a first and a last frame, found others")
    spans = np.array(spans, np.int64).reshape(-1, 2)
    return _checked(path, spans, [str(text) for text in texts])


def _list(found):
    """A list or an array as a list."""
    return found.value().tolist() if isinstance(found, _Ndarray) else list(found)


def _checked(path, spans, texts):
    """Spans as triples."""
    if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: expected pairs of a first and a last frame, found {spans.dtype} of {list(spans.shape)}"
        )
    for first, last in spans.tolist():
        if not 0 <= first <= last:
            raise ValueError(
                f"{path}: expected a first frame before the last, found {first} and {last}"
            )
        if last - first >= _MAX_FRAMES:
            raise ValueError(
                f"{path}: expected at most {_MAX_FRAMES} frames, found {last - first + 1}"
            )
    return [(*span, text) for span, text in zip(spans.tolist(), texts, strict=True)]


#: Where NumPy has its arrays: it was `numpy.core` before version 2.
_CORES = ("numpy.core", "numpy._core")


class _Dtype:
    """A dtype in a pickle, of numbers, texts or objects. NumPy's own would believe any state, and crash."""

    def __init__(self, name, *_):
        is_plain = isinstance(name, str) and re.fullmatch(r"O8?|b1|[iuf][1248]|[SU]\d{1,6}", name)
        if not is_plain:
            raise pickle.UnpicklingError(f"the dtype {name!r}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state):
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Ndarray:
    """An array in a pickle. `value` makes it."""

    state = None

    def __setstate__(self, state):
        self.state = state

    def value(self):
        _, shape, kind, is_fortran, data = self.state
        if kind.dtype.hasobject:
            if not isinstance(data, list):
                raise pickle.UnpicklingError("objects that are no list")
            found = np.empty(len(data), object)
            found[:] = data
        else:
            found = np.frombuffer(bytes(data), kind.dtype)
        return found.reshape(shape, order="F" if is_fortran else "C")


def _of_buffer(data, kind, shape, order):
    found = _Ndarray()
    found.state = None, shape, kind, order == "F", data
    return found


def _scalar(kind, data):
    if kind.dtype.hasobject:
        raise pickle.UnpicklingError("a scalar that is an object")
    return np.frombuffer(data, kind.dtype, 1)[0].item()


class _Unpickler(pickle.Unpickler):
    """Reads arrays and plain values alone: a pickle may otherwise run any program. Nothing of NumPy is called."""

    CLASSES = {
        **{(f"{core}.multiarray", "_reconstruct"): lambda *_: _Ndarray() for core in _CORES},
        **{(f"{core}.multiarray", "scalar"): _scalar for core in _CORES},
        **{(f"{core}.numeric", "_frombuffer"): _of_buffer for core in _CORES},
        ("numpy", "ndarray"): _Ndarray,
        ("numpy", "dtype"): _Dtype,
    }

    def find_class(self, module, name):
        found = self.CLASSES.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name}, which is no array")
        return found


def _unpickled(path):
    """The object of an array of one object, as `numpy.save` writes a dict."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }
            shape, _, dtype = read[version](file)
            if dtype.hasobject is False or shape != ():
                raise ValueError(f"{dtype} of {list(shape)}")
            return _Unpickler(file).load().value().item()
    except Exception as error:  # a damaged pickle raises anything
        raise ValueError(f"{path}: expected annotations, found damage: {error}") from None
