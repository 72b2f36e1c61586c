#!/usr/bin/env python3
"""Checks what the crates import against docs/architecture.md, and the modules of Python: `scripts/layers.py`.

- A crate uses exactly the crates that the graph of docs/architecture.md draws for it. Tests may also use the crates
  that the sentence below the graph names.
- Inside a crate, no modules of one folder use each other in a circle. At the top of a crate every module counts,
  whether it is a folder or a file, and so does `lib.rs` or `main.rs` with what it defines. Deeper down only folders count.
- In `core`, no other module may use `config`.
- Tensors and the messages of the simulated robot have the same bits on every processor. So `ops`, `core` and `sim` take
  sine, logarithm and the like from the crate libm: those of the C library differ in the last bit.
- In the Python package, neither modules nor rooms use each other in a circle. A room is a folder of the package, or a
  module at its top. `scripts/layers.py --python` prints the rooms, the arrows between them, and their floors. The package
  uses no private name of torch, as another version may lack it.
- The runtime, the node and the recorder of its messages may run on virtual time, and the simulation does. So they read each clock through
  `TimeSource`.

It reads the sources as text, without comments, strings and tests. It prints what is wrong; then the exit code is 1.
"""

import ast
import re
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
#: The heading of the graph.
HEADING = "## The crates"
#: The name of the package at the root, in the graph and in the sources.
ROOT = "robocache"
#: The Python package, and its compiled module, which imports no other.
PYTHON, COMPILED = "python/robocache", "_native"
PRIVATE = re.compile(
    r"\btorch(?:\.\w+)*\._(?!_)\w+|\bforward_ad\._\w+|\bfrom torch\S* import _\w+|\bfrom torch\S*\._\w+"
)
#: A module that no other module of its crate may use.
ABOVE = {"core": {"config"}}
#: Crates whose numbers are the same bits everywhere, and what they do not call: it is the C library's.
SAME_BITS = ("ops", "core", "sim")
_NAMES = (
    r"(?:a?(?:sin|cos|tan)h?|sin_cos|atan2|hypot|cbrt|exp|exp2|exp_m1|ln|ln_1p|log|log2|log10|powf)"
)
OF_C = re.compile(rf"\.({_NAMES})\(|\bf(?:32|64)::({_NAMES})\b")
#: Folders whose code takes the time from a source, and what reads the clocks of the machine.
TIMED = (
    "crates/runtime/src",
    "crates/data/src/recording",
    "crates/link/src",
    "crates/simulation/src",
    "src",
)
OF_MACHINE = re.compile(
    r"\b(?:Instant|SystemTime)::now\b|\bOffsetDateTime::now_\w+|\bclock_gettime\b|\.elapsed\(\)"
)
#: Files there that must read them, and why.
REAL = {
    "crates/runtime/src/time_source.rs": "it is the source",
    "crates/runtime/src/clock/sleeper.rs": "it learns how late the machine wakes a thread",
    "src/fastdds/profile/mod.rs": "it names a file as no other process of the machine does",
    "src/bin/sensor_sim.rs": "it is another program, which stands for a robot",
}
#: Comments, strings and characters.
WORDLESS = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#+)".*?"\1|b?r"[^"]*"|b?"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'',
    re.DOTALL,
)
#: An item for tests alone, on a line of its own or with its block.
FOR_TESTS = re.compile(
    r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*"
    r"(?:pub(?:\([^)]*\))?\s+)?(?:use\s[^;]*;|mod\s+\w+;)"
)


def crates(root):
    """The folders of the crates of a workspace by their names in the graph."""
    members = re.findall(
        r'"([^"]+)"',
        re.search(r"^members = \[(.*?)\]", (root / "Cargo.toml").read_text(), re.MULTILINE)[1],
    )
    return {path.name: path for member in members for path in sorted(root.glob(member))} | {
        ROOT: root
    }


