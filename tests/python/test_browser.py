"""The reports, looked at in a real browser. Without one, these tests are skipped.

Pictures of the pages are left in the folder that SCREENSHOTS names, if it does.
"""

import json
import os
from pathlib import Path

import browser
import configuration
import numpy as np
import pytest
import waiting
from bags import MS, T0, cloud, header, image, made, write_bag

CONFIG = """
rate_hz: 100
lag_ms: 20
streams:
  joints:
    type: sensor_msgs/JointState
    topic: /joint_states
    max_age_ms: 50
    strategy: linear
    joints: [shoulder, elbow, wrist]
    fields: [position, velocity]
    history: {steps: 2, step_ms: 10}
  camera:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    strategy: hold
    image: {resize: {width: 64, height: 48}, mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}
  a_stream_with_quite_a_long_name:
    type: sensor_msgs/PointCloud2
    topic: /a/topic/with/a/name/that/fits/into/no/column/of/a/telephone
    max_age_ms: 200
    strategy: hold
    cloud:
      {origin_m: [-3, -2, -1], size_m: 0.25, shape: [24, 16, 8], channels: [{reduce: count}, {reduce: max, field: z}]}
"""
CLOUD = "/a/topic/with/a/name/that/fits/into/no/column/of/a/telephone"
SECONDS = 3
pytestmark = pytest.mark.slow("browser")


def robocache(*words):
    words = [configuration.program(), *map(str, words)]
    done = waiting.run(words)
    assert done.returncode == 0, done.stderr


