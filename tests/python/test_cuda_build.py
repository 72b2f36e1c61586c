"""Tests of scripts/cuda.sh, which decides whether the node is built with CUDA, and of its callers.

Each test has its own machine: a copy of the script without .cuda/, and a PATH with only the tools
that the test puts there. Compilers and package installers are simulated by shell scripts.
"""

import os
import shutil
from pathlib import Path

import pytest
import waiting
from conftest import REPOSITORY

#: What the script prints for a build with CUDA, and for one without.
WITH, WITHOUT = "cuda", ""
#: The tools that the scripts run.
TOOLS = "bash sh cat cmp cp dirname env grep mktemp rm sed sort tail".split()
#: Places where the script finds an nvcc in any environment.
FIXED = ["/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"]
has_fixed_nvcc = any(map(os.path.exists, FIXED)) or any(Path("/usr/local").glob("cuda-*"))
pytestmark = pytest.mark.skipif(has_fixed_nvcc, reason="this machine's own nvcc cannot be hidden")
COMPILES = '[ "$1" = -fatbin ]'
#: The parts of the output of nvidia-smi (of drivers 550 and 610) and nvcc that the script reads.
HEADING = "| NVIDIA-SMI 550.54.14    Driver Version: 550.54.14    CUDA Version: {}    |"
UMD_HEADING = "| NVIDIA-SMI 610.43.02    KMD Version: 610.43.02    CUDA UMD Version: {}    |"
RELEASE = "Cuda compilation tools, release {}, V{}.88"
REFUSES = 'echo "trial.cu: error: unsupported GNU version" >&2; exit 1'


def has_gpu():
    libraries = waiting.run(["/sbin/ldconfig", "-p"]).stdout
    return any(Path("/dev").glob("nvidia[0-9]*")) or "libcuda.so.1" in libraries


without_gpu = pytest.mark.skipif(has_gpu(), reason="this machine's own GPU cannot be hidden")


class Machine:
    """A folder like the repository's, and the environment in which its scripts run."""

    def __init__(self, root):
        self.root = root / "robo cache"  # with a space, because users' folders may have one
        (self.root / "scripts").mkdir(parents=True)
        (self.root / "crates/kernels").mkdir(parents=True)
        self.script = self.root / "scripts" / "cuda.sh"
        for name in ("cuda.sh", "requirements-cuda.txt"):
            shutil.copy(REPOSITORY / "scripts" / name, self.root / "scripts")
        self.bin = root / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        self.env = {"PATH": str(self.bin)}

    def program(self, path, body):
        """Writes a shell script. The path is relative to the folder of the machine's programs."""
        path = self.bin / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def run(self, *command, **environment):
        return waiting.run(command, env=self.env | environment)

    def cuda(self, word, **environment):
        return self.run("bash", self.script, word, **environment)

    def nvcc(self, path, version):
        """Adds an nvcc that compiles and prints its version."""
        says = f'[ "$1" = --version ] && echo "{RELEASE.format(version, version)}"'
        return self.program(path, f"{COMPILES} || {says}")

    def driver(self, cuda, heading=HEADING):
        """Adds a GPU with the driver of this CUDA version."""
        self.program("nvidia-smi", f"echo '{heading.format(cuda)}'; echo 'GPU 0: a name'")
        self.program("ldconfig", "true")

    def python_that_installs(self, then="true"):
        """Adds a simulated python3 whose virtual environment has a pip that installs an nvcc."""
        site = "lib/python3.12/site-packages/nvidia/cu13/bin"
        wheel = self.program("wheel", COMPILES)
        copy = f"mkdir -p {site} && cp '{wheel}' {site}/nvcc"
        pip = self.program("pip", f'cd "$(dirname "$0")/.." && {copy}; {then}')
        (self.bin / "mkdir").symlink_to(shutil.which("mkdir"))
        venv = '[ "$2" = venv ] || exit 1; mkdir -p "$3/bin"'
        self.program("python3", f"{venv} && cp '{pip}' \"$3/bin/python3\"")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_without_an_nvcc_the_build_has_no_cuda_and_one_line_says_how_to_get_it(machine):
    asked = machine.cuda("features")
    assert (asked.returncode, asked.stdout.strip()) == (0, WITHOUT)
    (line,) = asked.stderr.splitlines()
    assert "building for the CPU alone" in line and f"'{machine.script}'" in line


