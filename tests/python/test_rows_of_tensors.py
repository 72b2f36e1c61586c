"""`robocache replay --format zarr --rows STREAM,...`: a store of tensors that has the rows of streams, too."""

import re
import sys

import numpy as np
import pytest

pytest.importorskip("robocache._native", reason="there is no compiled part")
for needed in ("mcap", "rosbags", "zarr"):
    pytest.importorskip(needed, exc_type=ImportError)
import robots  # noqa: E402 (what is missing is said first)
import waiting  # noqa: E402
from bags import MS, T0  # noqa: E402

import robocache  # noqa: E402

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", name="robot")
def robot_fixture(tmp_path_factory):
    """Two bags. One has a silence: its ticks have a gap, its rows have none."""
    folder = tmp_path_factory.mktemp("robot")
    robots.record(folder / "bags" / "pick", seed=1)
    robots.record(folder / "bags" / "place", seed=2, start=T0 + 3600 * 10**9, silence=(0.8, 1.3))
    (folder / "robot.yaml").write_text(robots.CONFIG)
    for name, *options in (
        ("both", "--format=zarr", "--rows=action,image_left"),
        ("rows", "--format=rows"),
        ("zarr", "--format=zarr"),
    ):
        robots.replay([folder / "bags"], folder / "robot.yaml", folder / name, *options)
    return folder


def test_rows_are_those_of_a_store_of_rows(robot):
    names = ["action", "image_left"]
    both = robocache.EpisodeCache.load(robot / "both/tensors.zarr")
    rows = robocache.EpisodeCache.load(robot / "rows/rows.zarr", names)
    assert sorted(both.streams) == names
    for number, start in enumerate((T0, T0 + 3600 * 10**9)):
        instants = start + np.arange(0, 2 * 10**9, 7 * MS)
        asked = np.full(len(instants), number), instants
        one, other = both.windows(*asked), rows.windows(*asked)
        for name in names:
            assert both.size(name) == rows.size(name)
            assert one[name].array.tobytes() == other[name].array.tobytes()
            assert np.array_equal(one[name].valid, other[name].valid) and one[name].valid.any()


def test_tensors_are_those_without_rows(robot):
    alone, both = (robot / name / "tensors.zarr" for name in ("zarr", "both"))
    paths = [path for path in sorted(alone.glob("*/**/*")) if path.is_file()]
    assert len(paths) > 20
    for path in paths:
        assert path.read_bytes() == (both / path.relative_to(alone)).read_bytes(), path


def test_a_store_without_rows_is_none_of_rows(robot):
    with pytest.raises(ValueError, match='a store of kind "tensors"'):
        robocache.EpisodeCache.load(robot / "zarr/tensors.zarr")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format=rows", "--rows=action"], "--rows: expected --format zarr"),
        (["--format=zarr", "--rows=actions", "--replace"], "--rows: expected .*, found 'actions'"),
        (["--format=zarr"], "expected a result of this configuration and these options"),
    ],
)
def test_what_does_not_fit_is_an_error(robot, options, said):
    command = [sys.executable, "-m", "robocache", "replay", robot / "bags"]
    command += ["--config", robot / "robot.yaml", "--out", robot / "both"]
    run = waiting.run([*command, *options])
    assert run.returncode == 1
    assert re.search(said, run.stderr), run.stderr
