"""Modules of the package import downwards only: no import leads back to its module."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "robocache"
#: The package itself, and its compiled part, which imports no module.
ROOT, COMPILED = "__init__", "_native"


def imports(folder):
    """For each module of a package: the modules of the package that it imports, with the line of each import.

    An import inside a function counts. A package is imported with each module, so it may import none at its top:
    `from .tensor import decode` in `__init__` is an edge of `__init__`, and no module imports a name of `__init__`.
    """
    paths = {path.stem: path for path in folder.glob("*.py")}
    return {
        name: {module: line for module, line in _imported(path, paths, folder.name)}
        for name, path in sorted(paths.items())
    }


def _imported(path, modules, package):
    """The imported modules of a file, with the line of the import."""
    for node in ast.walk(ast.parse(path.read_text(), path)):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            of = node.module.split(".") if node.module else []
            of = [package, *of] if node.level == 1 else of
            names = [[*of, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == package:
                module = name[1] if len(name) > 1 else ROOT
                if module != COMPILED:
                    yield module if module in modules else ROOT, node.lineno


def circle(graph):
    """The imports of one circle, as lines of text; empty without one."""
    done, path = set(), []

    def visit(module):
        if module in path:
            members = path[path.index(module) :]
            after = [*members[1:], module]
            return [
                f"{of}.py:{graph[of][to]} imports {to}"
                for of, to in zip(members, after, strict=True)
            ]
        if module in done:
            return []
        path.append(module)
        for imported in graph[module]:
            if found := visit(imported):
                return found
        done.add(path.pop())
        return []

    for module in graph:
        if found := visit(module):
            return found
    return []


def test_modules_import_downwards():
    graph = imports(PACKAGE)
    assert len(graph) > 30 and "tensor" in graph["__init__"]
    assert not circle(graph)


@pytest.mark.parametrize(
    "back",
    [
        "from .upper import name",
        "from . import upper",
        "from package.upper import name",
        "import package.upper",
        "def later():\n    from .upper import name",
        "from . import name",
    ],
)
def test_a_circle_is_found(tmp_path, back):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import upper\n")
    (package / "upper.py").write_text("import os\n\nfrom .lower import name\n")
    (package / "lower.py").write_text("from . import _native\n")
    assert not circle(imports(package))
    (package / "lower.py").write_text(back + "\n")
    assert "upper.py:3 imports lower" in circle(imports(package))
