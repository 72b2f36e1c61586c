"""Datasets of RoboMimic and LIBERO: HDF5 files with the demonstrations `data/demo_0` and so on.

A demonstration has arrays of all its frames, such as `obs/agentview_image` and `actions`. Masks of RoboMimic,
`mask/train`, list names of demonstrations: they are the splits.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .mapped import MappedDataset, found_of, named
from .mapping_file import missing

#: Bytes that are read at once.
_BLOCK_BYTES = 4 << 20
_ENDINGS = (".hdf5", ".h5")
#: Where a task may be, by how well it says what is done: JSON in attributes of `data`.
_TASKS = ("problem_info/language_instruction", "env_args/env_name")


def recognises(root):
    """Whether the files at a path are of this kind."""
    return next(_found(Path(root)), None) is not None


@dataclass(frozen=True)
class Episode:
    """A demonstration of a file, and its task. If the file is damaged, `damage` says how, and it stands for all of the
    file."""

    number: int
    name: str
    path: Path
    group: str = ""
    text: str | None = None
    damage: str | None = None


class Hdf5Dataset(MappedDataset):
    """A file of demonstrations, or a folder of such files."""

    KIND = "RoboMimic or LIBERO"

    def __init__(self, root):
        super().__init__(root)
        try:
            import h5py  # noqa: F401
        except ImportError as error:
            raise missing("h5py", error) from error
        self._paths = _paths(self.root)
        self.source = "the first demonstration"

    def open(self, mapping):
        self.episodes, self.splits = [], {}
        for path in self._paths:
            inner = path.name if path == self.root else path.relative_to(self.root)
            stem = named(str(Path(inner).with_suffix("")))
            try:
                with _File(path) as file:
                    text = _task(path, file, mapping)
                    self._add(path, stem, _demonstrations(path, file), text, _masks(path, file))
            except (ValueError, OSError) as error:
                number = len(self.episodes)
                self.episodes.append(Episode(number, stem, path, damage=str(error)))
        for episode in self.episodes:
            if episode.damage is not None:  # its splits are unknown
                for names in self.splits.values():
                    names.append(episode.name)
        self._expect_names_that_differ()

    def _expect_names_that_differ(self):
        places = {}
        for episode in self.episodes:
            other = places.setdefault(episode.name, episode)
            if other is not episode:
                raise ValueError(
                    f"{self.root}: expected episodes whose names differ, found {episode.name} of {other.path} and of "
                    f"{episode.path}: rename a file"
                )

    def _add(self, path, stem, groups, text, masks):
        """Adds the demonstrations of a file."""
        names = {}
        for group in groups:
            names[group] = f"{stem}_{named(group)}"
            self.episodes.append(Episode(len(self.episodes), names[group], path, group, text))
        for split, members in masks.items():
            listed = self.splits.setdefault(split, [])
            listed += [names[member] for member in members if member in names]
            if lost := sorted(set(members) - set(names)):
                self.left_out[f"{path.name}: mask/{split}: {', '.join(lost)}"] = "not in the file"

    def fields(self):
        """As of `MappedDataset`, of the first demonstration that can be read."""
        damage = None
        for path in self._paths:
            try:
                with _File(path) as file:
                    for group in _demonstrations(path, file):
                        self.source = f"{group} of {path.name}"
                        return _fields(file["data"][group])
            except (ValueError, OSError) as error:
                damage = damage or str(error)
        raise ValueError(damage or f"{self.root}: expected a demonstration or more, found none")

    def first_rate(self):
        """That of the simulator, `control_freq`."""
        rate = self._text("env_args/env_kwargs/control_freq")
        if isinstance(rate, (int, float)) and 0 < rate < 1e6:
            return rate, "control_freq in env_args of the file"
        return None, "expected: the frames per second that the dataset's documentation says"

    def first_task(self):
        return next((key for key in _TASKS if isinstance(self._text(key), str)), None)

    def files(self, episode):
        return [episode.path]

    def length(self, episode):
        """That of the first stream."""
        field = self.field(next(iter(self.features)))
        with self._opened(episode) as file:
            return len(self._array(file, episode, field))

    def task(self, episode):
        return episode.text

    def blocks(self, episode, names):
        with self._opened(episode) as file:
            arrays = {name: self._array(file, episode, self.field(name)) for name in names}
            length = len(arrays[names[0]])
            for name, array in arrays.items():
                if len(array) != length:
                    raise ValueError(
                        f"{episode.path}: {episode.group}/{self.field(name)}: expected {length} frames as in "
                        f"{self.field(names[0])}, found {len(array)}"
                    )
            of_frame = sum(array.nbytes for array in arrays.values()) // max(1, length)
            frames = max(1, _BLOCK_BYTES // max(1, of_frame))
            for first in range(0, length, frames):
                yield {name: array[first : first + frames] for name, array in arrays.items()}

    def _opened(self, episode):
        if episode.damage is not None:
            raise ValueError(episode.damage)
        return _File(episode.path)

    def _array(self, file, episode, field):
        import h5py

        found = file["data"][episode.group].get(field)
        if not isinstance(found, h5py.Dataset) or not found.shape:
            kind = "none" if found is None else "no array"
            raise ValueError(
                f"{episode.path}: {episode.group}: expected an array {field!r}, found {kind}"
            )
        is_here = Path(found.file.filename) == Path(episode.path)
        if not is_here or found.external or found.is_virtual:
            raise ValueError(
                f"{episode.path}: {episode.group}: expected the values of {field!r} in this file, found them in another"
            )
        return found

    def _text(self, key):
        """A value in attributes of the first file."""
        try:
            with _File(self._paths[0]) as file:
                return _attribute(file["data"], key)
        except (ValueError, OSError, KeyError):
            return None


class _File:
    """An open file. What h5py raises names it."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        import h5py

        try:
            self._file = h5py.File(self._path, "r")
        except FileNotFoundError:
            raise FileNotFoundError(f"{self._path}: expected an HDF5 file, found none") from None
        except OSError as error:
            raise ValueError(
                f"{self._path}: expected an HDF5 file, found damage: it may be truncated ({error})"
            ) from None
        return self._file

    def __exit__(self, kind, error, traceback):
        self._file.close()
        # h5py raises KeyError and RuntimeError, too, if a file is damaged.
        if isinstance(error, (OSError, KeyError, RuntimeError)):
            raise ValueError(
                f"{self._path}: expected a whole HDF5 file, found damage: {error}"
            ) from None


