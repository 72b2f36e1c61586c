"""Modules and names that documents and examples import are there, and each name is one object."""

import ast
import importlib
import re
from pathlib import Path

import pytest

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
import robocache

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "python" / "robocache"
PAGES = [REPOSITORY / "README.md", *(REPOSITORY / "docs").glob("*.md")]
EXAMPLES = [*(REPOSITORY / "examples").glob("*.py"), *(REPOSITORY / "demo").glob("*.py")]
FROM = re.compile(r"^ *from robocache\.([\w.]+) import ([\w, ]+)", re.MULTILINE)
NAMED = re.compile(r"`robocache\.([a-z]\w*)\.(\w+)")


def imported():
    """(module, name) that documents and examples import or name."""
    for path in [*PAGES, *EXAMPLES]:
        text = path.read_text()
        for module, names in FROM.findall(text):
            yield from ((module, name.strip()) for name in names.split(","))
        yield from NAMED.findall(text)


def names_of(module):
    """The names at the top of a module, which is not run: it may need what is not installed."""
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_what_documents_import_is_there():
    found = sorted(set(imported()))
    assert ("ros", "TensorSubscriber") in found and ("contract", "load") in found
    # These are loaded when they are first used.
    known = {module: names_of(module) | {"PipelineNode", "dataset"} for module, _ in found}
    assert [(module, name) for module, name in found if name not in known[module]] == []


@pytest.mark.parametrize(
    "module",
    ["contract", "importing", "lerobot", "shared"],
)
def test_a_public_module_has_the_objects_of_the_package(module):
    found = importlib.import_module(f"robocache.{module}")
    for name in found.__all__:
        value = getattr(found, name)
        if name in robocache.__all__:
            assert value is getattr(robocache, name)
        if hasattr(value, "__module__"):
            assert value is getattr(importlib.import_module(value.__module__), name)
