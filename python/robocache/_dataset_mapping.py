"""A mapping: a short YAML that says what the fields of a dataset's files are.

    rate_hz: 5                          # of the frames, by the dataset's documentation
    task: language_instruction          # where the text of the task is; may be missing
    streams:
      image_0: observation/image_0      # a stream and its field
      state: {field: observation/state, names: [x, y, z, roll, pitch, yaw, pad, gripper]}

Files that have no stamps get those of this rate. docs/datasets.md explains it.
"""

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

#: The folder of the mappings of known datasets.
KNOWN = Path(__file__).parent / "mappings"
_STREAM = re.compile(r"[a-z][a-z0-9_]*")
#: A field that needs no quotes in YAML.
_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][A-Za-z0-9_/]*")


@dataclass(frozen=True)
class Field:
    """A field that becomes a stream.

    Attributes:
        name: its path in the files, such as `observation/state`.
        names: of its elements; None: numbers.
    """

    name: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Mapping:
    """What a mapping says.

    Attributes:
        path: its file.
        rate_hz: frames per second.
        task: where the text of the task is; None: nowhere.
        streams: a dict by stream of `Field`.
    """

    path: Path
    rate_hz: float
    task: str | None
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
    _expect(path, "task", "where the task is, as text", task, task is None or _is_text(task))
    streams = content["streams"]
    _expect(path, "streams", "a stream or more", streams, isinstance(streams, dict) and streams)
    return Mapping(path, rate, task, {key: _field(path, key, of) for key, of in streams.items()})


def _field(path, stream, value):
    key = f"streams.{stream}"
    is_name = isinstance(stream, str) and _STREAM.fullmatch(stream)
    _expect(path, key, "a name of small letters, digits and _", stream, is_name)
    if isinstance(value, dict):
        _expect_keys(path, f"{key}.", value, {"field"}, {"names"})
        field, names = value["field"], value.get("names")
    else:
        field, names = value, None
    _expect(path, f"{key}.field", "the path of a field", field, _is_text(field))
    if names is not None:
        are_names = isinstance(names, list) and names and all(map(_is_text, names))
        _expect(path, f"{key}.names", "a list of texts (quote yes, no, on, off)", names, are_names)
        are_own = len(set(names)) == len(names)
        _expect(path, f"{key}.names", "names that differ", names, are_own)
        names = tuple(names)
    return Field(field.strip("/"), names)


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


def draft(source, kind, rate, task, streams, left_out):
    """The text of a first mapping.

    Args:
        source: the path of the dataset.
        kind: what it is.
        rate: the text behind `rate_hz:`, with its reason as a comment. If it is empty, the user must fill it in.
        task: where the text of the task is; None: nowhere.
        streams: a dict by stream of a pair: the field, and the number of its elements, None for an image.
        left_out: a dict by field: why it is no stream.
    """
    lines = [
        f"# A first mapping of {source}: {kind}. docs/datasets.md explains it. Remove what you do not need.",
        rate,
        *([f"task: {task}"] if task else []),
        "streams:",
    ]
    for stream, (field, count) in streams.items():
        text = field if _PLAIN.fullmatch(field) else json.dumps(field, ensure_ascii=False)
        is_vector = count is not None and count > 1
        note = f" # or {{field: {text}, names: [...]}} with {count} names" if is_vector else ""
        lines.append(f"  {stream}: {text}{note}")
    for field, why in left_out.items():
        lines.append(f"  # {field}: left out, {why}")
    return "\n".join(lines) + "\n"
