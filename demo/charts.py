"""Pictures and charts for one HTML file, as strings: PNG data URIs and SVG. Needs only NumPy.

Colours come from the page's CSS variables, so that charts follow the light and the dark theme.
"""

import base64
import html
import math
import struct
import zlib

import numpy as np

# Five points of matplotlib's viridis, whose lightness is even; linear between them.
_VIRIDIS = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], dtype=np.float64
)


def png_uri(pixels):
    """An RGB picture [height, width, 3] of uint8, as a data URI (PNG, RFC 2083)."""
    height, width, _ = pixels.shape
    # Each line begins with its filter type: 0 (none).
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)

    def chunk(kind, body):
        checksum = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

    png = b"\x89PNG\r\n\x1a\n"
    png += chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def viridis(unit):
    """Values in 0..1 to RGB [..., 3] of uint8."""
    place = np.clip(np.nan_to_num(unit), 0, 1) * (len(_VIRIDIS) - 1)
    low = np.minimum(place.astype(int), len(_VIRIDIS) - 2)
    weight = (place - low)[..., None]
    return np.rint(_VIRIDIS[low] * (1 - weight) + _VIRIDIS[low + 1] * weight).astype(np.uint8)


def ticks(low, high, count=5):
    """About `count` round numbers in low..high, in steps of 1, 2 or 5 times 10^n."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]


def label(value):
    """The text of an axis tick."""
    return f"{value:.6g}".replace("-", "\N{MINUS SIGN}")


class Plot:
    """An SVG with axes and a mapping from data to pixels."""

    def __init__(self, x_range, y_range, x_label, y_label, width=1000, height=260, margin=None):
        self.left, self.right, self.top, self.bottom = margin or (64, 14, 12, 42)
        self.width, self.height = width, height
        self.x_range, self.y_range = x_range, y_range
        self._parts = []
        self._axes(x_label, y_label)

    def x(self, value):
        low, high = self.x_range
        inner = self.width - self.left - self.right
        return self.left + (np.asarray(value) - low) / (high - low or 1) * inner

    def y(self, value):
        low, high = self.y_range
        inner = self.height - self.top - self.bottom
        return self.height - self.bottom - (np.asarray(value) - low) / (high - low or 1) * inner

    def add(self, part):
        self._parts.append(part)

    def text(self, x, y, text, anchor="middle", extra=""):
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.add(f"<text {place} {extra}>{html.escape(text)}</text>")

    def _axes(self, x_label, y_label):
        base, end = self.height - self.bottom, self.width - self.right
        for value in ticks(*self.x_range, count=max(3, self.width // 110)):
            x = float(self.x(value))
            self.add(f'<path class="grid" d="M{x:.1f} {self.top}V{base}"/>')
            self.text(x, base + 17, label(value))
        for value in ticks(*self.y_range, count=max(3, self.height // 40)):
            y = float(self.y(value))
            self.add(f'<path class="grid" d="M{self.left} {y:.1f}H{end}"/>')
            self.text(self.left - 8, y + 4, label(value), "end")
        self.text((self.left + end) / 2, self.height - 6, x_label, extra='class="axis"')
        middle = (self.top + base) / 2
        self.text(
            15, middle, y_label, extra=f'class="axis" transform="rotate(-90 15 {middle:.1f})"'
        )

    def line(self, xs, ys, style):
        points = zip(self.x(xs), self.y(ys))
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if path:
            self.add(f'<path class="line {style}" d="M{path}"/>')

    def dots(self, xs, ys, style, radius=2.2):
        # A dot is a line of no length with round caps, so one path holds all dots.
        points = zip(self.x(xs), self.y(ys))
        path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points)
        if path:
            self.add(f'<path class="dots {style}" stroke-width="{2 * radius}" d="{path}"/>')

    def svg(self, title):
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{html.escape(title)}">{"".join(self._parts)}</svg>'
        )


def padded(values, share=0.06):
    """The range of some values, a little wider; something sensible for none or one."""
    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values)]
    if not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    pad = (high - low) * share or max(abs(high) * share, 1e-9)
    return low - pad, high + pad


def histogram(values, x_label, title, marks=()):
    """Counts of values; the largest 0.2 % share the last bar. `marks` are (name, value)."""
    values = np.asarray(values, dtype=np.float64)
    top = float(np.quantile(values, 0.998)) * 1.08
    top = max(top, *(value * 1.02 for _, value in marks if value <= top * 1.6), 1e-3)
    counts, edges = np.histogram(np.minimum(values, top * 0.9999), bins=80, range=(0, top))
    plot = Plot((0, top), (0, counts.max() * 1.18), x_label, "ticks")
    for count, left, right in zip(counts, edges, edges[1:]):
        if count:
            x, y = float(plot.x(left)), float(plot.y(count))
            width, base = float(plot.x(right)) - x, float(plot.y(0))
            plot.add(
                f'<rect class="bar" x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(width - 1, 1):.1f}" '
                f'height="{base - y:.1f}"/>'
            )
    for row, (name, value) in enumerate(marks):
        if value <= top:
            x = float(plot.x(value))
            plot.add(f'<path class="mark" d="M{x:.1f} {plot.top}V{float(plot.y(0)):.1f}"/>')
            side, offset = ("end", -6) if x > plot.width * 0.8 else ("start", 6)
            plot.text(x + offset, plot.top + 12 + 15 * row, f"{name} {value:.2f} ms", side)
    return plot.svg(title)


def heat_map(values, x_range, y_range, x_label, y_label, title, width, logarithmic=False):
    """A picture [y, x] with axes and a bar of colours. The first row is at the bottom."""
    rows, columns = values.shape
    margin = (58, 76, 10, 42)
    inner = width - margin[0] - margin[1]
    height = round(inner * (y_range[1] - y_range[0]) / (x_range[1] - x_range[0]))
    plot = Plot(x_range, y_range, x_label, y_label, width, height + margin[2] + margin[3], margin)
    most = float(values.max()) if values.size else 0.0
    least = min(float(values.min()), 0.0) if values.size else 0.0
    spread = (most - least) or 1.0
    unit_values = (values - least) / spread
    if logarithmic:
        unit_values = np.log1p(values - least) / math.log1p(spread)
    picture = png_uri(viridis(unit_values)[::-1])
    plot.add(
        f'<image x="{margin[0]}" y="{margin[2]}" width="{inner}" height="{height}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{picture}"/>'
    )
    ramp = png_uri(viridis(np.linspace(1, 0, 64))[:, None])
    left = width - margin[1] + 12
    plot.add(
        f'<image x="{left}" y="{margin[2]}" width="12" height="{height}" '
        f'preserveAspectRatio="none" href="{ramp}"/>'
    )
    for share in (0.0, 0.5, 1.0):
        value = math.expm1(share * math.log1p(spread)) if logarithmic else share * spread
        value += least
        text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        place = margin[2] + height * (1 - share) + (4 if 0 < share < 1 else 10 * share)
        plot.text(left + 17, place, text, "start")
    return plot.svg(title)
