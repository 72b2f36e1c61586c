"""`robocache view` of stores and as Rerun recordings. crates/tools/tests/tools/view.rs has what it shows of MCAP files."""

import json
import os
import re
import shutil
import sys

import configuration
import numpy as np
import pytest
import waiting
from bags import MS, T0, cloud, image, wrench, write_bag

CONFIG = """
rate_hz: 100
base_frame: base_link
streams:
  wrench:
    type: geometry_msgs/WrenchStamped
    topic: /wrench
    max_age_ms: 50
    lag_ms: 20
    strategy: linear
    history: {steps: 3, step_ms: 10}
  camera:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    strategy: hold
    dtype: bf16
    image: {resize: {width: 64, height: 48}, mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}
  grid:
    type: sensor_msgs/PointCloud2
    topic: /cloud
    max_age_ms: 200
    strategy: hold
    cloud: {origin_m: [-3, -2, -1], size_m: 0.25, shape: [24, 16, 8], channels: [{reduce: count}]}
  sparse:
    type: sensor_msgs/PointCloud2
    topic: /cloud
    max_age_ms: 200
    strategy: hold
    cloud:
      {origin_m: [-3, -2, -1], size_m: 0.25, shape: [24, 16, 8], channels: [{reduce: count}], output: sparse, max_voxels: 512}
"""
SECONDS = 2


def robocache(*words, expect=0, **env):
    words = [configuration.program(), *map(str, words)]
    env = {**os.environ, **env}
    done = waiting.run(words, env=env)
    assert done.returncode == expect, done.stderr
    return done.stderr


def messages(seed):
    random = np.random.default_rng(seed)
    for at in range(0, SECONDS * 1000, 10):
        yield "/wrench", T0 + (at + 2) * MS, wrench(T0 + at * MS, at / 1000, seed, -1)
    for at in range(0, SECONDS * 1000, 33):
        pixels = random.integers(0, 255, (48, 64, 3), np.uint8)
        yield "/camera", T0 + (at + 9) * MS, image(T0 + at * MS, pixels)
    for at in range(0, SECONDS * 1000, 100):
        points = random.uniform((-3, -2, -1), (3, 2, 1), (400, 3))
        yield "/cloud", T0 + (at + 15) * MS, cloud(T0 + at * MS, points)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of results of two bags, in each format."""
    folder = tmp_path_factory.mktemp("results")
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    bags = [folder / "one", folder / "two"]
    for seed, bag in enumerate(bags):
        write_bag(bag, sorted(messages(seed), key=lambda entry: entry[1]))
    for kind in ("mcap", "zarr", "rows"):
        out = folder / kind
        robocache("replay", *bags, "--config", config, "--out", out, "--format", kind)
    return folder


def report(output, *options, expect=0):
    page = output.parent / "report.html"
    said = robocache("view", output, "--out", page, *options, expect=expect)
    return page.read_text() if expect == 0 else said


def shown(html):
    """The pictures, the curves and the numbers of a report."""
    pictures = re.findall(r'src="(data:[^"]+)"', html)
    lines = re.findall(r'<path class="line[^>]+>', html)
    return pictures, lines, re.findall(r"<td class=n>([^<]+)</td>", html)


@pytest.mark.parametrize("name", ["one", "two"])
def test_a_store_shows_what_the_message_shows(results, name):
    message = report(results / "mcap" / f"{name}.mcap")
    store = report(results / "zarr", "--episode", name)
    of_message, of_store = shown(message), shown(store)
    # Four pictures; a grid and a sparse grid from two sides, each with its bar of colours.
    assert len(of_message[0]) == 4 + 2 * 2 * 2
    # The store has its segments by name, the message as the configuration has them.
    for ours, theirs in zip(of_store[:2], of_message[:2]):
        assert sorted(ours) == sorted(theirs)
    assert f"Episode {name}" in store
    assert "All 199 tensors were looked at" in store
    other = report(results / "zarr", "--episode", {"one": "two", "two": "one"}[name])
    assert sorted(shown(other)[0]) != sorted(of_message[0])


def raw_and_aligned(html):
    """The section of the bag's rows: lines, dots, and what the captions say of the difference."""
    (section,) = re.findall(
        r"<h2[^>]*>[^<]*Raw against aligned</h2>(.*?)(?:<h2|$)", html, re.DOTALL
    )
    lines = re.findall(r'<path class="line[^>]+>', section)
    dots = re.findall(r"<circle", section) + re.findall(r'<path class="dots[^>]+>', section)
    differences = re.findall(r"at most ([\d.]+) × 10⁻⁶", section)
    return section, lines, dots, [float(number) for number in differences]


