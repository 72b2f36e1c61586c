"""What the demo has measured, as the JSON file from which `robocache view` makes the report.

docs/view.md has the keys. Times are in nanoseconds.
"""

import base64
import datetime
import json

#: Raw messages and aligned values are those of this time before the last message.
CURVE_NS = 2_500_000_000


def write(path, config, recorder, window, counts, problems):
    """Writes the measurements of a run to `path`."""
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    about = f"A policy gets every stream at the same instants, in one tensor per tick. {when}"
    content = {
        "robocache_measurements": 1,
        "title": "robocache demo",
        "about": [about],
        "problems": problems,
        "rate_hz": config.rate_hz,
        "window_ns": list(window),
        "ticks": list(counts),
        "latencies_ns": recorder.latencies_ns(*window),
        "node": recorder.diagnostics.tick,
        "streams": {
            stream.name: recorder.diagnostics.streams.get(stream.name, {})
            for stream in config.streams
        },
        "tensors": [text(tensor.message) for tensor in recorder.snapshots],
        "curves": list(curves(config, recorder)),
    }
    if recorder.info is not None:
        content["info"] = text(recorder.info)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def text(message):
    """The bytes of a message as base64."""
    return base64.b64encode(message).decode()


def curves(config, recorder):
    """The positions of the watched joints, as published and as in the tensors."""
    stream = next((s for s in config.streams if s.joints), None)
    if stream is None or "position" not in stream.fields:
        return
    first = stream.fields.index("position") * len(stream.joints)
    for at, name in enumerate(stream.joints):
        raw, aligned = recorder.raw_and_aligned(stream.name, first + at, name)
        if not raw:
            continue
        start = raw[-1][0] - CURVE_NS
        yield {
            "stream": stream.name,
            "name": name,
            "value": "position [rad]",
            "raw": [entry for entry in raw if entry[0] >= start],
            "aligned": [entry for entry in aligned if entry[0] >= start],
        }