@without_gpu
def test_make_demo_installs_nothing_if_there_is_neither_gpu_nor_nvcc(machine):
    machine.program("python3", "echo installs >&2; exit 1")
    assert (REPOSITORY / "scripts/build.sh").read_text().count("\nscripts/cuda.sh prepare\n") == 1
    prepared = machine.cuda("prepare")
    assert (prepared.returncode, prepared.stdout, prepared.stderr) == (0, "", "")
    assert not (machine.root / ".cuda").exists()


def test_make_build_installs_an_nvcc_if_there_is_a_gpu(machine):
    machine.python_that_installs()
    machine.program("nvidia-smi", "echo 'GPU 0: a name'")
    assert machine.cuda("prepare").returncode == 0
    found = machine.cuda("find").stdout.strip()
    assert found.startswith(f"{machine.root}/.cuda/lib/") and found.endswith("/nvcc")
    assert machine.cuda("features").stdout.strip() == WITH
    # The second time it installs nothing.
    machine.program("python3", "exit 1")
    assert machine.cuda("prepare").returncode == 0


@without_gpu
def test_the_users_choice_has_priority(machine):
    machine.python_that_installs()
    for word in ("get", "prepare"):
        assert machine.cuda(word, ROBOCACHE_CUDA="off").returncode == 0
        assert not (machine.root / ".cuda").exists()
    assert machine.cuda("prepare", ROBOCACHE_CUDA="on").returncode == 0
    assert machine.cuda("find").returncode == 0
    asked = machine.cuda("features", ROBOCACHE_CUDA="off")
    assert (asked.stdout.strip(), asked.stderr) == (WITHOUT, "")
    wrong = machine.cuda("features", ROBOCACHE_CUDA="yes")
    assert wrong.returncode == 1 and "expected auto, on or off, found 'yes'" in wrong.stderr


def test_an_install_that_fails_says_how_to_build_without(machine):
    machine.python_that_installs(then="echo 'no route to the index' >&2; exit 1")
    machine.program("nvidia-smi", "echo 'GPU 0: a name'")
    prepared = machine.cuda("prepare")
    assert prepared.returncode == 1
    assert "no route" in prepared.stderr and "ROBOCACHE_CUDA=off make build" in prepared.stderr
    # The incomplete install does not count as a compiler.
    assert list((machine.root / ".cuda").rglob("nvcc"))
    assert machine.cuda("features").stdout.strip() == WITHOUT


def test_an_install_of_older_pins_serves_until_the_new_pins_replace_it(machine):
    machine.python_that_installs()
    assert machine.cuda("get").returncode == 0
    pins = machine.root / "scripts/requirements-cuda.txt"
    pins.write_text(pins.read_text() + "another==1\n")
    assert machine.cuda("features").stdout.strip() == WITH
    assert machine.cuda("get").returncode == 0
    assert (machine.root / ".cuda/installed.txt").read_text() == pins.read_text()


def test_places_are_tried_in_order_and_a_broken_compiler_is_skipped(machine):
    on_path = machine.program("nvcc", COMPILES)
    home = machine.program("toolkit/bin/nvcc", COMPILES)
    named = machine.program("another/nvcc", COMPILES)
    home_variable = {"CUDA_HOME": str(machine.bin / "toolkit")}
    assert machine.cuda("find").stdout.strip() == str(on_path)
    assert machine.cuda("find", **home_variable).stdout.strip() == str(home)
    assert machine.cuda("find", NVCC=str(named), **home_variable).stdout.strip() == str(named)
    machine.program("toolkit/bin/nvcc", REFUSES)
    asked = machine.cuda("find", **home_variable)
    assert asked.stdout.strip() == str(on_path)
    assert f"skipping {home}: trial.cu: error: unsupported GNU version" in asked.stderr


def test_a_named_compiler_must_work(machine):
    machine.program("nvcc", COMPILES)
    wrong = machine.program("wrong", REFUSES)
    for name in (str(wrong), "/no/such/nvcc"):
        asked = machine.cuda("features", NVCC=name)
        assert asked.returncode == 1 and f"NVCC={name}: expected" in asked.stderr