@pytest.mark.parametrize("kind", ["mcap", "zarr"])
def test_rows_of_the_bag_are_beside_the_tensors(results, kind):
    html = report(results / kind, "--episode", "two", "--bag", results / "two")
    section, lines, dots, differences = raw_and_aligned(html)
    assert "force" in section and "(tick − 20 ms)" in section
    assert lines and dots
    # One force grows, two do not change: between two messages all are on the line between them.
    assert len(differences) == 1 and differences[0] < 1, differences


def test_files_of_statistics_are_beside_the_configuration_that_is_named(results, tmp_path):
    robot = tmp_path / "robot"
    (robot / "meta").mkdir(parents=True)
    statistics = {"wrench": {"mean": [1.0] * 6, "std": [2.0] * 6}}
    (robot / "meta/stats.json").write_text(json.dumps(statistics))
    config = robot / "config.yaml"
    normalize = "normalize: {mode: mean_std, stats: meta/stats.json, key: wrench}"
    config.write_text(
        CONFIG.replace("  camera:\n", f"    operators: [{{{normalize}}}]\n  camera:\n", 1)
    )
    out = tmp_path / "out"
    robocache("replay", results / "one", "--config", config, "--out", out)
    said = report(out / "one.mcap", "--bag", results / "one", expect=1)
    assert "meta/stats.json" in said
    html = report(out / "one.mcap", "--bag", results / "one", "--config", config)
    _, lines, dots, differences = raw_and_aligned(html)
    assert lines and dots and max(differences) < 1


def test_the_rows_of_another_bag_are_not_those_of_the_tensors(results, tmp_path):
    # The same topics and stamps, other values.
    moved = [(topic, at, message) for topic, at, message in messages(0) if topic != "/wrench"] + [
        ("/force", T0 + (at + 2) * MS, wrench(T0 + at * MS, at / 500, 0, -1))
        for at in range(0, SECONDS * 1000, 10)
    ]
    bag = write_bag(tmp_path / "moved", sorted(moved, key=lambda entry: entry[1]))
    options = ("--bag", bag, "--remap", "/wrench:=/force")
    *_, differences = raw_and_aligned(report(results / "mcap" / "one.mcap", *options))
    assert differences[0] > 1000
    # Of another day, there is no row.
    late = [(topic, at + 10**15, message) for topic, at, message in messages(0)]
    late = write_bag(tmp_path / "late", sorted(late, key=lambda entry: entry[1]))
    section, lines, *_ = raw_and_aligned(report(results / "mcap" / "one.mcap", "--bag", late))
    assert "there is no row of it" in section and not lines
    said = report(results / "mcap", "--bag", bag, expect=1)
    assert f"expected the bag of one ({results / 'one'}) or two ({results / 'two'})" in said
    html = report(results / "mcap", "--episode", "one", "--bag", bag)
    assert "The bag has no topic /wrench" in raw_and_aligned(html)[0]


@pytest.mark.parametrize("kind", ["mcap", "zarr", "mcap/one.mcap"])
def test_a_bag_that_is_not_that_of_the_episode_is_an_error(results, kind):
    said = report(results / kind, "--episode", "one", "--bag", results / "two", expect=1)
    assert f"--bag {results / 'two'}: found the bag of two, expected" in said
    assert f"expected the bag of one ({results / 'one'})" in said
    none = results / "nowhere" / "one"
    for options in [(), ("--episode", "one")]:
        said = report(results / kind, *options, "--bag", none, expect=1)
        assert f"--bag {none}: No such file" in said


