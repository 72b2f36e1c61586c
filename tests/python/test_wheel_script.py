"""What scripts/wheel.sh decides, says and leaves. maturin and auditwheel are simulated by shell scripts."""

import platform
import shutil

import pytest
from conftest import REPOSITORY
from test_cuda_build import Machine, has_fixed_nvcc

PUBLISHED = "robocache-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl"
ARM = PUBLISHED.replace("x86_64", "aarch64")
LOCAL = "robocache-0.1.0-cp310-abi3-linux_x86_64.whl"
#: Notes its arguments, and writes a wheel that says what it was asked for into the folder after --out.
MATURIN = """
echo "$*" >"{root}/asked"
while [ "$1" != --out ]; do shift; done
case "$(cat "{root}/asked")" in
  *"--target aarch64"*) name={arm}; echo "RUSTC=$RUSTC in $CARGO_TARGET_DIR" >>"{root}/asked" ;;
  *--zig*) name={published} ;;
  *) name={local} ;;
esac
cat "{root}/asked" >"$2/$name"
"""
AUDITWHEEL = 'echo "{}"'
TAG = "This constrains the platform tag to manylinux_2_27_x86_64. You would need to recompile"


class Wheels(Machine):
    """A machine with the tools of both wheels, and folders with a space in their names."""

    def __init__(self, root):
        super().__init__(root)
        # Notes with which arguments it writes the licences.
        self.program("python3", f"echo \"$*\" >>'{self.root}/notices'")
        for name in ("wheel.sh", "requirements-wheel.txt"):
            shutil.copy(REPOSITORY / "scripts" / name, self.root / "scripts")
        for tool in "mkdir mv stat tee touch".split():
            (self.bin / tool).symlink_to(shutil.which(tool))
        pins = (self.root / "scripts/requirements-wheel.txt").read_text().splitlines()
        pins = [line for line in pins if not line.startswith("#")]
        tools = {"publish": pins, "local": [pin for pin in pins if pin.startswith("maturin==")]}
        maturin = MATURIN.format(root=self.root, arm=ARM, published=PUBLISHED, local=LOCAL)
        for kind, wanted in tools.items():
            folder = self.root / ".wheel" / kind
            self.program(folder / "bin/maturin", maturin)
            self.program(folder / "bin/auditwheel", AUDITWHEEL.format(TAG))
            (folder / "installed.txt").write_text("\n".join(wanted) + "\n")

    def wheel(self, *arguments, **environment):
        return self.run("bash", self.root / "scripts/wheel.sh", *arguments, **environment)

    def wheels(self):
        """The paths of all wheels in dist/, and what maturin was asked for."""
        dist = self.root / "dist"
        assert not list(dist.rglob("new.*"))
        return {str(path.relative_to(dist)): path.read_text() for path in dist.rglob("*.whl")}


@pytest.fixture
def machine(tmp_path):
    return Wheels(tmp_path)


def test_without_nasm_there_is_a_wheel_that_says_what_it_lacks(machine):
    built = machine.wheel(ROBOCACHE_CUDA="on")
    assert built.returncode == 0, built.stderr
    assert "--features cuda " in machine.wheels()[PUBLISHED]
    assert "no nasm: JPEG images decode without SIMD" in built.stderr
    assert "apt install nasm" in built.stderr
    machine.program("nasm", "exit 1")
    built = machine.wheel(ROBOCACHE_CUDA="on")
    assert built.returncode == 0 and "nasm" not in built.stderr
    assert "--features cuda,nasm " in machine.wheels()[PUBLISHED]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="64-bit ARM needs no cross-compiler")
def test_a_wheel_for_arm_has_its_own_compiler_and_folder_and_needs_no_nasm(machine):
    machine.program(machine.root / "scripts/arm64.sh", '[ "$1" = rust ] && echo /a/rustc')
    built = machine.wheel(ROBOCACHE_CUDA="on", WHEEL_TARGET="aarch64")
    assert built.returncode == 0, built.stderr
    asked = machine.wheels()[ARM]
    assert "--features cuda,nasm " in asked and "--zig" in asked
    assert asked.splitlines()[-1] == f"RUSTC=/a/rustc in {machine.root}/build/arm64"


def test_a_target_that_it_cannot_build_is_an_error(machine):
    machine.program(machine.root / "scripts/arm64.sh", 'echo "no rustc" >&2; exit 1')
    for target, message in (("aarch64", "no rustc"), ("riscv64", "found 'riscv64'")):
        built = machine.wheel(ROBOCACHE_CUDA="on", WHEEL_TARGET=target)
        assert built.returncode == 1 and message in built.stderr and not machine.wheels()
    built = machine.wheel("--local", ROBOCACHE_CUDA="on", WHEEL_TARGET="aarch64")
    assert built.returncode == 1 and "expected a wheel to publish" in built.stderr


