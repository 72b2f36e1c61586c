"""`scripts/shapes.py`: parameters, statements and types have names of their own."""

import subprocess
import sys

import pytest
import shapes
import waiting
from shapes import LETS, NAMES, REPOSITORY, TUPLES

TEXT = """//! fn f((a, b): (A, B)) {} is a comment.
fn place(&self, (low, high): (f64, f64), value: f64) -> f64 {
    let text = "let (a, b) = (x, y);";
    let (a, b) = (low, high);
    let (a, b) = pair();
    let (a, b) = (a, b).max((c, d));
    let closure = |(a, b): (f64, f64)| a + b;
}

fn span(span: (f64, f64)) {}

fn of<F: Fn((u8, u8)) -> u8>(
    f: F,
    &(a, b): &(u8, u8),
) {
    let (mut rows, at) = (
        Vec::new(),
        0,
    );
}
"""


def lines(places):
    return [TEXT.count("\n", 0, place) + 1 for place in places]


def test_the_repository_has_at_most_as_many_as_it_had():
    run = waiting.run([sys.executable, REPOSITORY / "scripts" / "shapes.py"])
    assert run.returncode == 0, run.stdout
    # It has read the sources.
    expected = [f"{kind}: expected at most {most}" for kind, most in shapes.MOST.items()]
    assert [line.rpartition(", found ")[0] for line in run.stdout.splitlines()] == expected
    found = shapes.found(REPOSITORY)
    assert [int(line.split()[-1]) for line in run.stdout.splitlines()] == [
        len(all) for all in found.values()
    ]


def test_tuples_that_are_taken_apart_are_found():
    assert lines(shapes.tuples(shapes.code(TEXT))) == [2, 14]


def test_statements_that_share_a_let_are_found():
    assert lines(shapes.lets(shapes.code(TEXT))) == [4, 16]


@pytest.mark.parametrize(
    "declared",
    [
        "struct Row;",
        "pub(crate) enum Row {}",
        "type Row = u8;",
        "mod tests {\n    pub struct Row(u8);\n}",
    ],
)
def test_a_name_may_be_in_three_crates(tmp_path, declared):
    associated = "impl<T> Rows for Vec<T>\nwhere\n    T: Copy,\n{\n    type Row = T;\n}\n"
    files = {
        "crates/a/src/lib.rs": declared,
        "crates/b/src/lib.rs": declared,
        "crates/b/src/other.rs": declared,
        "src/main.rs": declared,
        "crates/c/src/lib.rs": associated,
        "crates/d/src/lib.rs": '// struct Row;\nconst TEXT: &str = "struct Row;";',
    }
    subprocess.run(["git", "init", "-q", tmp_path], check=True)

    def found(paths=()):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
        return [line.split(":")[0] for line in shapes.found(tmp_path, paths)[NAMES]]

    assert found() == []
    files["fuzz/target.rs"] = declared
    assert sorted(found()) == sorted(name for name, text in files.items() if text == declared)
    assert found(["crates/b"]) == ["crates/b/src/lib.rs", "crates/b/src/other.rs"]
    assert shapes.found(tmp_path)[TUPLES] == shapes.found(tmp_path)[LETS] == []
