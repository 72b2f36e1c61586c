"""The wheel, installed into an environment that has nothing else: no ROS, no GPU, no PyTorch."""

import json
import os
import re
import signal
import sys
import zipfile
from pathlib import Path

import bags
import pytest
import waiting
from held import Held, started
from same_files import expect_same

REPOSITORY = Path(__file__).resolve().parents[2]
IS_RELEASE = os.environ.get("ROBOCACHE_PROFILE", "release") == "release"
pytestmark = [
    # The first test may compile the wheel.
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not IS_RELEASE and "ROBOCACHE_WHEEL" not in os.environ,
        reason="compiles the release: make test-release",
    ),
]
INSTALLED = REPOSITORY / "install" / "robocache_ros" / "lib" / "robocache_ros" / "robocache"
#: What a process of the environment sees: nothing of a sourced ROS, and nothing of this checkout.
CLEAN = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
VERSION = re.search(r'^version = "(.+)"', (REPOSITORY / "Cargo.toml").read_text(), re.MULTILINE)[1]
CONFIGURATION = """
rate_hz: 100
lag_ms: 20
streams:
  wrench: {type: geometry_msgs/WrenchStamped, topic: /wrench, max_age_ms: 50}
"""


@pytest.fixture(scope="session")
def wheel():
    """The wheel of ROBOCACHE_WHEEL, otherwise one that is built from what `make build` compiled."""
    if given := os.environ.get("ROBOCACHE_WHEEL"):
        return Path(given)
    environment = dict(os.environ)
    if built := os.environ.get("ROBOCACHE_CARGO"):
        environment["CARGO_TARGET_DIR"] = str(Path(built).parent)
    command = [REPOSITORY / "scripts" / "wheel.sh", "--local"]
    run = waiting.run(command, timeout=1200, env=environment)
    assert run.returncode == 0, run.stderr
    # The last line says where it is.
    (built,) = re.findall(r"^wheel: (\S+\.whl): \d+ bytes", run.stderr, re.MULTILINE)
    return REPOSITORY / built


@pytest.fixture(scope="session")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment in which `pip install` put the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    waiting.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", wheel]
    # Without network, NumPy is here.
    waiting.run([*pip, "--find-links", REPOSITORY / ".wheel/packages"], timeout=600, check=True)
    return folder / "bin" / "python"


def run(*command, **options):
    return waiting.run(command, env=CLEAN, **options)


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """A bag of a second, and a configuration for it."""
    folder = tmp_path_factory.mktemp("recording")
    stamps = range(bags.T0, bags.T0 + 1000 * bags.MS, 10 * bags.MS)
    messages = [("/wrench", ns, bags.wrench(ns, at, -at, 0.5)) for at, ns in enumerate(stamps)]
    (folder / "robot.yaml").write_text(CONFIGURATION)
    return bags.write_bag(folder / "bag", messages), folder / "robot.yaml"


def test_the_name_says_one_extension_for_all_interpreters_and_the_types_are_inside(wheel):
    assert re.fullmatch(r"robocache-[\d.]+-cp310-abi3-[\w.]*linux\w*_x86_64\.whl", wheel.name)
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {"py.typed", "_native.pyi", "_native.abi3.so", "__init__.py", "ros.py"}
    assert {f"robocache/{name}" for name in inside} <= names
    assert not [name for name in names if "test" in name]
    assert wheel.stat().st_size <= 30_000_000


def test_the_licences_and_the_components_of_others_are_inside(wheel):
    archive = zipfile.ZipFile(wheel)
    information = f"robocache-{VERSION}.dist-info"
    assert "Apache License" in archive.read(f"{information}/licenses/LICENSE").decode()
    notices = archive.read(f"{information}/licenses/THIRD_PARTY.txt").decode()
    assert re.search(r"^sqlite 3\.\S+: blessing$", notices, re.MULTILINE)
    bom = json.loads(archive.read(f"{information}/sboms/robocache.cyclonedx.json"))
    named = {f"{c['name']} {c['version']}: " for c in bom["components"]}
    assert named and all(f"\n{name}" in notices for name in named)


def test_numpy_alone_comes_with_it(python):
    listed = run(python, "-m", "pip", "list", "--format", "freeze").stdout.split()
    packages = {line.split("==")[0] for line in listed}
    assert packages - {"pip", "setuptools"} == {"numpy", "robocache"}


def test_it_needs_no_library_but_those_of_every_system(python):
    found = run(python, "-c", "import robocache._native as n; print(n.__file__)").stdout.strip()
    dynamic = run("readelf", "-W", "-d", found)
    if dynamic.returncode:
        pytest.skip("no readelf: it is in Debian's binutils")
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic.stdout))
    system = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2"}
    assert needed <= system | {"librt.so.1", "ld-linux-x86-64.so.2"}


def test_the_package_loads_nothing_that_is_not_needed(python):
    code = "import robocache, sys; print(robocache.__version__, 'torch' in sys.modules)"
    said = run(python, "-c", code)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == [VERSION, "False"]


def test_the_command_is_that_of_the_node(python, recording, tmp_path):
    """`robocache` of the wheel, and `python -m robocache`, do what the executable of the node's package does."""
    bag, config = recording
    command = python.parent / "robocache"
    assert run(command, "--version").stdout == f"robocache {VERSION}\n"
    assert run(python, "-m", "robocache", "--version").stdout == f"robocache {VERSION}\n"
    wrong = run(command, "replay")
    assert wrong.returncode == 2 and "Usage: robocache replay" in wrong.stderr
    assert run(command, "check", tmp_path / "missing.yaml").returncode == 1
    replayed = run(command, "replay", bag, "--config", config, "--out", tmp_path / "wheel")
    assert replayed.returncode == 0, replayed.stderr
    for arguments in (["inspect", bag], ["check", config], ["view", tmp_path / "wheel"]):
        done = run(command, *arguments)
        assert done.returncode == 0, done.stderr
    if not INSTALLED.exists():
        pytest.skip("no build with ROS to compare with: `make build` makes it")
    run(INSTALLED, "replay", bag, "--config", config, "--out", tmp_path / "node")
    expect_same(tmp_path / "wheel" / "bag.mcap", tmp_path / "node" / "bag.mcap")


def test_an_interrupt_ends_the_command(python, tmp_path):
    config = Held(tmp_path / "pipe.yaml")
    with started([python.parent / "robocache", "check", config.path], env=CLEAN) as process:
        config.wait(process)
        process.send_signal(signal.SIGINT)
        assert waiting.exit_code(process, "the command") == -signal.SIGINT
