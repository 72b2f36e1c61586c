"""What is installed: which libraries the executables need, where their debug information is, and the Python package."""

import os
import re
from pathlib import Path

import pytest
import waiting

REPOSITORY = Path(__file__).resolve().parents[2]
PREFIX = Path(os.environ.get("ROBOCACHE_INSTALL", REPOSITORY / "install")) / "robocache_ros"
INSTALLED = PREFIX / "lib" / "robocache_ros"
#: The packages in .cargo/config.toml, and those that r2r always adds.
LINKED = {
    "action_msgs",
    "builtin_interfaces",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "rcl_interfaces",
    "std_msgs",
    "std_srvs",
    "unique_identifier_msgs",
}
NAMES = ["fusion_node", "sensor_sim", "robocache"]


def readelf(option, name):
    """What readelf prints about an installed executable."""
    program = INSTALLED / name
    if not program.exists():
        pytest.skip("no build with ROS: `make build` makes it")
    try:
        run = waiting.run(["readelf", "-W", option, program])
    except FileNotFoundError:
        pytest.skip("no readelf: it is in Debian's binutils")
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_executable_needs_only_the_message_packages_that_its_code_names(name):
    needed = re.findall(r"\(NEEDED\).*\[lib(.*)\.so", readelf("-d", name))
    assert any(library.startswith("c") for library in needed), needed
    packages = {library.split("__rosidl_")[0] for library in needed if "__rosidl_" in library}
    assert packages <= LINKED, f"{name} needs {sorted(packages - LINKED)}"


def test_the_filter_lists_what_the_code_names():
    text = (REPOSITORY / ".cargo" / "config.toml").read_text()
    listed = set(re.search(r'IDL_PACKAGE_FILTER = "(.*)"', text)[1].split(";"))
    sources = [*REPOSITORY.glob("src/**/*.rs"), *REPOSITORY.glob("crates/rcl/**/*.rs")]
    named = {
        package
        for source in sources
        for package in re.findall(r"\br2r::(\w+)::(?:msg|srv)\b", source.read_text())
    }
    assert named and named <= listed, "r2r would generate no code for the others"
    assert listed <= LINKED


@pytest.mark.parametrize("name", NAMES)
def test_debug_information_is_in_a_file_of_its_own_and_names_of_functions_stay(name):
    sections = readelf("-S", name)
    assert ".symtab" in sections, "a backtrace names functions"
    if ".gnu_debuglink" not in sections:
        pytest.skip("this machine has no objcopy, so nothing was split")
    assert ".debug_info" not in sections and ".debug_line" not in sections
    assert (INSTALLED / ".debug" / f"{name}.debug").stat().st_size > 100_000


def test_the_installed_package_has_the_files_of_the_sources():
    """Tests import the sources (scripts/with_ros.sh), so only this one notices a file that is missing or left over."""
    installed = list(PREFIX.glob("lib/python3*/site-packages/robocache"))
    if not installed:
        pytest.skip("no build with ROS: `make build` makes it")

    def files(folder):
        found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
        return sorted(path for path in found if "__pycache__" not in path.parts)

    assert files(installed[0]) == files(REPOSITORY / "python" / "robocache")