def test_it_says_what_it_compiles_and_what_is_quicker(machine):
    built = machine.wheel(ROBOCACHE_CUDA="on")
    said = built.stderr.splitlines()
    assert any("the kernels for every chip" in line and "minutes" in line for line in said)
    assert any("ROBOCACHE_CUDA=off" in line for line in said)
    size = len(machine.wheels()[PUBLISHED])
    assert said[-1] == f"wheel: dist/{PUBLISHED}: {size} bytes, with CUDA"


def test_the_wheel_to_publish_has_a_profile_that_compiles_sooner(machine):
    for arguments in ((), ("--local",)):
        assert machine.wheel(*arguments, ROBOCACHE_CUDA="on").returncode == 0
    wheels = machine.wheels()
    assert "--profile wheel " in wheels[PUBLISHED] and "--release" not in wheels[PUBLISHED]
    # It shares what `make build` compiled.
    assert "--release " in wheels[LOCAL] and "--profile" not in wheels[LOCAL]


def test_without_cuda_there_is_a_wheel_beside_the_one_with_it(machine):
    assert machine.wheel(ROBOCACHE_CUDA="on").returncode == 0
    built = machine.wheel(ROBOCACHE_CUDA="off")
    assert built.returncode == 0, built.stderr
    wheels = machine.wheels()
    assert set(wheels) == {PUBLISHED, f"without-cuda/{PUBLISHED}"}
    assert "--features cuda " in wheels[PUBLISHED]
    assert "--features" not in wheels[f"without-cuda/{PUBLISHED}"]
    assert "computes on the CPU alone" in built.stderr
    assert built.stderr.splitlines()[-1].endswith(" bytes, without CUDA")


@pytest.mark.skipif(has_fixed_nvcc, reason="this machine's own nvcc cannot be hidden")
def test_a_wheel_to_publish_lacks_cuda_only_if_that_is_asked_for(machine):
    built = machine.wheel(ROBOCACHE_CUDA="auto")
    assert built.returncode == 1 and not machine.wheels()
    assert "expected an nvcc" in built.stderr and "ROBOCACHE_CUDA=off" in built.stderr
    assert machine.wheel("--local", ROBOCACHE_CUDA="auto").returncode == 0
    assert set(machine.wheels()) == {LOCAL}


def test_every_wheel_has_the_licences_of_what_is_in_it(machine):
    for arguments in ((), ("--local",)):
        assert machine.wheel(*arguments, ROBOCACHE_CUDA="on").returncode == 0
    published, local = (machine.root / "notices").read_text().splitlines()
    assert published.startswith("scripts/third_party.py --zig ")
    assert local == "scripts/third_party.py"
    assert all(
        "--sbom-include robocache.cyclonedx.json" in asked for asked in machine.wheels().values()
    )


def test_without_the_licences_there_is_no_wheel(machine):
    machine.program("python3", "exit 1")
    assert machine.wheel(ROBOCACHE_CUDA="on").returncode == 1
    assert not machine.wheels()


def test_other_wheels_stay(machine):
    dist = machine.root / "dist"
    dist.mkdir()
    older = dist / PUBLISHED.replace("0.1.0", "0.0.9")
    older.write_text("older")
    for arguments in ((), ("--local",), ()):
        assert machine.wheel(*arguments, ROBOCACHE_CUDA="on").returncode == 0
    assert older.read_text() == "older"
    assert set(machine.wheels()) == {older.name, PUBLISHED, LOCAL}


def test_the_last_line_of_auditwheel_is_explained(machine):
    built = machine.wheel(ROBOCACHE_CUDA="on")
    assert TAG in built.stdout
    assert "last sentence asks for nothing" in built.stderr
    assert TAG in (machine.root / "dist/auditwheel.txt").read_text()


def test_a_wheel_that_fails_a_check_replaces_none(machine):
    assert machine.wheel(ROBOCACHE_CUDA="off").returncode == 0
    before = machine.wheels()
    newer = AUDITWHEEL.format(TAG.replace("2_27", "2_31"))
    machine.program(machine.root / ".wheel/publish/bin/auditwheel", newer)
    machine.program("nasm", "exit 1")
    built = machine.wheel(ROBOCACHE_CUDA="off")
    assert built.returncode == 1 and "auditwheel finds no glibc up to 2.28" in built.stderr
    assert machine.wheels() == before
