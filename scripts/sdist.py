#!/usr/bin/env python3
"""Checks that the newest sdist of a folder can be built, without a compiler: `scripts/sdist.py FOLDER`.

It has the licences of all components, every file that its Rust code includes, and the kernels. cargo resolves its crates
by its Cargo.lock.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

#: What the sdist has beside Rust code.
WANTED = [
    "LICENSE",
    "THIRD_PARTY.txt",
    "robocache.cyclonedx.json",
    "Cargo.lock",
    "pyproject.toml",
    "python/robocache/__init__.py",
    "kernels/common.cuh",
    "scripts/cuda.sh",
]
INCLUDED = re.compile(r'include_(?:str|bytes)!\(\s*"([^"]+)"|#\[path = "([^"]+\.rs)"\]')


def included(root):
    """(source, file) for the files that Rust code includes. Code for tests is not built from an sdist."""
    for source in root.rglob("*.rs"):
        parts = source.relative_to(root).parts
        if {"tests", "examples"} & set(parts) or source.name == "tests.rs":
            continue
        for text, module in INCLUDED.findall(source.read_text()):
            yield source.relative_to(root), (source.parent / (text or module)).resolve()


def faults(root):
    """What an unpacked sdist lacks, a line each."""
    wrong = [f"expected {name}, found none" for name in WANTED if not (root / name).is_file()]
    wrong += [
        f"{source}: expected {path.relative_to(root.resolve())}, found none"
        for source, path in included(root)
        if not path.is_file()
    ]
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--no-deps"]
    resolved = subprocess.run(command, cwd=root, capture_output=True, text=True)
    return wrong + ([] if resolved.returncode == 0 else [resolved.stderr])


def main():
    files = sorted(
        Path(sys.argv[1]).glob("robocache-*.tar.gz"), key=lambda file: file.stat().st_mtime
    )
    if not files:
        print(f"{sys.argv[1]}: expected an sdist, found none", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, tarfile.open(files[-1]) as archive:
        archive.extractall(folder, filter="data")  # no path may lead out of it
        wrong = faults(next(Path(folder).iterdir()))
    for line in wrong:
        print(f"{files[-1].name}: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