@pytest.mark.parametrize("cuda", ["12.2", "12.8"])
def test_if_the_driver_is_too_old_nothing_is_installed_and_one_line_says_why(machine, cuda):
    machine.python_that_installs()
    machine.driver(cuda)
    assert machine.cuda("prepare").returncode == 0
    assert not (machine.root / ".cuda").exists()
    asked = machine.cuda("features")
    assert (asked.returncode, asked.stdout.strip()) == (0, WITHOUT)
    (line,) = asked.stderr.splitlines()
    assert "driver is for CUDA 12, the nvcc from PyPI for CUDA 13: no nvcc, building for" in line
    assert line.endswith("a driver for CUDA 13 (580 or later), or an nvcc of CUDA 12 in NVCC")


@pytest.mark.parametrize("heading", [HEADING, UMD_HEADING, "no heading {}"])
def test_a_driver_new_enough_or_unknown_gets_the_pins(machine, heading):
    machine.python_that_installs()
    machine.driver("13.1", heading)
    assert machine.cuda("prepare").returncode == 0
    asked = machine.cuda("features")
    assert (asked.returncode, asked.stdout.strip(), asked.stderr) == (0, WITH, "")
    assert (machine.root / ".cuda").exists()


def test_both_headings_of_nvidia_smi_are_read(machine):
    machine.nvcc("nvcc", "14.0")
    for heading in (HEADING, UMD_HEADING):
        machine.driver("13.3", heading)
        asked = machine.cuda("features")
        assert asked.stdout.strip() == WITHOUT and "driver is for CUDA 13," in asked.stderr


def test_a_driver_before_cuda_12_is_not_told_to_use_another_nvcc(machine):
    machine.driver("11.4")
    asked = machine.cuda("features")
    assert asked.stderr.strip().endswith("For the GPU: a driver for CUDA 13 (580 or later)")


@pytest.mark.parametrize("version, installs", [(12, False), (13, True)])
def test_without_nvidia_smi_the_drivers_library_gives_the_version(machine, version, installs):
    """As in a container on a Jetson, which has the driver's library but not nvidia-smi."""
    machine.python_that_installs()
    machine.program("ldconfig", "echo 'libcuda.so.1 (libc6,AArch64) => /usr/lib/libcuda.so.1'")
    installer = (machine.bin / "python3").read_text().removeprefix("#!/bin/sh\n")
    asks = "case $2 in *libcuda.so.1*cuDriverGetVersion*)"
    machine.program("python3", f"{asks} echo {version}; exit ;; esac; {installer}")
    assert machine.cuda("prepare").returncode == 0
    assert (machine.root / ".cuda").exists() == installs
    asked = machine.cuda("features")
    assert (asked.stdout.strip() == WITH) == installs
    assert ("an nvcc of CUDA 12 in NVCC" in asked.stderr) != installs


def test_on_and_get_install_for_an_old_driver_and_warn(machine):
    machine.python_that_installs()
    wheel = machine.nvcc("wheel", "13.0")
    machine.driver("12.4")
    for word, given in {"get": {}, "prepare": {"ROBOCACHE_CUDA": "on"}}.items():
        got = machine.cuda(word, **given)
        assert got.returncode == 0 and list((machine.root / ".cuda").rglob("nvcc"))
        assert "driver is for CUDA 12" in got.stderr and "(580 or later)" in got.stderr
        shutil.rmtree(machine.root / ".cuda")
    on = {"ROBOCACHE_CUDA": "on", "NVCC": str(wheel)}
    assert machine.cuda("features", **on).stdout.strip() == WITH
    found = machine.cuda("find", **on)
    assert found.stdout.strip() == str(wheel)
    assert f"CUDA 12, {wheel} for CUDA 13: what it builds computes on the CPU" in found.stderr
    # NVCC does not decide whether to build with CUDA: with auto, the driver does.
    asked = machine.cuda("features", NVCC=str(wheel))
    assert asked.stdout.strip() == WITHOUT and "building for the CPU alone" in asked.stderr