def test_rows_are_not_compared_with_a_bag(results):
    for output in (results / "rows", results / "rows" / "rows.zarr"):
        for bag in ("one", "nowhere"):
            said = report(output, "--bag", results / bag, expect=1)
            assert "a store of rows has the rows of its bags already" in said


def cells(html, title):
    """The rows of the table below a heading, as lists of texts."""
    table = re.search(rf"<h\d[^>]*>{title}</h\d>.*?<table.*?</table>", html, re.DOTALL).group(0)
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", row) for row in rows]


def test_the_episodes_of_a_store_have_the_numbers_of_the_replay(results, tmp_path):
    message, store = report(results / "mcap"), report(results / "zarr")
    assert cells(store, "Episodes") == cells(message, "Episodes")
    (_, one, two) = cells(store, "Episodes")
    assert one[2:4] == ["yes", "199"] and "wrench 98.99" in one[5] and "110" in one[6]
    assert two[0] == "two"
    assert "not_filled 6" in store and f"From {results / 'two'}" in store
    tiles = [re.findall(r"<li class=tile>.*?</li>", html) for html in (message, store)]
    assert tiles[0] == tiles[1] != []
    assert "tensors of one, 199 looked at" in str(tiles)
    assert "valid steps of the worst segment of one" in str(tiles)
    assert cells(report(results / "zarr" / "tensors.zarr"), "Episodes") == [_, one, two]
    # A ledger that describes other tensors than these says nothing of them.
    shutil.copytree(results / "zarr", tmp_path / "zarr")
    ledger = tmp_path / "zarr" / "replay.json"
    whole = json.loads(ledger.read_text())
    whole["episodes"]["tensors.zarr.parts/one"]["made_of"] += "; other"
    ledger.write_text(json.dumps(whole))
    (_, other, same) = cells(report(tmp_path / "zarr"), "Episodes")
    assert other[:4] == ["one", "", "yes", "199"] and not "".join(other[4:]) and same == two
    whole["stores"]["tensors.zarr"]["identity"] = "0"
    ledger.write_text(json.dumps(whole))
    assert not "".join(cells(report(tmp_path / "zarr"), "Episodes")[2][4:])


@pytest.mark.parametrize("kind", ["zarr/tensors.zarr", "rows/rows.zarr"])
def test_the_report_of_a_store_is_beside_it(results, tmp_path, kind):
    folder, store = tmp_path / "data", kind.split("/")[1]
    shutil.copytree(results / kind, folder / store)
    files = sorted((folder / store).rglob("*"))
    page = folder / "report.html"
    for output, inside in [(folder / store, None), (store, folder), (".", folder / store)]:
        done = waiting.run([configuration.program(), "view", output], cwd=inside)
        assert done.returncode == 0, done.stderr
        page.unlink()
    assert sorted((folder / store).rglob("*")) == files
    robocache("view", folder)
    assert page.exists()


def steps_of(path):
    """The widths of the lines of a path of SVG, from point to point."""
    widths, at = [], None
    for kind, x in re.findall(r"([ML])(-?[\d.]+)", path):
        if kind == "L":
            widths.append(float(x) - at)
        at = float(x)
    return widths


def curves(html):
    """The lines of the section of curves."""
    (section,) = re.findall(r"<h2[^>]*>Curves</h2>(.*?)<h2", html, re.DOTALL)
    return re.findall(r'<path class="line[^>]+>', section)


def test_a_line_joins_neighbours_alone(results):
    # A part is read: one stretch, and some ticks along the whole.
    html = report(results / "mcap" / "one.mcap", "--read-mib", 3)
    looked = int(re.search(r"(\d+) of 199 tensors were looked at", html).group(1))
    assert 20 <= looked <= 90
    # A chart has 1000 columns, for 198 intervals.
    widths = [width for line in curves(html) for width in steps_of(line)]
    assert widths and max(widths) < 1.5 * 1000 / 198
    # Those that were not looked at are not missing.
    (timeline,) = re.findall(r"no tensor</li>.*?<div class=rl>ticks</div>(.*?)</svg>", html)
    assert 'class="quiet"' not in timeline