def _paths(root):
    """The files at a path, in the order of their names."""
    return sorted(_found(root))


def _found(root):
    """Yields the files at a path: itself, or those below it."""
    paths = [root] if root.is_file() else root.rglob("*")
    return (path for path in paths if path.suffix in _ENDINGS and path.is_file())


def _demonstrations(path, file):
    """The names of the demonstrations, in the order of their numbers."""
    data = file.get("data")
    if data is None or not hasattr(data, "keys"):
        raise ValueError(f"{path}: expected a group 'data' with demonstrations, found none")
    names = sorted(data, key=_order)
    for name in names:
        if not hasattr(data[name], "visititems"):
            raise ValueError(f"{path}: expected groups in 'data', found {name!r}, which is none")
    return names


def _task(path, file, mapping):
    """The text of the task of a file: of the places that the mapping has, the first that has one. None if the mapping has no
    task, or all texts are empty.

    Raises ValueError if none of the places has a text.
    """
    found = [_attribute(file["data"], key) for key in mapping.tasks]
    texts = [each for each in found if isinstance(each, str)]
    if found and not texts:
        kinds = ["none" if each is None else type(each).__name__ for each in found]
        raise ValueError(
            f"{path}: expected a text at {' or '.join(map(repr, mapping.tasks))} in the attributes of 'data', as "
            f"{mapping.path} says, found {', '.join(kinds)}"
        )
    return next(filter(None, texts), None)


def _order(name):
    """`demo_9` before `demo_10`."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"(\d+)", name)
    ]


def _masks(path, file):
    """The names of demonstrations by mask."""
    found, masks = {}, file.get("mask")
    if masks is not None and not hasattr(masks, "items"):
        raise ValueError(f"{path}: mask: expected a group of masks, found none")
    for name, members in ({} if masks is None else masks).items():
        if getattr(members, "ndim", None) != 1 or members.dtype.kind not in "SO":
            raise ValueError(f"{path}: mask/{name}: expected names of demonstrations, found others")
        texts = members[()].tolist()
        found[str(name)] = [str(of, "utf-8") if isinstance(of, bytes) else str(of) for of in texts]
    return found


def _fields(demonstration):
    """By path what the arrays of a demonstration are."""
    import h5py

    found = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            found[name] = found_of(item.shape[1:], item.dtype) if item.shape else "a single value"

    demonstration.visititems(visit)
    return found


def _attribute(data, key):
    """A value in the attributes of a group, which have JSON: `env_args/env_name`; None if there is none."""
    first, *rest = key.split("/")
    value = data.attrs.get(first)
    try:
        value = json.loads(value) if rest else value
        for word in rest:
            value = value[word]
    except (ValueError, TypeError, KeyError):
        return None
    return value.decode() if isinstance(value, bytes) else value
