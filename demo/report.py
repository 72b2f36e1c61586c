"""What the demo has seen, as the JSON file from which `robocache view` makes the report.

docs/view.md has the keys.
"""

import base64
import datetime
import json
import math

from processes import number

#: Raw messages and aligned values are those of this time before the last message.
CURVE_NS = 2_500_000_000
#: The ages of all streams are shown from this time before a camera ends to this time after it.
ENDING_NS = (1_000_000_000, 1_500_000_000)
#: A larger age means "no row" [ms].
NO_AGE_MS = 1e9


def write(path, config, recorder, measured, problems, more):
    """Writes the report of a run to `path`.

    `measured`: the window, and the ticks that came in it and were due. `more`: sections before the others.
    """
    window, counts = measured
    when = datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
    about = f"A policy gets every stream at the same instants, in one tensor per tick. {when}"
    latencies_ms = sorted(ns / 1e6 for ns in recorder.latencies_ns(*window))
    compared = list(compare(config, recorder))
    sections = [
        *more,
        {"title": "Raw against aligned", "blocks": compared},
        {"title": "Latency", "blocks": latency(latencies_ms, recorder.diagnostics.tick)},
        {"title": "Streams", "blocks": [streams(config, recorder.diagnostics.streams)]},
    ]
    content = {
        "robocache_report": 1,
        "title": "robocache demo",
        "about": [about],
        "passed": "Passed: {} of {} ticks arrived.".format(*counts),
        "problems": problems,
        "tiles": tiles(config, recorder, window, counts, latencies_ms),
        "tensors": [base64_of(tensor.message) for tensor in recorder.snapshots],
        "sections": sections,
    }
    if recorder.info is not None:
        content["info"] = base64_of(recorder.info)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def base64_of(message):
    return base64.b64encode(message).decode()


def text(value, decimals, unit=""):
    """A number for people; a dash if it is not known."""
    if value is None or not math.isfinite(value):
        return "\u2013"
    return f"{value:.{decimals}f}{unit}"


def quantile(ordered, share):
    return ordered[round((len(ordered) - 1) * share)] if ordered else None


def tiles(config, recorder, window, counts, latencies_ms):
    """The headline: values, and what they are."""
    node = recorder.diagnostics.tick
    rate = counts[0] / max(window[1] - window[0], 1) * 1e9
    made = [
        [text(rate, 1, " Hz"), f"received, of {config.rate_hz:g} Hz"],
        [text(number(node, "total_latency_p50_ms"), 2, " ms"), "tick latency p50"],
        [text(number(node, "total_latency_p99_ms"), 2, " ms"), "tick latency p99"],
        [text(quantile(latencies_ms, 0.5), 2, " ms"), "tick to policy p50"],
        [text(number(node, "overruns"), 0), "overruns"],
    ]
    if recorder.snapshots:
        size = recorder.snapshots[-1].data.nbytes / 1e6
        made.append([f"{size:.2f} MB", f"per tick, {size * config.rate_hz:.0f} MB/s"])
    return made


def compare(config, recorder):
    """A block with the positions of the watched joints, as published and as in the tensors."""
    stream = next((s for s in config.streams if s.joints), None)
    if stream is None or "position" not in stream.fields:
        return
    first = stream.fields.index("position") * len(stream.joints)
    channels = []
    for at, name in enumerate(stream.joints):
        raw, aligned = recorder.raw_and_aligned(stream.name, first + at, name)
        if not raw:
            continue
        start = raw[-1][0] - CURVE_NS
        channels.append(
            {
                "name": name,
                "raw": [entry for entry in raw if entry[0] >= start],
                "aligned": [entry for entry in aligned if entry[0] >= start],
            }
        )
    if channels:
        yield {"compared": {"stream": stream.name, "value": "position [rad]", "channels": channels}}


def ending(config, recorder, ended_ns, name):
    """A section with the ages of all streams, while the camera of the stream `name` ends at `ended_ns`."""
    begin, end = ended_ns - ENDING_NS[0], ended_ns + ENDING_NS[1]

    def shown(stream):
        return [entry for entry in recorder.ages.get(stream, []) if begin <= entry[0] <= end]

    curves = [
        {
            "name": stream.name,
            "points": [
                [(stamp - ended_ns) / 1e9, None if age is None else age / 1e6]
                for stamp, age in shown(stream.name)
            ],
        }
        for stream in config.streams
    ]
    valid = [stamp for stamp, age in shown(name) if age is not None]
    ticks = recorder.ticks_between(ended_ns, end)
    last = text((valid[-1] - ended_ns) / 1e6 if valid else None, 0, " ms")
    told = (
        f"The driver of {name} ends at 0 s. Its last image ages, and is valid for {last} more. Then each tensor "
        f"says that {name} is not valid, and the policy can stop. The {ticks} tensors of the next "
        f"{ENDING_NS[1] / 1e9:g} s came all the same, with all other streams."
    )
    plot = {
        "title": "ages of the streams while a camera ends",
        "x": f"time since {name} ended [s]",
        "y": "age at the tick [ms]",
        "caption": "A gap: the step is not valid",
        "curves": curves,
    }
    return {"title": "A stream that stops", "blocks": [{"text": told}, {"plot": plot}]}


def latency(latencies_ms, node):
    """Blocks with the time from a tick's instant to the subscriber's callback."""
    if not latencies_ms:
        return [{"text": "No tensor arrived in the measured window."}]
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    here = {name: quantile(latencies_ms, share) for name, share in shares.items()}

    def row(what, values):
        return [what, *(text(values[name], 2) for name in shares)]

    def told(prefix):
        return {name: number(node, f"{prefix}_{name}_ms") for name in shares}

    histogram = {
        "title": "latency histogram",
        "x": "from the tick's instant to the subscriber's callback [ms]",
        "y": "ticks",
        "caption": f"Latency of {len(latencies_ms)} ticks at a subscriber beside the policy; the "
        "slowest 0.2 % share the last bar",
        "values": latencies_ms,
        "marks": [[f"{name} {text(here[name], 2, ' ms')}", here[name]] for name in ("p50", "p99")],
    }
    rows = [
        row("tick to callback", here),
        row("tick to published, whole run", told("total_latency")),
        row("tick to published, last second", told("latency")),
    ]
    table = {"head": ["latency [ms]", *shares], "texts": 1, "rows": rows}
    return [{"histogram": histogram}, {"table": table}]


def streams(config, diagnostics):
    """A table with the newest diagnostics of each stream."""
    rows = []
    for stream in config.streams:
        values = diagnostics.get(stream.name, {})
        age, share = number(values, "age_ms"), number(values, "valid_share")
        rows.append(
            [
                stream.name,
                " ".join(stream.topics),
                stream.inputs[0].type,
                stream.strategy,
                text(number(values, "rate_hz"), 1, " Hz"),
                text(age if age is not None and age < NO_AGE_MS else None, 1, " ms"),
                text(share if share is None else 100 * share, 1, " %"),
                text(number(values, "received"), 0),
                drops(values),
            ]
        )
    head = ["stream", "topic", "type", "strategy", "rate", "age", "valid", "received", "drops"]
    return {"table": {"head": head, "texts": 4, "rows": rows}}


def drops(values):
    """The drops by reason, such as "3 late, 1 malformed"; their number if no reason is told."""
    reasons = [key for key in values if key.startswith("dropped.") and number(values, key)]
    told = [f"{text(number(values, key), 0)} {key.removeprefix('dropped.')}" for key in reasons]
    return ", ".join(told) or text(number(values, "dropped"), 0)
