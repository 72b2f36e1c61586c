"""The demo's live table: redrawn in place on a terminal, else plain lines."""

import math
import sys
import time

from processes import drops_in_words, number

NO_AGE_MS = 1e9  # ages above this mean "no row", see TensorSegment.msg


def cell(values, key, spec, scale=1.0, unit=""):
    """A value as text, or a dash without a value."""
    value = number(values, key)
    if value is None or not math.isfinite(value) or abs(value) > NO_AGE_MS:
        return "-"
    return f"{value * scale:{spec}}{unit}"


def stream_row(values):
    """Texts of one stream: rate, age, valid share, drops."""
    return [
        cell(values, "rate_hz", ".1f", unit=" Hz"),
        cell(values, "age_ms", ".1f", unit=" ms"),
        cell(values, "valid_share", ".1f", scale=100.0, unit=" %"),
        drops_in_words(values) or cell(values, "dropped", ".0f"),
    ]


def tick_row(values, prefix="latency"):
    """Texts of the tick's latency, p50, p99 and max."""
    return [cell(values, f"{prefix}_{which}_ms", ".2f") for which in ("p50", "p99", "max")]


class Table:
    def __init__(self, config, out=sys.stdout):
        self._config = config
        self._out = out
        self._in_place = out.isatty()
        self._lines = 0
        self._started = time.monotonic()

    def show(self, recorder):
        """Draws the newest state. On a terminal it overwrites the last one."""
        lines = self.lines(recorder)
        if self._in_place and self._lines:
            self._out.write(f"\x1b[{self._lines}A")
        for line in lines:
            self._out.write(line + ("\x1b[K\n" if self._in_place else "\n"))
        self._out.flush()
        self._lines = len(lines)

    def lines(self, recorder):
        tick = recorder.diagnostics.tick
        p50, p99, most = tick_row(tick)
        lines = [
            f"{time.monotonic() - self._started:5.0f} s  {len(recorder.arrivals)} tensors at "
            f"{self._config.rate_hz:g} Hz, backend {tick.get('backend', '-')}",
            f"  tick latency p50 {p50}  p99 {p99}  max {most} ms; "
            f"overruns {cell(tick, 'overruns', '.0f')}, held back {cell(tick, 'held_back', '.0f')}",
            f"  {'stream':<16}{'rate':>11}{'age':>12}{'valid':>10}  drops",
        ]
        for stream in self._config.streams:
            row = stream_row(recorder.diagnostics.streams.get(stream.name, {}))
            rate, age, valid, drops = row
            lines.append(f"  {stream.name:<16}{rate:>11}{age:>12}{valid:>10}  {drops}")
        return lines
