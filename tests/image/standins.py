"""Images in place of ros:jazzy, rust and ubuntu:24.04, where no registry of images is reached.

They are made of what the machine reaches: the mirror of its apt (debootstrap), its own Rust, and ROS from PyPI. They stay,
so that a second run is quicker; `podman rmi` removes them.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from engine import Failure, output

REPOSITORY = Path(__file__).resolve().parents[2]
PREFIX = "localhost/robocache-standin"
DEBIAN, RUST, ROS, BUILD = (f"{PREFIX}-{name}" for name in ("debian", "rust", "ros", "build"))
CERTIFICATES = Path("etc/ssl/certs/ca-certificates.crt")


def exists(image):
    return subprocess.run(["podman", "image", "exists", image]).returncode == 0


def import_folder(image, folder):
    """Makes an image of all files of a folder."""
    with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
        output("podman", "import", "-", f"{image}:latest", stdin=tar.stdout, timeout=600)


def debian():
    """The machine's distribution, smallest, with its certificates."""
    if exists(DEBIAN):
        return
    form = "$(CODENAME) $(REPO_URI) $(COMPONENT)"
    targets = output("apt-get", "indextargets", "--format", form, "Created-By: Packages").split(
        "\n"
    )
    with open("/etc/os-release") as file:
        release = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    suite = release["VERSION_CODENAME"].strip('"')
    found = [line.split() for line in targets if line.startswith(f"{suite} ")]
    if not found:
        raise Failure(f"expected {suite} in apt's sources, found {targets}")
    components = ",".join(sorted({component for *_, component in found}))
    with tempfile.TemporaryDirectory() as root:
        command = ["debootstrap", "--variant=minbase", "--include=ca-certificates"]
        output(*command, f"--components={components}", suite, root, found[0][1], timeout=1800)
        shutil.copy(Path("/") / CERTIFICATES, Path(root) / CERTIFICATES)
        import_folder(DEBIAN, root)


def rust():
    """The machine's own compiler, at the place of that of the image rust."""
    if exists(RUST):
        return
    root = Path(output("rustc", "--print", "sysroot", cwd=REPOSITORY))
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "usr/local"
        (local / "rustup").mkdir(parents=True)
        for part in ("bin", "lib"):
            shutil.copytree(root / part, local / "cargo" / part, symlinks=True)
        # The notices of its standard library.
        documents = Path("share/doc/rust")
        (local / "cargo" / documents).mkdir(parents=True)
        shutil.copy(root / documents / "COPYRIGHT-library.html", local / "cargo" / documents)
        import_folder(RUST, folder)


def ros():
    """DEBIAN with the ROS of `make setup` at the place of ros:jazzy's. Unchanged, it is not made again."""
    file = REPOSITORY / "tests/image/standin.Dockerfile"
    command = ["podman", "build", "--format", "docker", "--network=host", "-t", ROS, "-f", file]
    output(*command, "--build-arg", f"BASE={DEBIAN}", REPOSITORY, timeout=1800)


def installed():
    """In place of the stage that compiles: what `make build` has installed on this machine, with its ROS from PyPI."""
    with tempfile.TemporaryDirectory() as folder:
        install = Path(folder) / "opt/robocache/install"
        without_debug = shutil.ignore_patterns(".debug")
        shutil.copytree(REPOSITORY / "install", install, symlinks=True, ignore=without_debug)
        interfaces = REPOSITORY / ".ros/interfaces.wheels.jazzy"
        shutil.copytree(interfaces, install / "interfaces", symlinks=True)
        output(sys.executable, REPOSITORY / "scripts/third_party.py", "--node", install)
        import_folder(BUILD, folder)
