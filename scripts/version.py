#!/usr/bin/env python3
"""Checks that all files have the version of Cargo.toml: `scripts/version.py [TAG]`.

The first version in CHANGELOG.md must be that version. With TAG, such as v0.2.0, this commit is a release: the tag is the
version, nothing is above it in CHANGELOG.md, and it has a date.
"""

import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = ("Cargo.toml", r'\[workspace\.package\]\nversion = "(.+)"')
#: The other places with a version, and where it is in them.
COPIES = [
    ("package.xml", r"<version>(.+)</version>"),
    ("python/robocache/__init__.py", r'^__version__ = "(.+)"'),
    ("CHANGELOG.md", r"^## (\d\S*)"),
    ("Dockerfile", r"^ARG VERSION=(.+)"),
]


def found(root, file, pattern):
    """The version in a file, or None."""
    match = re.search(pattern, (root / file).read_text(), re.MULTILINE)
    return match[1] if match else None


def faults(root, tag=None):
    """What is wrong, a line each."""
    version = found(root, *SOURCE)
    if not version or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        return [f"Cargo.toml: expected a version such as 0.2.0, found {version}"]
    wrong = [
        f"{file}: expected version {version} as in Cargo.toml, found {copy}"
        for file, pattern in COPIES
        if (copy := found(root, file, pattern)) != version
    ]
    if "version" not in (found(root, "pyproject.toml", r"^dynamic = \[(.+)\]") or ""):
        wrong.append('pyproject.toml: expected dynamic = ["version"], found none')
    if tag is not None:
        if tag != f"v{version}":
            wrong.append(f"the tag: expected v{version}, found {tag}")
        heading = found(root, "CHANGELOG.md", "^## (.+)")
        if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading or ""):
            wrong.append(
                f"CHANGELOG.md: expected the first heading '{version} (YYYY-MM-DD)', found '{heading}'"
            )
    return wrong


def main():
    tag = sys.argv[1] if len(sys.argv) > 1 else None
    wrong = faults(REPOSITORY, tag)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
