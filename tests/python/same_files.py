"""Comparison of files byte for byte: if they differ, the error names the first difference in a few lines."""

import contextlib
import hashlib
import io
import itertools
from pathlib import Path

#: The most bytes of each side that the error shows.
_SHOWN = 16


def expect_same(found, expected, apart_from=()):
    """Raises AssertionError if files differ from the expected ones, are missing or are more. Returns the names of all.

    Args:
        found, expected: a file, a folder with all files below it, or a dict of names and bytes, such as
            `replays.files` returns.
        apart_from: file names that do not count, in any folder.
    """
    __tracebackhide__ = True
    sides = [_files(of, apart_from) for of in (found, expected)]
    names = sorted(sides[1])
    if not names:
        raise AssertionError(
            f"expected at least one file to compare with, found none in {_of(expected)}"
        )
    missing, more = sorted(set(names) - set(sides[0])), sorted(set(sides[0]) - set(names))
    differing = [
        name
        for name in names
        if name in sides[0] and len({_digest(side[name]) for side in sides}) > 1
    ]
    if not (missing or more or differing):
        return names
    lines = [
        f"expected the bytes of {_of(expected)} ({len(names)} files), found others in {_of(found)}:",
        *_named("missing", missing),
        *_named("not expected", more),
        *_named("differing", differing),
    ]
    if differing:
        first = differing[0]
        lines += _difference(first, *(_bytes(side[first]) for side in sides))
    raise AssertionError("\n".join(lines))


def _files(of, apart_from):
    """The files of a side: names, and paths or bytes."""
    if isinstance(of, dict):
        found = {str(name): content for name, content in of.items()}
    elif Path(of).is_dir():
        paths = [path for path in Path(of).rglob("*") if path.is_file()]
        found = {str(path.relative_to(of)): path for path in paths}
    else:
        found = {"": Path(of)}
    return {name: each for name, each in found.items() if Path(name).name not in apart_from}


def _of(side):
    return "a snapshot" if isinstance(side, dict) else str(side)


def _bytes(content):
    return content if isinstance(content, bytes) else content.read_bytes()


def _digest(content):
    return hashlib.sha256(_bytes(content)).hexdigest()


def _named(what, names):
    """A line with the number of names and the first ones, if there are any."""
    if names:
        rest = ", ..." if len(names) > 3 else ""
        yield f"  {len(names)} {what}: {', '.join(name or 'the file' for name in names[:3])}{rest}"


def _difference(name, found, expected):
    """Lines about the first difference of a file."""
    at = _first(found, expected)
    yield (
        f"  {name or 'the file'}: expected {len(expected)} bytes (sha256 {_digest(expected)[:16]}), "
        f"found {len(found)} ({_digest(found)[:16]})"
    )
    yield f"    first at offset {at}: expected {_shown(expected, at)}, found {_shown(found, at)}"
    # A file that was compared alone has no name, so the bytes tell what it is.
    if b"ftyp" in expected[:12]:
        yield f"    {_packet(found, expected)}"


def _first(found, expected):
    """The offset of the first byte that differs, or the length of the shorter side."""
    pairs = zip(found, expected, strict=False)
    shorter = min(len(found), len(expected))
    return next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)


def _shown(content, at):
    return content[at : at + _SHOWN].hex(" ") or "the end"


def _packet(found, expected):
    """A line about the first packet of an MP4 file that differs."""
    try:
        packets = list(itertools.zip_longest(*(_packets(each) for each in (found, expected))))
    except Exception as error:  # the file is broken, and the lines before are told all the same
        return f"no packets: {error}"
    for number, (one, other) in enumerate(packets):
        if one != other:
            return f"packet {number}: expected {_told(other)}, found {_told(one)}"
    return f"all {len(packets)} packets are equal"


def _packets(data):
    """The packets of an MP4 file: stream, time, and bytes."""
    import av

    with contextlib.closing(av.open(io.BytesIO(data))) as file:
        # An empty packet ends each stream.
        return [(each.stream.index, each.pts, bytes(each)) for each in file.demux() if each.size]


def _told(packet):
    if packet is None:
        return "none"
    stream, pts, content = packet
    return f"{len(content)} bytes at {pts} in stream {stream} (sha256 {_digest(content)[:16]})"