def test_the_vectors_of_a_store_are_read_in_full(results):
    whole = report(results / "zarr", "--episode", "one")
    part = report(results / "zarr", "--episode", "one", "--read-mib", 1)
    assert "All 199 tensors were looked at" in part and part == whole


@pytest.mark.parametrize("kind", ["mcap", "zarr", "rows"])
def test_pictures_are_evenly_spread(results, kind):
    html = report(results / kind, "--episode", "one", "--pictures", 5)
    (section,) = re.findall(r"<h2[^>]*>Cameras</h2>(.*?)<h2", html, re.DOTALL)
    captions = re.findall(r"<figcaption>\+([\d.]+) s([^<]*)<", section)
    times = [float(time) for time, _ in captions]
    distances = np.diff(times)
    assert len(times) == 5 and np.ptp(distances) < 0.08, times
    assert 0.1 < times[0] < 0.3 and "not valid" not in captions[0][1]


def test_one_number_has_one_value(results):
    # The sensors begin before the part that is read.
    html = report(results / "mcap" / "one.mcap", "--read-mib", 3)
    (headline,) = re.findall(r"<b>([^<]+)</b><span>valid steps of the worst segment</span>", html)
    head, *segments = cells(html, "Validity and ages")
    assert head[:2] == ["segment", "valid steps"]
    shares = {name: share for name, share, *_ in segments}
    _, *streams = cells(html, "All ticks of the episode")
    assert shares == {stream[0]: stream[-1] for stream in streams}
    assert headline == min(shares.values(), key=lambda share: float(share.split()[0]))


def test_a_gap_in_the_rows_is_a_gap_of_the_line(results, tmp_path):
    config = results / "config.yaml"
    kept = [entry for entry in messages(0) if not 500 * MS < entry[1] - T0 < 1300 * MS]
    bag = write_bag(tmp_path / "gap", sorted(kept, key=lambda entry: entry[1]))
    for kind in ("mcap", "rows"):
        out = tmp_path / kind
        robocache("replay", bag, "--config", config, "--out", out, "--format", kind)
    widths = [width for line in curves(report(tmp_path / "rows")) for width in steps_of(line)]
    assert max(widths) < 1.5 * 1000 / 199
    _, lines, *_ = raw_and_aligned(report(tmp_path / "mcap", "--bag", bag))
    widths = [width for line in lines[:3] for width in steps_of(line)]
    assert widths and max(widths) < 1.5 * 1000 / 199


def test_rows_are_shown_at_their_own_stamps(results):
    html = report(results / "rows", "--episode", "one")
    assert html == report(results / "rows" / "rows.zarr", "--episode", "one")
    table = dict(re.findall(r"<tr><th scope=row>(\w+)</th>((?:<td class=n>[^<]+</td>)+)", html))
    numbers = {name: re.findall(r">([^<]+)<", row) for name, row in table.items()}
    assert numbers["wrench"][:4] == ["200", "0", "100 Hz", "0"]
    assert numbers["camera"][:4] == ["61", "0", "30.3 Hz", "0"]
    assert numbers["grid"][:3] == ["20", "0", "10 Hz"]
    pictures, lines, _ = shown(html)
    # As of the tensors: four pictures, and two grids from two sides, each with its bar of colours.
    assert len(pictures) == 4 + 2 * 2 * 2 and lines
    assert "The rows at their own stamps." in html and "force" in html
    both = report(results / "rows")
    assert "one: Rows over time" in both and "two: Rows over time" in both
    said = report(results / "rows", "--episode", "three", expect=1)
    assert "expected an episode of one, two, found 'three'" in said


def test_a_gap_between_rows_is_told(results, tmp_path):
    config = results / "config.yaml"
    kept = [entry for entry in messages(0) if not 500 * MS < entry[1] - T0 < 1300 * MS]
    bag = write_bag(tmp_path / "gap", sorted(kept, key=lambda entry: entry[1]))
    robocache("replay", bag, "--config", config, "--out", tmp_path / "rows", "--format", "rows")
    html = report(tmp_path / "rows" / "rows.zarr")
    wrench = re.search(r"<tr><th scope=row>wrench</th>((?:<td class=n>[^<]+</td>)+)", html).group(1)
    _, _, _, gaps, longest = re.findall(r">([^<]+)<", wrench)
    assert (gaps, longest) == ("1", "810.0 ms")


