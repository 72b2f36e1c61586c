"""Examples read values by calls that give numbers for every element type."""

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SCRIPTS = sorted((REPOSITORY / "examples").glob("*.py"))
#: Programs that users read, too.
DEMOS = sorted((REPOSITORY / "demo").glob("*.py"))
PACKAGE = sorted((REPOSITORY / "python" / "robocache").rglob("*.py"))
#: `.array` of a segment, which holds bits if it is bf16; not `np.array` of a list.
RAW = re.compile(r"(?<!\bnp)\.array\b")


def examples(path):
    """The code that a file shows to users."""
    text = path.read_text()
    if path.suffix == ".md":
        return re.findall(r"```python\n(.*?)```", text, re.S)
    if path in [*SCRIPTS, *DEMOS]:
        return [text]
    # What is indented in a docstring.
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
    lines = [line for node in nodes for line in (ast.get_docstring(node) or "").splitlines()]
    return [line for line in lines if line.startswith("    ")]


@pytest.mark.parametrize("path", [*PAGES, *SCRIPTS, *DEMOS, *PACKAGE], ids=lambda path: path.name)
def test_no_example_reads_bits_as_if_they_were_numbers(path):
    assert [code for code in examples(path) if RAW.search(code)] == []


def test_there_are_examples():
    assert sum(len(examples(path)) for path in PAGES) > 10 and len(SCRIPTS) >= 2
    assert RAW.search('batch["joints"].array') and not RAW.search("np.array([1])")
