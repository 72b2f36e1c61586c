#!/usr/bin/env python3
"""Counts first sentences of doc comments that name nothing: `scripts/sentences.py [PATH...]`.

The first sentence of a doc comment names its thing by a noun or a verb, and is understood alone: "True if ...", "Name of
...", "Launches ...". The index of rustdoc shows it without the line above. So "Whether ..." and "The same ..." say too
little there.

There may be at most `MOST` of them in the tracked Rust files. If there are more, this prints all, and the exit code is 1.
With paths, it prints those in these files and folders alone.
"""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
#: The number goes down with each rewritten comment, and never up.
MOST = 0
COMMENT = re.compile(r"\s*//[/!](?!/)")
FAULTY = re.compile(r"\s*//[/!] (?:What|Whether|Where|The same|Those|That of)\b")


def faulty(text):
    """Yields line number and line for the doc comments of a text that begin with one of these words."""
    before = ""
    for number, line in enumerate(text.splitlines(), 1):
        if FAULTY.match(line) and not COMMENT.match(before):
            yield number, line.strip()
        before = line


def found(root, paths=()):
    """The first sentences of this kind in the tracked Rust files, a line each."""
    run = ["git", "-C", str(root), "ls-files", "-z", "--", *(paths or ["*.rs"])]
    files = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split("\0")
    return [
        f"{file}:{number}: {line}"
        for file in files
        if file.endswith(".rs") and (root / file).is_file()
        for number, line in faulty((root / file).read_text())
    ]


if __name__ == "__main__":
    if paths := [str(Path(path).resolve()) for path in sys.argv[1:]]:
        print("\n".join(found(REPOSITORY, paths)))
        sys.exit()
    lines = found(REPOSITORY)
    if len(lines) > MOST:
        print("\n".join(lines))
    print(f"first sentences that name nothing: expected at most {MOST}, found {len(lines)}")
    sys.exit(len(lines) > MOST)