@pytest.mark.parametrize("part", ["wrench/0/stamp_ns", "camera/0/rows", "grid/0/episode_ends"])
def test_a_damaged_store_of_rows_is_an_error(results, tmp_path, part):
    store = tmp_path / "rows.zarr"
    shutil.copytree(results / "rows" / "rows.zarr", store)
    shard = min((store / "streams" / part).glob("c.*"))
    shard.write_bytes(shard.read_bytes()[:50])
    said = report(store, expect=1)
    assert "shorter than its index" in said and part in said
    (store / "streams" / part / "zarr.json").write_text("{}")
    assert part in report(store, expect=1)


def test_a_store_of_an_older_format_is_named(results, tmp_path):
    stores = {name: f"{name}.zarr" for name in ("tensors", "rows")}
    for kind, name in (("zarr", "tensors"), ("rows", "rows")):
        shutil.copytree(results / kind / stores[name], tmp_path / stores[name])
    for name in stores:
        file = tmp_path / stores[name] / "zarr.json"
        root = json.loads(file.read_text())
        root["attributes"]["robocache"]["format_version"] = 4
        file.write_text(json.dumps(root))
        # Rows of this format are not shown in place of older tensors.
        for path in (tmp_path, tmp_path / stores[name]):
            said = robocache("view", path, "--out", tmp_path / "report.html", expect=1)
            assert f"a store of {name} of format 4; expected format 5" in said, path
        shutil.rmtree(tmp_path / stores[name])


def test_a_damaged_store_is_told(results):
    (shard,) = (results / "zarr" / "tensors.zarr" / "data" / "camera").glob("c.*")
    whole = shard.read_bytes()
    try:
        for damaged, expected in [
            (
                whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
                "the checksum of its index is wrong",
            ),
            (whole[:100], "shorter than its index"),
        ]:
            shard.write_bytes(damaged)
            html = report(results / "zarr", "--episode", "one")
            assert "What could not be read" in html
            assert expected in html
    finally:
        shard.write_bytes(whole)


def test_rerun_opens_a_recording(results):
    pytest.importorskip("rerun", reason="rerun-sdk is an optional companion")
    recording = results / "one.rrd"
    said = robocache(
        "view",
        results / "mcap" / "one.mcap",
        "--out",
        results / "x.html",
        "--rerun",
        recording,
        PYTHON=sys.executable,
    )
    assert f"Rerun recording: {recording}" in said
    rerun = [sys.executable, "-m", "rerun", "rrd"]
    waiting.run([*rerun, "verify", recording], check=True)
    done = waiting.run([*rerun, "print", recording], check=True)
    rows = {}
    pattern = r"with (\d+) rows \([^)]*\) - (\S+) "
    for count, entity in re.findall(pattern, done.stdout):
        rows[entity] = rows.get(entity, 0) + int(count)
    assert rows["/one/camera/valid"] == 199
    # The first targets are before the first row.
    assert 190 <= rows["/one/wrench/force.x"] < 199
    for name in ("camera", "grid", "sparse"):
        assert 50 <= rows[f"/one/{name}"] <= 199, name


def test_without_rerun_the_report_is_there_and_the_error_says_what_to_install(results):
    command = ("view", results / "mcap" / "one.mcap", "--rerun", results / "none.rrd")
    page = results / "without.html"
    said = robocache(*command, "--out", page, expect=1, PYTHON="/nonexistent/python3")
    assert "--rerun needs Python with rerun-sdk: /nonexistent/python3" in said
    assert page.exists()
    # A Python that finds no packages.
    bare = results / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    said = robocache(*command, "--out", page, expect=1, PYTHON=str(bare))
    assert "install it with `pip install rerun-sdk`" in said
    assert not (results / "none.rrd").exists()
