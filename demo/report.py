"""The demo's report: one HTML file that shows the policy's input. It needs no network or script."""

import datetime
import html

import charts
import live_table
import numpy as np
from page import PAGE

#: Length of the joint curves, and of their close-up [s].
CURVE_S = 2.0
CLOSE_UP_S = 0.08


def write(path, config, recorder, window, counts, problems):
    """Writes the report of a run to `path`."""
    latencies = recorder.latencies_ms(*window)
    sections = [
        ("Cameras", cameras(config, recorder)),
        ("Voxel grids", voxel_grids(config, recorder)),
        ("Joints: raw against aligned", joints(config, recorder)),
        ("Latency", latency(recorder, latencies)),
        ("Streams", streams(config, recorder)),
        ("Layout of the tensor", layout(recorder)),
    ]
    body = "".join(
        f"<section><h2>{title}</h2>{content}</section>" for title, content in sections if content
    )
    page = PAGE.format(
        when=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
        verdict=verdict(counts, problems),
        tiles=tiles(config, recorder, window, counts, latencies),
        body=body,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def verdict(counts, problems):
    received, expected = counts
    if not problems:
        return f'<p class="verdict good">Passed: {received} of {expected} ticks arrived.</p>'
    items = "".join(f"<li>{html.escape(problem)}</li>" for problem in problems)
    return f'<div class="verdict bad">Failed<ul>{items}</ul></div>'


def tiles(config, recorder, window, counts, latencies):
    received, _ = counts
    seconds = (window[1] - window[0]) / 1e9
    tick = recorder.diagnostics.tick
    size = recorder.snapshots[-1].data.nbytes
    entries = [
        (f"{received / seconds:.1f} Hz", f"received, of {config.rate_hz:g} Hz"),
        (live_table.cell(tick, "total_latency_p50_ms", ".2f", unit=" ms"), "tick latency p50"),
        (live_table.cell(tick, "total_latency_p99_ms", ".2f", unit=" ms"), "tick latency p99"),
        (f"{np.median(latencies):.2f} ms" if latencies.size else "-", "tick to policy p50"),
        (live_table.cell(tick, "overruns", ".0f"), "overruns"),
        (f"{size / 1e6:.2f} MB", f"per tick, {size * config.rate_hz / 1e6:.0f} MB/s"),
    ]
    return "".join(
        f"<div class=tile><b>{html.escape(value)}</b><span>{html.escape(what)}</span></div>"
        for value, what in entries
    )


def cameras(config, recorder):
    """Every camera's segment as pictures, from each kept tensor."""
    rows = []
    first_ns = recorder.snapshots[0].stamp_ns
    for stream in (s for s in config.streams if s.kind == "image"):
        pictures = []
        for tensor in recorder.snapshots:
            segment = tensor[stream.name]
            pixels = charts.png_uri(picture(segment.float32()[-1], stream.encoder))
            state = f"age {segment.age_ns[-1] / 1e6:.1f} ms" if segment.valid[-1] else "not valid"
            pictures.append(
                f'<figure><img src="{pixels}" alt="{stream.name}"><figcaption>'
                f"+{(tensor.stamp_ns - first_ns) / 1e9:.2f} s, {state}</figcaption></figure>"
            )
        dims = "x".join(map(str, segment.shape))
        rows.append(
            f"<h3>{stream.name} <small>{dims} {segment.dtype}, {topics(stream)}</small>"
            f'</h3><div class="strip">{"".join(pictures)}</div>'
        )
    note = (
        "<p>The tensor's values, without the normalisation of the configuration "
        "(value &times; std + mean). The policy sees only this.</p>"
    )
    return note + "".join(rows) if rows else ""


def topics(stream):
    return html.escape(" ".join(stream.topics))


def picture(row, image):
    """An image row [channel, height, width] as RGB bytes [height, width, 3]."""
    channels = row.shape[0]
    mean = np.asarray(image["mean"], np.float32)[:channels, None, None]
    std = np.asarray(image["std"], np.float32)[:channels, None, None]
    pixels = np.rint(np.clip(row * std + mean, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    if image["color"] == "bgr":
        pixels = pixels[..., ::-1]
    return np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))


def voxel_grids(config, recorder):
    """Every channel of every grid from above and from the side."""
    figures = []
    for stream in (s for s in config.streams if s.kind == "voxels"):
        segment = recorder.snapshots[-1][stream.name]
        grid = stream.encoder
        ends = [
            (low, low + grid["size_m"] * cells)
            for low, cells in zip(grid["origin_m"], grid["shape"])
        ]
        for values, channel in zip(segment.float32()[-1], grid["channels"]):
            figures.append(grid_figure(stream.name, values, channel, ends))
        occupied = np.count_nonzero(segment.float32()[-1].any(axis=0))
        total = int(np.prod(grid["shape"]))
        state = f"age {segment.age_ns[-1] / 1e6:.1f} ms" if segment.valid[-1] else "not valid"
        figures.append(
            f"<p>{stream.name}: {occupied:,} of {total:,} voxels of {grid['size_m']:g} m are "
            f"occupied; {state}. Axes are those of {html.escape(config.base_frame)}.</p>"
        )
    return "".join(figures)


def grid_figure(name, values, channel, ends):
    """One channel [z, y, x] from above and from the side."""
    counts = channel["reduce"] == "count"
    what = "sum" if counts else "max"
    above = values.sum(axis=0) if counts else values.max(axis=0)
    side = values.sum(axis=1) if counts else values.max(axis=1)
    title = channel["reduce"] + (f" of {channel['field']}" if "field" in channel else "")
    top = charts.heat_map(
        above, ends[0], ends[1], "x [m]", "y [m]", f"{title} from above", 560, logarithmic=counts
    )
    front = charts.heat_map(
        side, ends[0], ends[2], "x [m]", "z [m]", f"{title} from the side", 560, logarithmic=counts
    )
    scale = ", logarithmic colours" if counts else ""
    return (
        f"<h3>{html.escape(name)}: {html.escape(title)}</h3><div class='pair'>"
        f"<figure>{top}<figcaption>From above ({what} over z{scale})</figcaption></figure>"
        f"<figure>{front}<figcaption>From the side ({what} over y{scale})</figcaption></figure>"
        "</div>"
    )


def joints(config, recorder):
    """Curves of a few joints, a close-up of one, and the error of the aligned values."""
    stream = next((s for s in config.streams if s.joints), None)
    if stream is None or "position" not in stream.fields:
        return ""
    names = stream.joints
    start = stream.fields.index("position") * len(names)
    curves = []
    for name in (name for name in names if name in recorder.joints):
        raw, aligned = recorder.raw_and_aligned(stream.name, start + names.index(name), name)
        if len(raw[0]) > 1:
            curves.append((name, *overlap(raw, aligned)))
    curves = [curve for curve in curves if len(curve[2][0])]
    if not curves:
        return "<p>No raw joint states were recorded.</p>"
    return joint_charts(curves, stream.lag_ns / 1e6)


def overlap(raw, aligned):
    """Both curves where they overlap, at most CURVE_S long. Times are in seconds from its start."""
    stamps, positions = raw
    targets, values, ages = aligned
    origin = stamps[0]  # subtract integers first: a float cannot hold an absolute time exactly
    shown = stamps <= origin + int(CURVE_S * 1e9)
    raw = ((stamps[shown] - origin) / 1e9, positions[shown])
    inside = (targets >= origin) & (targets <= stamps[shown][-1])
    return raw, ((targets[inside] - origin) / 1e9, values[inside], ages[inside])


def joint_charts(curves, lag_ms):
    span = (0, max(raw[0][-1] for _, raw, _ in curves))
    heights = charts.padded(np.concatenate([raw[1] for _, raw, _ in curves]))
    whole = charts.Plot(span, heights, "time [s]", "position [rad]", height=300)
    legend, errors = [], []
    for at, (name, raw, (times, values, ages)) in enumerate(curves):
        style = f"s{at % 3}"
        whole.line(*raw, style)
        whole.dots(times, values, style)
        # If the newest row used is before the target, the value is held and not interpolated.
        between = ages <= 0
        errors.append((style, times[between], (values - np.interp(times, *raw))[between]))
        legend.append(f'<span class="{style}">{html.escape(name)}</span>')
    held = int(np.count_nonzero(curves[0][2][2] > 0))
    worst = max((float(np.abs(error).max()) for _, _, error in errors if len(error)), default=0.0)
    limit = max(worst, 1e-9) * 1e6 * 1.15
    plot = charts.Plot(span, (-limit, limit), "time [s]", "error [\N{MICRO SIGN}rad]", height=170)
    for style, times, error in errors:
        plot.dots(times, error * 1e6, style, radius=1.7)
    return (
        "<p>Lines: the published positions. Dots: the newest step of the fused tensor, at its "
        f"target time (tick &minus; {lag_ms:g} ms).</p>"
        f'<p class="legend">{"".join(legend)}</p>'
        f"<figure>{whole.svg('joint positions')}</figure>"
        f"<figure>{close_up(curves[0])}<figcaption>Close-up of {html.escape(curves[0][0])}: small "
        "dots are messages, large ones aligned values</figcaption></figure>"
        f"<figure>{plot.svg('alignment error')}<figcaption>Aligned value minus the published "
        f"positions interpolated at the same instant: at most {worst * 1e6:.3g} &micro;rad (a "
        f"float32 near 1 resolves 0.12). {held} of {len(curves[0][2][0])} values were held and "
        "are not shown: their next message had not arrived yet.</figcaption></figure>"
    )


def close_up(curve):
    """A chart of CLOSE_UP_S, where the joint moves fastest. It shows single messages."""
    _, raw, aligned = curve
    edge = len(raw[0]) // 10  # stays away from the ends, so that the close-up is full
    speed = np.abs(np.diff(raw[1]))[edge : len(raw[0]) - edge - 1]
    middle = raw[0][edge + int(np.argmax(speed))] if speed.size else raw[0][0]
    low, high = middle - CLOSE_UP_S / 2, middle + CLOSE_UP_S / 2
    near = (raw[0] >= low) & (raw[0] <= high)
    hits = (aligned[0] >= low) & (aligned[0] <= high)
    plot = charts.Plot(
        (low, high), charts.padded(raw[1][near], 0.12), "time [s]", "position [rad]", height=220
    )
    plot.line(raw[0][near], raw[1][near], "s0")
    plot.dots(raw[0][near], raw[1][near], "s0", radius=2)
    plot.dots(aligned[0][hits], aligned[1][hits], "s1", radius=4.5)
    return plot.svg("close-up of one joint")


def latency(recorder, latencies):
    if not latencies.size:
        return "<p>No tensor arrived in the measured window.</p>"
    p50, p99 = np.percentile(latencies, [50, 99])
    chart = charts.histogram(
        latencies,
        "from the tick's instant to the subscriber's callback [ms]",
        "latency histogram",
        [("p50", p50), ("p99", p99)],
    )
    tick = recorder.diagnostics.tick
    rows = [
        ("tick to callback, in Python", f"{p50:.2f}", f"{p99:.2f}", f"{latencies.max():.2f}"),
        ("tick to published, whole run", *live_table.tick_row(tick, "total_latency")),
        ("tick to published, last second", *live_table.tick_row(tick)),
    ]
    return (
        f"<figure>{chart}<figcaption>Latency of {len(latencies)} ticks at a Python subscriber "
        "beside the policy; the slowest 0.2 % share the last bar</figcaption></figure>"
        + table(["latency [ms]", "p50", "p99", "max"], rows)
    )


def streams(config, recorder):
    rows = []
    for stream in config.streams:
        values = recorder.diagnostics.streams.get(stream.name, {})
        received = live_table.cell(values, "received", ",.0f")
        first = (stream.name, " ".join(stream.topics), stream.message, stream.strategy)
        rate, age, valid, drops = live_table.stream_row(values)
        rows.append((*first, rate, age, valid, received, drops))
    head = ["stream", "topic", "type", "strategy", "rate", "age", "valid", "received", "drops"]
    return table(head, rows, texts=4)


def layout(recorder):
    tensor = recorder.snapshots[-1]
    whole, start = tensor.data.nbytes, tensor.data.ctypes.data
    rows, blocks = [], []
    for at, segment in enumerate(tensor.segments.values()):
        offset = segment.array.ctypes.data - start
        share = segment.array.nbytes / whole
        blocks.append(
            f'<i class="b{at % 6}" style="flex:{max(share, 0.006):.4f}" '
            f'title="{segment.name}: {segment.array.nbytes:,} bytes"></i>'
        )
        shape = " \N{MULTIPLICATION SIGN} ".join(map(str, segment.shape))
        size = f"{segment.array.nbytes:,}"
        key = f'<i class="key b{at % 6}"></i>'
        rows.append(
            (
                key + html.escape(segment.name),
                segment.dtype,
                shape,
                f"{offset:,}",
                size,
                f"{share:.1%}",
            )
        )
    head = ["segment", "type", "shape (steps first)", "byte offset", "bytes", "share"]
    return f'<div class="blocks">{"".join(blocks)}</div>' + table(head, rows, texts=3, raw=True)


def table(head, rows, texts=1, raw=False):
    """An HTML table; the first `texts` columns are text, the others numbers."""
    kind = ["" if at < texts else " class=n" for at in range(len(head))]
    top = "".join(f"<th{k}>{html.escape(cell)}</th>" for k, cell in zip(kind, head))
    lines = "".join(
        "<tr>"
        + "".join(f"<td{k}>{cell if raw else html.escape(cell)}</td>" for k, cell in zip(kind, row))
        + "</tr>"
        for row in rows
    )
    body = f"<thead><tr>{top}</tr></thead><tbody>{lines}</tbody>"
    return f"<div class=scroll><table>{body}</table></div>"
