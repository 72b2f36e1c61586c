"""`robocache view` of stores and as Rerun recordings. tests/view.rs has what it shows of MCAP files."""

import os
import re
import subprocess
import sys

import configuration
import numpy as np
import pytest
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
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
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


def test_of_a_large_store_a_part_is_read(results):
    html = report(results / "zarr" / "tensors.zarr", "--episode", "one", "--read-mib", 1)
    looked = int(re.search(r"(\d+) of 199 tensors were looked at", html).group(1))
    assert 5 <= looked <= 30


def test_rows_are_not_tensors(results):
    said = report(results / "rows" / "rows.zarr", expect=1)
    assert "expected tensors, which `robocache replay` writes" in said
    assert "a store of kind" in said


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
    subprocess.run([*rerun, "verify", recording], check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [*rerun, "print", recording], check=True, capture_output=True, text=True, timeout=120
    )
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
