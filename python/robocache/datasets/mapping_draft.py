"""The text of a first mapping of a dataset's files."""

import json
import math
import re

import numpy as np

from . import mapping_file
from .first_config import free_name
from .guess import guess, some_of
from .mapping_file import Field, Mapping

#: A field that needs no quotes in YAML.
_PLAIN = re.compile(r"(?!(?i:y|n|yes|no|on|off|true|false|null)$)[A-Za-z_][A-Za-z0-9_/.]*")
#: Frames that a guess reads. CALVIN has a file for each.
_FRAMES = 2000
#: Fields of RLDS that say where an episode begins and ends, or how good it is. Policies seldom take them.
_SELDOM = ("is_first", "is_last", "is_terminal", "discount", "reward", "dones", "rewards")


def draft(dataset):
    """The text of a first mapping.

    Args:
        dataset: a `MappedDataset` without a mapping.

    Raises ValueError if it has no field for a stream.
    """
    fields = dataset.fields()
    left_out = {field: found for field, found in fields.items() if isinstance(found, str)}
    streams = {}
    for field, found in fields.items():
        if not isinstance(found, str):
            streams[_stream_name(field, streams)] = field, found
    if not streams:
        raise ValueError(f"{dataset.root}: expected numbers or images, found no such field")
    rate, source = dataset.first_rate()
    task = dataset.first_task()
    values = _values(dataset, {field: of for field, of in streams.values() if of.kind == "vector"})
    lines = [
        f"# A first mapping of {dataset.root}: {dataset.KIND}. Remove what you do not need.",
        "# In the repository, docs/import.md explains the keys.",
        *_known(fields),
        f"rate_hz:{'' if rate is None else f' {rate:g}'} # {source}",
        *([f"task: {_quoted(task)}"] if task else []),
        "streams:",
    ]
    for stream, (field, found) in streams.items():
        seldom = "# " if field.rpartition("/")[2] in _SELDOM else ""
        lines.append(f"  {seldom}{stream}: {_stream(field, found, values.get(field, []))}")
    lines += [f"  # {field}: left out, {why}" for field, why in left_out.items()]
    return "\n".join(lines) + "\n"


def _known(fields):
    """A line for each known mapping whose fields are all there."""
    for name in mapping_file.known():
        mapping = mapping_file.read(name)
        if all(each.name in fields for each in mapping.streams.values()):
            yield f"# The known mapping {name} fits these files: --mapping {name} (rate_hz: {mapping.rate_hz:g})."


def _values(dataset, vectors):
    """By field the values of some episodes that can be read: a list of [frames, elements]. Reads few frames of each."""
    found = {field: [] for field in vectors}
    if not vectors:
        return found
    streams = {f"s{at}": Field(field) for at, field in enumerate(vectors)}
    dataset.take(Mapping(dataset.root, 1.0, (), streams))
    episodes = some_of(dataset.episodes)
    for episode in episodes:
        blocks, frames = [], 0
        try:
            for block in dataset.blocks(episode, list(streams)):
                blocks.append(block)
                frames += len(block["s0"])
                if frames >= _FRAMES // len(episodes):
                    break
        except (ValueError, OSError):
            continue
        for name, stream in streams.items() if blocks else ():
            rows = np.concatenate([block[name] for block in blocks])
            found[stream.name].append(rows.reshape(len(rows), -1))
    return found


def _stream(field, found, values):
    """The value of a stream: its field, and what its elements are by a guess."""
    text, count = _quoted(field), math.prod(found.shape)
    if found.kind != "vector":
        return text
    names = [str(at) for at in range(count)] if count > 1 else [field.rpartition("/")[2]]
    called = names
    if count == 3 and re.search(r"euler|rpy", field.lower()):
        called = ["roll", "pitch", "yaw"]
    elif count == 4 and "quat" in field.lower():
        called = ["x", "y", "z", "w"]
    is_float = np.dtype(found.dtype).kind == "f"
    guessed = guess(field, called, values) if is_float else None
    if guessed is None:
        note = f" # or {{field: {text}, names: [...]}} with {count} names" if count > 1 else ""
        return text + note
    words = [f"field: {text}"]
    if called != [str(at) for at in range(count)]:
        words.append(f"names: {_list(called)}")
    for key in ("angular", "held"):
        if own := getattr(guessed, key):
            words.append(f"{key}: {_list(own)}")
    if guessed.quaternions:
        words.append(f"quaternions: [{', '.join(map(_list, guessed.quaternions))}]")
    return f"{{{', '.join(words)}}} # guessed: {guessed.why}"


def _list(names):
    return "[" + ", ".join(_quoted(name) for name in names) + "]"


def _quoted(text):
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _stream_name(field, taken):
    """The name of a field's stream: its last word, or as many as it takes to differ."""
    words = [word for word in field.split("/") if word]
    return free_name(["_".join(words[-count:]) for count in range(1, len(words) + 1)], taken)