def dependencies(crate, section, folders):
    """The crates of the workspace that a section of a Cargo.toml names. Python 3.10 has no reader of TOML."""
    parts = re.split(r"^\[(.+)\]\n", (crate / "Cargo.toml").read_text(), flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return set(re.findall(r"^robocache_(\w+)", texts.get(section, ""), re.MULTILINE)) & set(folders)


def sources(crate):
    """The files of a crate that are not for tests, without comments, strings and items for tests."""
    found = {}
    for path in sorted((crate / "src").rglob("*.rs")):
        parts = path.relative_to(crate / "src").parts
        if "tests" not in parts and parts[-1] != "tests.rs":
            found[path] = FOR_TESTS.sub("", WORDLESS.sub('""', path.read_text()))
    return found


def drawn(root):
    """The graph of docs/architecture.md: for each crate the crates that it uses, and those that its tests also use."""
    page = (root / "docs/architecture.md").read_text()
    section = page[page.index(HEADING) :]
    block = re.search(r"```text\n(.*?)```\n(.*?)\n#", section, re.DOTALL)
    graph, more = {}, {}
    for line in block[1].splitlines():
        crate, _, uses = line.partition("->")
        graph[crate.strip()] = set(uses.split())
    for named, used in re.findall(
        r"tests of (.*?) also use ([^.]*)\.", block[2].replace("\n", " ")
    ):
        for crate in re.findall(r"`(\w+)`", named):
            more.setdefault(crate, set()).update(re.findall(r"`(\w+)`", used))
    return graph, more


def wrong_crates(root):
    """Uses of crates that the graph lacks, and uses in the graph that the sources lack, a line each."""
    graph, more = drawn(root)
    folders, lines = crates(root), []
    if set(graph) != set(folders):
        lines.append(
            f"docs/architecture.md: expected the crates {sorted(folders)}, found {sorted(graph)}"
        )
    for crate, folder in folders.items():
        uses, may = {}, graph.get(crate, set())
        for path, text in sources(folder).items():
            for used in re.findall(r"\brobocache_(\w+)\b", text):
                if used in folders and used != crate:
                    uses.setdefault(used, path.relative_to(root))
        for used in dependencies(folder, "dependencies", folders) - set(uses):
            uses[used] = (folder / "Cargo.toml").relative_to(root)
        lines += [
            f"{uses[used]}: {crate} uses {used}, which docs/architecture.md does not draw"
            for used in sorted(set(uses) - may)
        ]
        lines += [
            f"docs/architecture.md: {crate} does not use {used}" for used in sorted(may - set(uses))
        ]
        tests = dependencies(folder, "dev-dependencies", folders)
        lines += [
            f"{crate}/Cargo.toml: tests use {used}, which docs/architecture.md does not say"
            for used in sorted(tests - may - more.get(crate, set()) - {crate})
        ]
    return lines


def module_of(path, source):
    """The module of a file: its names from the root of its crate on. The root itself has none, nor has a program's file."""
    parts = list(path.relative_to(source).with_suffix("").parts)
    if parts[0] == "bin":
        return None
    if parts[-1] == "mod" or (len(parts) == 1 and parts[0] in ("lib", "main")):
        parts.pop()
    return tuple(parts)


def trees(text):
    """Yields (names, alias) of all `use` items, and of other paths with at least two names."""

    def expand(prefix, tree):
        tree = tree.strip()
        brace = tree.find("{")
        if brace < 0:
            path, *alias = re.split(r"\s+as\s+", tree)
            names = prefix + [part.strip() for part in path.split("::")]
            if len(names) > 1 and names[-1] == "self":
                names.pop()
            yield names, alias[0] if alias else names[-1]
            return
        head = [part.strip() for part in tree[:brace].split("::") if part.strip()]
        depth, begin = 0, brace + 1
        for at in range(brace, len(tree)):
            depth += (tree[at] == "{") - (tree[at] == "}")
            if (tree[at] == "," and depth == 1) or (tree[at] == "}" and depth == 0):
                if tree[begin:at].strip():
                    yield from expand(prefix + head, tree[begin:at])
                begin = at + 1

    item = re.compile(r"(?<!\w)use\s+([^;]+);")
    for tree in item.findall(text):
        yield from expand([], tree)
    for path in re.findall(r"(?<![\w:])(\w+(?:::\w+)+)", item.sub("", text)):
        yield path.split("::"), None


def absolute(names, module):
    """The path from the root of the crate on; None if it is of another crate."""
    at = list(module)
    if names[0] == "crate":
        return names[1:]
    if names[0] not in ("self", "super"):
        return None
    while names and names[0] in ("self", "super"):
        if names[0] == "super":
            at = at[:-1]
        names = names[1:]
    return at + names


def uses(crate):
    """All (module, path that it uses, file) of a crate. An imported name counts as the name that it stands for."""
    source = crate / "src"
    texts = {
        path: text for path, text in sources(crate).items() if module_of(path, source) is not None
    }
    known, found, given = {module_of(path, source) for path in texts}, [], {}
    for path, text in texts.items():
        module = module_of(path, source)
        for names, alias in trees(text):
            target = absolute(names, module)
            if target is None and names and (*module, names[0]) in known:
                target = [*module, *names]
            if target is None:
                continue
            if alias and alias != "*":
                given[(*module, alias)] = tuple(target)
            found.append((module, tuple(target), path))
    resolved = []
    for module, target, path in found:
        for _ in range(8):
            heads = (target[:count] for count in range(len(target), 0, -1))
            head = next((head for head in heads if head in given and head not in known), None)
            if head is None:
                break
            target = given[head] + target[len(head) :]
        resolved.append((module, target, path))
    return known, resolved


def wrong_modules(name, crate, root):
    """Circles of the modules of each folder of a crate, a line each."""
    known, found = uses(crate)
    source, lines = crate / "src", []
    levels = {module[:depth] for module in known for depth in range(len(module))}
    for level in sorted(levels):
        # What no module of the crate has, its root has.
        top = None if level else "lib" if (source / "lib.rs").exists() else "main"
        edges = {}
        for module, target, path in found:
            of, to = (part_of(names, level, known) or top for names in (module, target))
            if of == to or None in (of, to):
                continue
            if level and not all(is_folder(source.joinpath(*level, part)) for part in (of, to)):
                continue
            edges.setdefault(of, {}).setdefault(to, path.relative_to(root))
        lines += [f"{name}: a circle: {step}" for step in circle(edges)]
        if not level:
            for above in ABOVE.get(name, ()):
                lines += [
                    f"{name}: {path} uses {above}, which is above it"
                    for of, to in edges.items()
                    for used, path in to.items()
                    if used == above
                ]
    return lines


def part_of(names, level, known):
    """The module of a folder that has these names, or leads to them; `None` if none does."""
    is_below = names[: len(level)] == level and names[: len(level) + 1] in known
    return names[len(level)] if is_below and len(names) > len(level) else None


def is_folder(path):
    """Whether a module has modules below it that are not for tests."""
    return any(found.name != "tests.rs" for found in path.glob("*.rs"))


def circle(edges):
    """The uses of one circle of a graph, a line each; empty without a circle."""
    done, way = set(), []

    def visit(node):
        if node in way:
            ring = [*way[way.index(node) :], node]
            return [
                f"{edges[of][to]}: {of} uses {to}" for of, to in zip(ring, ring[1:], strict=False)
            ]
        if node in done:
            return []
        way.append(node)
        for used in sorted(edges.get(node, ())):
            if found := visit(used):
                return found
        done.add(way.pop())
        return []

    for node in sorted(edges):
        if found := visit(node):
            return found
    return []


def wrong_numbers(root):
    """Calls of functions whose bits depend on the C library, a line each."""
    found = crates(root)
    return [
        f"{path.relative_to(root)}: expected libm's {call[1] or call[2]}, as the C library's bits differ between processors"
        for name in SAME_BITS
        if name in found
        for path, text in sources(found[name]).items()
        for call in OF_C.finditer(text)
    ]


def python_uses(package):
    """For each module of a Python package, by its names: the modules of the package that it imports, and the place of each
    import. An import inside a function counts."""
    paths = {}
    for path in sorted(package.rglob("*.py")):
        names = path.relative_to(package).with_suffix("").parts
        paths[names[:-1] if names[-1] == "__init__" else names] = path
    known = {*paths, (COMPILED,)}
    return {
        module: {
            used: f"{path.relative_to(package.parents[1])}:{line}"
            for names, line in imported(path, package)
            for used in [names if names in known else names[:-1]]
            if used in known and used != module
        }
        for module, path in paths.items()
    }


def imported(path, package):
    """Yields the names that a file imports of its package, from the package on, and the line. The last one may be no
    module."""
    folder = path.parent.relative_to(package).parts
    for node in ast.walk(ast.parse(path.read_text(), path)):
        if isinstance(node, ast.Import):
            found = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                base = [package.name, *folder[: len(folder) + 1 - node.level], *base]
            found = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for names in found:
            if names[0] == package.name:
                yield tuple(names[1:]), node.lineno


def rooms(graph):
    """The rooms of a Python package, and for each the rooms that it uses, with the place of an import."""
    found = {room_of(module): {} for module in [*graph, (COMPILED,)]}
    for module, used in graph.items():
        for other, place in used.items():
            if room_of(other) != room_of(module):
                found[room_of(module)].setdefault(room_of(other), place)
    return found


def room_of(module):
    """The name of a module's room."""
    return module[0] if module else "__init__"


def floors(graph):
    """The rooms of each floor of a graph without circles, the lowest first. A room is above all that it uses."""
    level = {}

    def visit(room):
        if room not in level:
            level[room] = max((1 + visit(used) for used in graph[room]), default=0)
        return level[room]

    for room in graph:
        visit(room)
    return [
        sorted(room for room in level if level[room] == floor)
        for floor in range(1 + max(level.values()))
    ]


def wrong_python(root):
    """Circles of the modules and of the rooms of the Python package, and private names of torch, a line each."""
    graph = python_uses(root / PYTHON)
    by_name = {
        ".".join(module) or "__init__": {".".join(of) or "__init__": at for of, at in used.items()}
        for module, used in graph.items()
    }
    private = [
        f"{path.relative_to(root)}: expected a public name of torch, found {name}"
        for path in sorted((root / PYTHON).rglob("*.py"))
        for name in PRIVATE.findall(path.read_text())
    ]
    found = circle(by_name) or circle(rooms(graph))
    return [f"{PYTHON}: a circle: {step}" for step in found] + private


def described(root):
    """Lines that say which rooms the Python package has, and what each uses."""
    graph = rooms(python_uses(root / PYTHON))
    stack = floors(graph)
    arrows = sum(map(len, graph.values()))
    yield f"{len(graph)} rooms, {arrows} arrows, {len(stack)} floors"
    for number, names in enumerate(stack):
        yield from (
            f"{number} {name} -> {' '.join(sorted(graph[name]))}".rstrip() for name in names
        )


def wrong_times(root):
    """Readings of the machine's clocks where the time comes from a source, and files that need none any more, a line each."""
    lines = []
    for folder in crates(root).values():
        for path, text in sources(folder).items():
            name = path.relative_to(root).as_posix()
            if not name.startswith(tuple(f"{timed}/" for timed in TIMED)):
                continue
            found = OF_MACHINE.findall(text)
            if name not in REAL:
                lines += [f"{name}: expected TimeSource, found {reading}" for reading in found]
            elif not found:
                lines.append(f"scripts/layers.py: {name} reads no clock of the machine any more")
    return lines


def wrong(root):
    """The faults of a workspace, a line each."""
    lines = wrong_crates(root) + wrong_numbers(root) + wrong_times(root) + wrong_python(root)
    for name, folder in crates(root).items():
        lines += wrong_modules(name, folder, root)
    return lines


if __name__ == "__main__":
    found = wrong(REPOSITORY)
    print("\n".join(found) or "the crates use what docs/architecture.md draws, and no circle")
    if "--python" in sys.argv[1:] and not found:
        print("\n".join(described(REPOSITORY)))
    sys.exit(bool(found))
