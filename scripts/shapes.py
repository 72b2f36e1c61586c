#!/usr/bin/env python3
"""Counts shapes of Rust that hide a name: `scripts/shapes.py [PATH...]`.

- A function's parameter that is a tuple taken apart: `fn f((low, high): (f64, f64))`. Its type has no name, and a caller
  writes two values for one. Parameters of closures do not count.
- Two statements in one `let`: `let (a, b) = (x, y);`.
- A type's name in more than `CRATES` crates: a reader who searches for it finds the others. Private types and those of
  tests count; associated types do not.

There may be at most `MOST` of each in the tracked Rust files. If there are more, this prints all of that kind, and the
exit code is 1. With paths, it prints those in these files and folders alone.
"""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TUPLES = "tuple parameters"
LETS = "two statements in one let"
NAMES = "types whose name is in too many crates"
#: The numbers go down with each rewrite, and never up.
MOST = {TUPLES: 10, LETS: 25, NAMES: 0}
CRATES = 3

#: What is no code: comments, strings and characters.
TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\bb?r(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'""",
    re.DOTALL,
)
FUNCTION = re.compile(r"\bfn\s+(?:\$?\w+)")
LET = re.compile(r"\blet\s*\(")
#: A type's declaration, or a brace: the types in an `impl` or a trait are associated ones.
DECLARED = re.compile(r"(?P<kind>\b(?:struct|enum|union|type|trait))\s+(?P<name>[A-Z]\w*)|[{};]")
OWNER = re.compile(r"(?:\s|#!?)*(?:pub(?:\([^)]*\))?\s+)?(?:unsafe\s+)?(?:impl|trait)\b")
#: Attributes and arrays, whose `;` ends no statement.
BRACKETS = re.compile(r"\[[^\[\]]*\]")
CLOSES = {"(": ")", "[": "]", "{": "}"}


def blank(part):
    """Spaces instead of a match, so that places stay."""
    return re.sub(r"[^\n]", " ", part[0])


def code(text):
    """The text without its comments, strings and characters."""
    return TEXT.sub(blank, text)


def end(text, start):
    """Place behind the bracket that closes the one at `start`."""
    depth = 0
    for bracket in re.compile(r"[()\[\]{}]").finditer(text, start):
        depth += 1 if bracket[0] in CLOSES else -1
        if not depth:
            return bracket.end()
    return len(text)


def split(text):
    """The parts of a list between commas, with their places."""
    depth = first = 0
    for mark in re.finditer(r"->|=>|[()\[\]{}<>,]", text):
        if mark[0] in "([{<":
            depth += 1
        elif mark[0] in ")]}>":
            depth -= 1
        elif mark[0] == "," and depth <= 0:
            yield first, text[first : mark.start()]
            first = mark.end()
    if text[first:].strip():
        yield first, text[first:]


def parameters(text, start):
    """Places of the brackets around the parameters of the function whose name ends at `start`."""
    depth = 0
    for mark in re.compile(r"->|[<>({;]").finditer(text, start):
        if mark[0] == "<":
            depth += 1
        elif mark[0] == ">":
            depth -= 1
        elif mark[0] == "(" and not depth:
            return mark.start(), end(text, mark.start())
        elif mark[0] in "{;" and not depth:
            break
    return None


def tuples(text):
    """Places of parameters that are tuples taken apart."""
    for function in FUNCTION.finditer(text):
        if places := parameters(text, function.end()):
            first, last = places
            for place, parameter in split(text[first + 1 : last - 1]):
                pattern = parameter.lstrip()
                brackets = re.match(r"&?\(", pattern)
                # In a `proptest!`, `(cloud, layout) in any_cloud()` has no type.
                if brackets and pattern[end(pattern, brackets.end() - 1) :].lstrip().startswith(
                    ":"
                ):
                    yield first + 1 + place + len(parameter) - len(pattern)


def lets(text):
    """Places of `let` with a tuple on both sides."""
    for let in LET.finditer(text):
        equals = re.compile(r"\s*=\s*\(").match(text, end(text, let.end() - 1))
        if equals and text[end(text, equals.end() - 1) :].lstrip().startswith(";"):
            yield let.start()


def types(text):
    """Names and places of the types that are declared, without associated ones."""
    owners = []
    since = 0
    while BRACKETS.search(text):
        text = BRACKETS.sub(blank, text)
    for mark in DECLARED.finditer(text):
        if mark["name"]:
            if mark["kind"] != "type" or not (owners and owners[-1]):
                yield mark["name"], mark.start()
            continue
        if mark[0] == "{":
            owners.append(bool(OWNER.match(text, since)))
        elif mark[0] == "}" and owners:
            owners.pop()
        since = mark.end()


def crate_of(file):
    """Name of a file's crate: that of its folder."""
    first, _, rest = file.partition("/")
    return rest.partition("/")[0] if first == "crates" else first


def found(root, paths=()):
    """The shapes in the tracked Rust files by kind, a line each."""
    run = ["git", "-C", str(root), "ls-files", "-z", "--", "*.rs"]
    files = subprocess.run(run, check=True, capture_output=True, text=True).stdout.split("\0")
    shapes = {TUPLES: [], LETS: [], NAMES: []}
    declared = {}
    for file in files:
        if not file or not (root / file).is_file():
            continue
        raw = (root / file).read_text()
        text = code(raw)
        lines = raw.splitlines()

        def line(place, file=file, text=text, lines=lines):
            number = text.count("\n", 0, place) + 1
            return f"{file}:{number}: {lines[number - 1].strip()}"

        shapes[TUPLES] += map(line, tuples(text))
        shapes[LETS] += map(line, lets(text))
        for name, place in types(text):
            declared.setdefault(name, []).append((crate_of(file), line(place)))
    for _, places in sorted(declared.items()):
        if len({crate for crate, _ in places}) > CRATES:
            shapes[NAMES] += [line for _, line in places]
    if paths:
        inside = tuple(f"{path}{end}" for path in paths for end in ("/", ":"))
        shapes = {
            kind: [line for line in lines if line.startswith(inside)]
            for kind, lines in shapes.items()
        }
    return shapes


if __name__ == "__main__":
    given = [Path(path).resolve().relative_to(REPOSITORY) for path in sys.argv[1:]]
    shapes = found(REPOSITORY, given)
    for kind, lines in shapes.items():
        if given or len(lines) > MOST[kind]:
            print("\n".join(lines))
        if not given:
            print(f"{kind}: expected at most {MOST[kind]}, found {len(lines)}")
    sys.exit(not given and any(len(lines) > MOST[kind] for kind, lines in shapes.items()))
