"""Commands of the package that need more than NumPy: they are listed, and say what they miss."""

import os
import sys
from pathlib import Path

import configuration
import pytest
import waiting

#: Runs a command as if a package were not installed.
WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from {module} import main
sys.exit(main({arguments}))
"""


def python(*arguments):
    return waiting.run([sys.executable, *arguments])


def test_the_help_lists_what_python_adds():
    run = python("-m", "robocache", "--help")
    assert run.returncode == 0
    assert "robocache to-lerobot " in run.stdout and "python -m robocache.ray " in run.stdout


@pytest.mark.parametrize("command", [["robocache", "to-lerobot"], ["robocache.ray", "to-lerobot"]])
def test_the_help_needs_no_other_package(command):
    run = python("-m", *command, "--help")
    assert run.returncode == 0, run.stderr
    for option in (
        "--state",
        "--action",
        "--images",
        "--keep-invalid",
        "--min-frames",
        "--replace",
        "--rate-hz",
        "--episodes-by",
    ):
        assert option in run.stdout


@pytest.mark.parametrize("missing", ["av", "pyarrow", "zarr"])
def test_without_what_to_lerobot_needs(tmp_path, missing):
    script = WITHOUT.format(module="robocache.__main__", arguments="")
    options = ["--config", tmp_path / "c.yaml", "--out", tmp_path / "out"]
    run = python("-c", script, missing, "to-lerobot", tmp_path, *options)
    assert run.returncode == 1
    assert "pip install 'dist/WHEEL.whl[lerobot]'" in run.stderr and "Traceback" not in run.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("missing", "file"),
    [
        ("pyarrow", "meta/info.json"),
        ("google_crc32c", "features.json"),
        ("google.protobuf", "features.json"),
        ("h5py", "demo.hdf5"),
        ("yaml", "features.json"),
    ],
)
def test_import_without_what_a_dataset_needs(tmp_path, missing, file):
    if missing == "yaml":
        pytest.importorskip("google_crc32c")
        pytest.importorskip("google.protobuf")
    path = tmp_path / "dataset" / file
    path.parent.mkdir(parents=True)
    path.write_text('{"featuresDict": {"features": {"steps": {"sequence": {"feature": {}}}}}}')
    script = WITHOUT.format(module="robocache.__main__", arguments="")
    options = ["--out", tmp_path / "out"]
    options += [] if missing == "pyarrow" else ["--mapping", "libero"]
    run = python("-c", script, missing, "import", tmp_path / "dataset", *options)
    assert run.returncode == 1
    assert "pip install 'dist/WHEEL.whl[import]'" in run.stderr and "Traceback" not in run.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["dataset"]


def test_the_help_of_import_needs_no_other_package():
    run = python("-m", "robocache", "import", "--help")
    assert run.returncode == 0, run.stderr
    for option in (
        "--config",
        "--write-config",
        "--mapping",
        "--split",
        "--episodes",
        "--jobs",
        "--replace",
    ):
        assert option in run.stdout


def test_the_executable_goes_on_in_the_package(tmp_path):
    def told(python_path):
        folders = [str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {**os.environ, "PATH": os.pathsep.join(folders), "PYTHONPATH": python_path}
        return waiting.run([configuration.program(), "import", "--help"], env=environment)

    run = told(os.pathsep.join(sys.path))
    assert run.returncode == 0 and "usage: robocache import" in run.stdout, run.stderr
    (tmp_path / "robocache.py").write_text("raise ImportError\n")
    run = told(str(tmp_path))
    assert run.returncode == 1 and "import: expected the Python package" in run.stderr
    assert "Traceback" not in run.stderr


def test_without_ray(tmp_path):
    (tmp_path / "bags").mkdir()
    script = WITHOUT.format(module="robocache.ray", arguments="sys.argv[1:]")
    options = ["--config", tmp_path / "c.yaml", "--out", tmp_path / "out"]
    run = python("-c", script, "ray", "replay", tmp_path / "bags", *options)
    assert run.returncode == 1
    assert "pip install 'dist/WHEEL.whl[ray]'" in run.stderr and "Traceback" not in run.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bags"]


def test_all_names_come_without_torch():
    run = python(
        "-c", "import sys; sys.modules['torch'] = None\nfrom robocache import *\nprint(Pipeline)"
    )
    assert run.returncode == 0, run.stderr


def test_the_subscriber_says_which_package_it_misses():
    program = """
import sys, types
for name in ("rclpy", "rclpy.qos"):
    sys.modules[name] = types.ModuleType(name)
for name in ("DurabilityPolicy", "HistoryPolicy", "ReliabilityPolicy"):
    setattr(sys.modules["rclpy.qos"], name, types.SimpleNamespace(KEEP_LAST=0, RELIABLE=0, TRANSIENT_LOCAL=0))
sys.modules["rclpy.qos"].QoSProfile = dict
sys.modules["robocache_ros"] = None
import robocache.ros
robocache.ros.TensorSubscriber(None, None)
"""
    run = python("-c", program)
    assert run.returncode == 1
    assert "expected the ROS package robocache_ros, found none" in run.stderr
