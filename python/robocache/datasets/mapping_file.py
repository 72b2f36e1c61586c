"""A mapping: a short YAML that says what the fields of a dataset's files are.

    rate_hz: 5                          # of the frames, by the dataset's documentation
    task: language_instruction          # where the text of the task is, or a list: the first that has one
    streams:
      image_0: observation/image_0      # a stream and its field
      state: {field: observation/state, names: [x, y, z, roll, pitch, yaw, gripper], angular: [roll, pitch, yaw]}
      action: {field: action, names: [x, y, z, roll, pitch, yaw, gripper], held: [gripper]}

Files that have no stamps get those of this rate. docs/import.md explains it.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

#: The folder of the mappings of known datasets.
KNOWN = Path(__file__).parent / "mappings"
_STREAM = re.compile(r"[a-z][a-z0-9_]*")
#: How an image may be turned.
ORIENTS = ("rotate_180", "flip_vertical", "flip_horizontal")
#: Keys that are lists of names of elements.
_LISTS = ("angular", "held", "relative_gripper")
_KEYS = {"names", "quaternions", "valid", "blank", "orient", *_LISTS}


@dataclass(frozen=True)
class Field:
    """A field that becomes a stream.

    Attributes:
        name: its path in the files, such as `observation/state`.
        names: of its elements; None: numbers.
        angular: names of elements that are angles [rad].
        quaternions: the names x, y, z, w of each quaternion.
        held: names of elements without values in between.
        relative_gripper: names of elements that say how a gripper changes: above 0.1 it closes, below -0.1 it opens.
            The import writes what it is to be: 0 closed, 1 open.
        valid: the field that says whether a frame has a value; None: every frame has.
        has_blanks: whether an image of one colour is none.
        orient: one of `ORIENTS`, or None.
    """

    name: str
    names: tuple[str, ...] | None = None
    angular: tuple[str, ...] = ()
    quaternions: tuple[tuple[str, ...], ...] = ()
    held: tuple[str, ...] = ()
    relative_gripper: tuple[str, ...] = ()
    valid: str | None = None
    has_blanks: bool = False
    orient: str | None = None


@dataclass(frozen=True)
class Mapping:
    """What a mapping says.

    Attributes:
        path: its file.
        rate_hz: frames per second.
        tasks: where the text of the task may be: the first that has one counts.
        streams: a dict by stream of `Field`.
    """

    path: Path
    rate_hz: float
    tasks: tuple[str, ...]
    streams: dict[str, Field]


def known():
    """The names of the known datasets."""
    return sorted(path.stem for path in KNOWN.glob("*.yaml"))


def read(name):
    """The mapping of a known dataset or of a file.

    Raises:
        ValueError: it is no mapping. The error names the key.
        OSError: the file cannot be read.
        ImportError: PyYAML is missing.
    """
    path = KNOWN / f"{name}.yaml" if str(name) in known() else Path(name)
    if not path.exists():
        raise ValueError(
            f"expected the file of a mapping or one of {', '.join(known())}, found {str(name)!r}"
        )
    content = _yaml(path)
    _expect(path, "the file", "a mapping of keys", content, isinstance(content, dict))
    _expect_keys(path, "", content, {"rate_hz", "streams"}, {"task"})
    rate, task = content["rate_hz"], content.get("task")
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    is_rate = is_number and math.isfinite(rate) and 0 < rate < 1e6
    _expect(path, "rate_hz", "frames per second", rate, is_rate)
    tasks = task if isinstance(task, list) else [] if task is None else [task]
    are_texts = all(map(_is_text, tasks)) and task != []
    _expect(path, "task", "where the task is, as text or a list of texts", task, are_texts)
    streams = content["streams"]
    _expect(path, "streams", "a stream or more", streams, isinstance(streams, dict) and streams)
    fields = {key: _field(path, key, of) for key, of in streams.items()}
    return Mapping(path, rate, tuple(tasks), fields)


def _field(path, stream, value):
    key = f"streams.{stream}"
    is_name = isinstance(stream, str) and _STREAM.fullmatch(stream)
    _expect(path, key, "a name of small letters, digits and _", stream, is_name)
    value = value if isinstance(value, dict) else {"field": value}
    _expect_keys(path, f"{key}.", value, {"field"}, _KEYS)
    field, valid, blank, orient = (
        value.get(each) for each in ("field", "valid", "blank", "orient")
    )
    _expect(path, f"{key}.field", "the path of a field", field, _is_text(field))
    _expect(path, f"{key}.valid", "the path of a field", valid, valid is None or _is_text(valid))
    _expect(path, f"{key}.blank", "invalid, or no such key", blank, blank in (None, "invalid"))
    words = ", ".join(ORIENTS)
    _expect(path, f"{key}.orient", f"one of {words}", orient, orient in (None, *ORIENTS))
    lists = {name: _names(path, f"{key}.{name}", value[name]) for name in _LISTS if name in value}
    names = _names(path, f"{key}.names", value["names"]) if "names" in value else None
    quaternions = value.get("quaternions", [])
    where = f"{key}.quaternions"
    are_lists = isinstance(quaternions, list) and ("quaternions" not in value or quaternions)
    _expect(path, where, "a list of quaternions", quaternions, are_lists)
    fours = tuple(_names(path, where, four) for four in quaternions)
    are_four = all(len(four) == 4 for four in fours)
    _expect(path, where, "the names x, y, z, w of each quaternion", quaternions, are_four)
    flag = None if valid is None else valid.strip("/")
    of_image = {"valid": flag, "has_blanks": blank is not None, "orient": orient}
    return Field(field.strip("/"), names, quaternions=fours, **lists, **of_image)


def _names(path, key, names):
    are_names = isinstance(names, list) and names and all(map(_is_text, names))
    _expect(path, key, "a list of texts (quote yes, no, on, off)", names, are_names)
    _expect(path, key, "names that differ", names, len(set(names)) == len(names))
    return tuple(names)


def _is_text(value):
    return isinstance(value, str) and bool(value.strip("/"))


def _expect(path, key, expected, found, is_so):
    if not is_so:
        raise ValueError(f"{path}: {key}: expected {expected}, found {_told(found)}")


def _expect_keys(path, prefix, found, needed, more):
    for key in found:
        if key not in needed | more:
            raise ValueError(
                f"{path}: {prefix}{key}: expected one of {', '.join(sorted(needed | more))}, found this key"
            )
    for key in sorted(needed - set(found)):
        raise ValueError(f"{path}: {prefix}{key}: expected this key, found none")


def _told(value):
    """A value in an error: short."""
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _yaml(path):
    try:
        import yaml
    except ImportError as error:
        raise missing("PyYAML", error) from error

    class Loader(yaml.SafeLoader):
        """A key that is there twice is an error, rather than the last one."""

    def mapping(loader, node):
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise ValueError(f"{path}: {twice}: expected this key once, found it twice")
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{path}: expected YAML, found {text}") from None


def missing(packages, error):
    """The ImportError that says what to install."""
    return ImportError(
        f"expected {packages}: pip install 'dist/WHEEL.whl[import]', with the wheel of `make wheel` ({error})"
    )