def messages():
    """Joints, a camera that pauses, and clouds, as a recorder receives them."""
    random = np.random.default_rng(7)
    names = ["shoulder", "elbow", "wrist"]
    for at in range(0, SECONDS * 1000, 5):
        angle = at / 1000 * np.arange(1, 4)
        values = {"position": np.sin(angle), "velocity": np.cos(angle), "effort": np.zeros(0)}
        head = header(T0 + at * MS)
        state = made("sensor_msgs/msg/JointState", header=head, name=names, **values)
        yield "/joint_states", T0 + (at + 2) * MS, state
    for at in range(0, SECONDS * 1000, 33):
        if not 1000 < at < 1500:
            pixels = np.full((48, 64, 3), (40, 120, at * 255 // 3000), np.uint8)
            yield "/camera", T0 + (at + 9) * MS, image(T0 + at * MS, pixels)
    for at in range(0, SECONDS * 1000, 100):
        points = random.uniform((-3, -2, -1), (3, 2, 1), (400, 3))
        yield CLOUD, T0 + (at + 15) * MS, cloud(T0 + at * MS, points)


@pytest.fixture(scope="module")
def page_of():
    found = browser.find()
    if found is None:
        pytest.skip(
            f"no browser: none of {', '.join(browser.NAMES)} is installed, and BROWSER_FOR_TESTS "
            "names none"
        )
    try:
        opened = browser.Browser(found)
    except browser.BrowserError as error:
        # In a container, for example, it may lack what it needs of the system.
        pytest.skip(f"{found} does not start on this machine: {error}")
    with opened:
        yield opened


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The reports by name."""
    folder = tmp_path_factory.mktemp("reports")
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    for name in ("one", "two"):
        write_bag(folder / name, sorted(messages(), key=lambda entry: entry[1]))
    out = folder / "tensors"
    robocache("replay", folder / "one", folder / "two", "--config", config, "--out", out)
    made = {"view": folder / "view.html", "episodes": folder / "episodes.html"}
    robocache("view", out / "one.mcap", "--bag", folder / "one", "--out", made["view"])
    robocache("view", out, "--out", made["episodes"])
    rows = ("--config", config, "--out", folder / "rows", "--format", "rows")
    robocache("replay", folder / "one", *rows)
    made["rows"] = folder / "rows.html"
    robocache("view", folder / "rows", "--out", made["rows"])
    made["inspect"] = folder / "inspect.html"
    robocache("inspect", folder / "one", folder / "two", "--html", made["inspect"])
    made["live"] = folder / "live.html"
    robocache("view", live(folder / "live.json"), "--out", made["live"])
    return made


def live(path):
    """The report of a run that failed, with long names."""
    curve = [(T0 + at * 10 * MS, float(np.sin(at / 20))) for at in range(150)]
    aligned = [(at + 3 * MS, value, -7 * MS) for at, value in curve]
    channel = {"name": "left_arm_shoulder_lift_joint", "raw": curve, "aligned": aligned}
    compared = {"stream": "joints", "value": "position [rad]", "channels": [channel]}
    histogram = {
        "title": "latency histogram",
        "x": "from the tick's instant to the subscriber's callback [ms]",
        "y": "ticks",
        "caption": "Latency of 180 ticks",
        "values": [at % 37 * 0.1 + 0.3 for at in range(180)],
        "marks": [["p50 2.10 ms", 2.1]],
    }
    content = {
        "robocache_report": 1,
        "title": "A <title> & more",
        "about": ["About a run"],
        "problems": ["a problem with a long_word_that_has_no_place_to_break" * 3, "<b>another</b>"],
        "sections": [
            {"title": "Raw against aligned", "blocks": [{"compared": compared}]},
            {"title": "Latency", "blocks": [{"histogram": histogram}]},
        ],
    }
    path.write_text(json.dumps(content))
    return path


#: What is wrong with the page as it is drawn: a list of sentences.
LOOK = """(() => {
  const wrong = [], root = document.documentElement;
  const say = (what, element) => wrong.push(what + ': ' +
    (element.getAttribute('aria-label') || element.textContent || element.alt || element.tagName).slice(0, 60));
  if (root.scrollWidth > root.clientWidth)
    wrong.push(`the page is ${root.scrollWidth} px wide, the window ${root.clientWidth} px`);
  for (const image of document.images) {
    const box = image.getBoundingClientRect();
    if (!image.complete || !image.naturalWidth) say('the picture is not drawn', image);
    if (box.width < 1 || box.height < 1) say('the picture has no size', image);
    const stretched = (box.width / box.height) / (image.naturalWidth / image.naturalHeight);
    const map = image.closest('.ramp') || image.classList.contains('map');
    if (!map && Math.abs(stretched - 1) > 0.02) say(`the picture is stretched by ${stretched}`, image);
    if (image.classList.contains('map')) {
      const cells = (box.width / image.naturalWidth) / (box.height / image.naturalHeight);
      if (Math.abs(cells - 1) > 0.02) say(`the cells of the map are stretched by ${cells}`, image);
    }
  }
  for (const chart of document.querySelectorAll('.frame, .rows')) {
    const box = chart.getBoundingClientRect();
    if (box.width < 150 || box.height < 20) say('the chart is too small', chart);
  }
  // Labels of an axis: inside the window, and not over each other.
  for (const axis of document.querySelectorAll('.xl, .yl, .ramp')) {
    const labels = [...axis.querySelectorAll('span')].filter(l => l.offsetParent !== null);
    let before = null;
    for (const label of labels) {
      const box = label.getBoundingClientRect();
      if (box.right > root.clientWidth + 1 || box.left < -1) say('the label leaves the page', label);
      if (before && box.left < before.right && box.right > before.left &&
          box.top < before.bottom - 2 && box.bottom > before.top + 2)
        say('the label is over the one before', label);
      before = box;
    }
  }
  // Text that its own box cuts off. What scrolls by itself may be longer.
  for (const element of document.querySelectorAll('h1, h2, h3, p, li, figcaption, .tile b, .tile span, .rl, .yt, .xt'))
    if (element.scrollWidth > element.clientWidth + 2 && element.clientWidth > 0) say('the text is cut', element);
  return wrong;
})()"""

#: Texts whose contrast to what is behind them is less than 4.5 (WCAG 2.1, 1.4.3), with the ratio.
CONTRAST = """(() => {
  const parts = color => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const f = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const behind = element => { for (let at = element; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color; } return [255, 255, 255]; };
  const faint = new Set(), walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.offsetParent === null) continue;
    const [a, b] = [light(parts(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.add(ratio.toFixed(2) + ' ' + walker.currentNode.textContent.slice(0, 40));
  }
  return [...faint];
})()"""

#: What a screen reader misses: a list of sentences.
ACCESS = """(() => {
  const wrong = [];
  if (document.documentElement.lang !== 'en') wrong.push('no language');
  if (!document.title || document.querySelectorAll('h1').length !== 1) wrong.push('no title');
  for (const table of document.querySelectorAll('table')) {
    if (![...table.tHead.rows[0].cells].every(cell => cell.tagName === 'TH' && cell.scope === 'col'))
      wrong.push('a table without heads');
    if (![...table.tBodies[0].rows].every(row => row.cells.length === table.tHead.rows[0].cells.length))
      wrong.push('a table with rows of different lengths');
  }
  for (const chart of document.querySelectorAll('[role=img]'))
    if (!chart.getAttribute('aria-label')) wrong.push('a chart without a name');
  for (const image of document.images)
    if (!image.alt && !image.closest('[role=img]')) wrong.push('a picture without a name');
  const ids = [...document.querySelectorAll('[id]')].map(element => element.id);
  if (new Set(ids).size !== ids.length) wrong.push('an id twice');
  for (const link of document.querySelectorAll('a'))
    if (!document.querySelector(link.getAttribute('href'))) wrong.push('a link to nothing');
  return wrong;
})()"""


@pytest.mark.parametrize("name", ["view", "episodes", "live", "rows", "inspect"])
def test_a_report_is_drawn_well(page_of, reports, name):
    report = reports[name]
    page_of.open(report)
    for width in (1280, 400):
        for dark in (False, True):
            page_of.look(width, dark)
            where = f"{name}, {width} px, {'dark' if dark else 'light'}"
            assert page_of.evaluate(LOOK) == [], where
            assert page_of.evaluate(CONTRAST) == [], where
            if folder := os.environ.get("SCREENSHOTS"):
                theme = "dark" if dark else "light"
                page_of.screenshot(Path(folder) / f"{name}-{width}-{theme}.png")
    assert page_of.evaluate(ACCESS) == []
    assert page_of.problems == []
    outside = [url for url in page_of.requests if not url.startswith(("file:", "data:"))]
    assert outside == []
    assert page_of.evaluate("document.scripts.length") == 0


#: The tables whose last columns are cut off, as the page is drawn now.
CUT = """[...document.querySelectorAll('table')].filter(table =>
  table.getBoundingClientRect().right > table.parentElement.getBoundingClientRect().right + 1).map(table =>
  `${table.rows[0].textContent.slice(0, 40)}: ${table.offsetWidth} of ${table.parentElement.clientWidth} px`)"""


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """An inspection of topics with the names and the delays of a robot."""
    folder = tmp_path_factory.mktemp("topics")
    pixels = np.zeros((4, 4, 3), np.uint8)
    names = [f"/cam_{side}/aligned_depth_to_color/image_raw" for side in ("head", "wrist", "base")]
    given = [
        (name, T0 + (at * 33 + 40 + at % 7 * 1900) * MS, image(T0 + at * 33 * MS, pixels))
        for at in range(60)
        for name in names
    ]
    bag = write_bag(folder / "bag", sorted(given, key=lambda entry: entry[1]))
    robocache("inspect", bag, "--html", folder / "inspect.html")
    return folder / "inspect.html"


@pytest.mark.parametrize(("width", "media"), [(1200, ""), (718, "print")])
def test_the_table_of_topics_shows_its_last_columns(page_of, topics, width, media):
    """A4 without margins of 1 cm is 718 px wide."""
    page_of.open(topics)
    page_of.look(width, media=media)
    if folder := os.environ.get("SCREENSHOTS"):
        page_of.screenshot(Path(folder) / f"topics-{width}.png")
    assert page_of.evaluate(CUT) == []
    # A word is not broken into letters for that.
    heights = "[...document.querySelectorAll('tbody tr')].map(row => row.offsetHeight)"
    assert max(page_of.evaluate(heights)) < 110


def test_pictures_and_curves_are_there(page_of, reports):
    page_of.open(reports["view"])
    count = "document.querySelectorAll('{}').length"
    assert page_of.evaluate(count.format(".strip img")) == 4
    # Two channels of the grid, from two sides.
    assert page_of.evaluate(count.format("img.map")) == 4
    assert page_of.evaluate(count.format(".rb svg")) == 4  # ticks and three streams
    drawn = (
        "[...document.querySelectorAll('path.line')].filter(p => p.getTotalLength() > 100).length"
    )
    assert page_of.evaluate(drawn) >= 6
    # The tensor's pixels: what the camera saw, and not the normalised values.
    pixel = """(() => { const image = document.querySelectorAll('.strip img')[3];
      const canvas = document.createElement('canvas'); canvas.width = 64; canvas.height = 48;
      const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);
      return [...context.getImageData(32, 24, 1, 1).data].slice(0, 2); })()"""
    assert page_of.evaluate(pixel) == [40, 120]


def test_the_test_finds_what_is_drawn_badly(page_of, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><title>x</title><h1>x</h1><p style='color:#aaa'>faint</p>"
        "<p style='width:40px;overflow:hidden;white-space:nowrap'>cut off by its box</p>"
        "<img src='data:image/png;base64,AAAA' width=10 height=10><div style='width:3000px'>wide</div>"
        "<div class=xl style='position:relative'><span style='position:absolute'>one</span>"
        "<span style='position:absolute'>two</span></div>"
        "<img src='http://127.0.0.1:9/x.png' alt=x>"
    )
    page_of.open(bad)
    page_of.look(1280)
    found = " | ".join(page_of.evaluate(LOOK))
    for what in ("px wide", "is not drawn", "the text is cut", "over the one before"):
        assert what in found, (what, found)
    assert len(page_of.evaluate(CONTRAST)) == 1
    assert "no language" in page_of.evaluate(ACCESS)
    assert "a picture without a name" in page_of.evaluate(ACCESS)
    assert any(url.startswith("http:") for url in page_of.requests)
    assert page_of.problems