def test_an_nvcc_that_fits_the_driver_has_priority_over_a_newer_one(machine):
    home = machine.nvcc("toolkit/bin/nvcc", "13.0")
    fitting = machine.nvcc("nvcc", "12.4")
    for cuda, nvcc in {"12.8": fitting, "13.0": home}.items():
        machine.driver(cuda)
        found = machine.cuda("find", CUDA_HOME=str(machine.bin / "toolkit"))
        assert (found.stdout.strip(), found.stderr) == (str(nvcc), "")
    machine.driver("12.8")
    asked = machine.cuda("features", CUDA_HOME=str(machine.bin / "toolkit"))
    assert (asked.stdout.strip(), asked.stderr) == (WITH, "")


@pytest.mark.parametrize("nvcc", [True, False])
@pytest.mark.parametrize("profile", ["release", "dev"])
@pytest.mark.parametrize("command", ["build", "test", "clippy"])
def test_every_cargo_command_of_the_ros_build_has_the_same_features(
    machine, command, profile, nvcc
):
    if nvcc:
        machine.program("nvcc", COMPILES)
    cargo = machine.program("cargo", 'printf "%s\\n" "$@"')
    text = (REPOSITORY / "cmake/cargo.sh.in").read_text()
    given = {"CARGO_EXECUTABLE": cargo, "crate_dir": machine.root, "ROBOCACHE_PROFILE": profile}
    for name, value in given.items():
        text = text.replace(f"@{name}@", str(value))
    script = machine.root / "cargo.sh"
    script.write_text(text)
    asked = machine.run("sh", script, command, "--", "-D")
    assert asked.returncode == 0, asked.stderr
    features = WITH if nvcc else WITHOUT
    if profile == "dev":
        features += " robocache_bench/ros"
        packages = ["--workspace"] + ["--all-targets"] * (command == "build")
    else:
        ships = "-p robocache -p robocache_tools -p robocache_python".split()
        packages = ships * (command == "build") + ["--release"]
    wanted = ["--locked", "--manifest-path", f"{machine.root}/Cargo.toml", "--features", features]
    assert asked.stdout.splitlines() == [command, *wanted, *packages, "--", "-D"]
    # A wrong value stops it before cargo starts.
    assert machine.run("sh", script, command, ROBOCACHE_CUDA="yes").stdout == ""


@pytest.fixture(scope="module")
def build_script(tmp_path_factory):
    """The build script of the kernels as a program; `cargo build` runs it before it compiles the crate."""
    program = tmp_path_factory.mktemp("build") / "build-script"
    command = ["rustc", "--edition=2024", "-o", program, REPOSITORY / "crates/kernels/build.rs"]
    home = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    env = os.environ | {"PATH": f"{os.environ['PATH']}:{home}/bin"}
    waiting.run(command, env=env, check=True)
    return program


def test_the_build_error_says_the_one_command_and_how_to_build_without(machine, build_script):
    folders = {
        "CARGO_MANIFEST_DIR": str(machine.root / "crates/kernels"),
        "OUT_DIR": str(machine.bin),
    }
    built = machine.run(build_script, CARGO_FEATURE_CUDA="1", **folders)
    errors = [line for line in built.stdout.splitlines() if line.startswith("cargo::error=")]
    assert len(errors) == 3 and "no nvcc of CUDA 12.0 or later" in errors[0]
    assert errors[1].endswith("scripts/cuda.sh") and errors[2].endswith(
        "ROBOCACHE_CUDA=off make build"
    )

    neither = machine.run(build_script, **folders)
    assert neither.returncode == 0 and "cargo::error=" not in neither.stdout


class Kernels:
    """A build of the kernels with an nvcc that knows three chips and logs its arguments."""

    def __init__(self, machine, build_script):
        self.machine, self.script = machine, build_script
        self.log = machine.bin / "nvcc.log"
        self.nvcc("13.0", compresses=True)

    def nvcc(self, release, compresses):
        """Makes the nvcc one of this release."""
        option = "--compress-mode [default,size]" if compresses else "--no-compress"
        self.machine.program(
            "nvcc",
            f"""case $1 in
            --help) echo '{option}' ;;
            --list-gpu-code) printf 'sm_120\\nsm_75\\nsm_90\\n' ;;
            --version) echo '{RELEASE.format(release, release)}' ;;
            -fatbin) echo "$NVCC_PREPEND_FLAGS $* $NVCC_APPEND_FLAGS" >>'{self.log}' ;;
            esac""",
        )

    def build(self, **environment):
        """The output for cargo, and nvcc's arguments with the options of the environment."""
        self.log.unlink(missing_ok=True)
        folders = {
            "CARGO_MANIFEST_DIR": str(self.machine.root / "crates/kernels"),
            "OUT_DIR": str(self.machine.bin),
        }
        built = self.machine.run(self.script, CARGO_FEATURE_CUDA="1", **folders, **environment)
        assert built.returncode == 0, built.stderr
        return built.stdout, self.log.read_text() if self.log.exists() else ""


@pytest.fixture
def kernels(machine, build_script):
    return Kernels(machine, build_script)


def codes(arguments):
    return [word.split("code=")[-1] for word in arguments.split() if word.startswith("-gencode")]


def test_the_chips_are_those_that_nvcc_knows_or_the_ones_asked_for_ascending(kernels):
    told, arguments = kernels.build()
    assert "cargo::error" not in told and "ROBOCACHE_CUDA_VERSION=13000" in told
    assert codes(arguments) == ["sm_75", "sm_90", "sm_120", "compute_100"]
    # Chips of a generation share its PTX.
    assert "arch=compute_100,code=sm_120" in arguments
    # The PTX, which later chips compile, is that of the newest generation, in any order of the list.
    _, arguments = kernels.build(ROBOCACHE_CUDA_ARCHS="90, 75,90")
    assert codes(arguments) == ["sm_75", "sm_90", "compute_90"]


@pytest.mark.parametrize("chips, found", [("90,91", "91"), ("9", "9"), ("", '""'), ("x", '"x"')])
def test_a_chip_that_nvcc_does_not_know_is_an_error(kernels, chips, found):
    told, _ = kernels.build(ROBOCACHE_CUDA_ARCHS=chips)
    (error,) = [line for line in told.splitlines() if line.startswith("cargo::error=")]
    assert "ROBOCACHE_CUDA_ARCHS: expected" in error and error.endswith(f", found {found}")
    assert "[75, 90, 120]" in error or not found.isdigit()


def test_the_code_is_compressed_and_has_lines_only_if_asked(kernels):
    _, arguments = kernels.build()
    assert "-lineinfo" not in arguments and "--compress-mode=size" in arguments
    assert "-lineinfo" in kernels.build(ROBOCACHE_CUDA_LINEINFO="on")[1]
    assert "-lineinfo" not in kernels.build(ROBOCACHE_CUDA_LINEINFO="off")[1]
    told, arguments = kernels.build(ROBOCACHE_CUDA_LINEINFO="yes")
    assert "ROBOCACHE_CUDA_LINEINFO: expected on or off, found 'yes'" in told
    assert codes(arguments) == []


@pytest.mark.parametrize("release, knows", [("12.8", True), ("13.0", False)])
def test_code_that_a_driver_may_not_decompress_is_not_compressed(kernels, release, knows):
    """A driver of CUDA 12.0 loads code of nvcc 12.8, but cannot decompress it."""
    kernels.nvcc(release, knows)
    assert "--compress-mode" not in kernels.build()[1]


@pytest.mark.parametrize("variable", ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS"])
def test_options_of_a_shell_do_not_reach_nvcc(kernels, variable):
    _, arguments = kernels.build(**{variable: "--use_fast_math"})
    assert "-fmad=false" in arguments and "fast_math" not in arguments


def test_a_build_for_an_old_driver_warns_and_runs_again_when_its_inputs_change(kernels):
    kernels.machine.driver("12.4")
    told, _ = kernels.build()
    (warning,) = [line for line in told.splitlines() if line.startswith("cargo::warning=")]
    assert "driver is for CUDA 12" in warning and "(580 or later)" in warning
    for variable in ("NVCC", "ROBOCACHE_CUDA", "VIRTUAL_ENV", "ROBOCACHE_CUDA_ARCHS"):
        assert f"cargo::rerun-if-env-changed={variable}\n" in told
