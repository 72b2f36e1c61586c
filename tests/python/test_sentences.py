"""`scripts/sentences.py`: first sentences of doc comments name their thing."""

import subprocess
import sys

import sentences
import waiting
from sentences import REPOSITORY

TEXT = """//! Where rows are kept.
//! What follows is no first sentence.

/// True if it is one.
/// Whether it is the first line decides.
#[derive(Debug)]
pub struct Row {
    /// That of the newest row.
    pub stamp: i64,
    // What an ordinary comment says is no matter.
    /// Whatever follows, the word is another one.
    pub age: i64, /// Those behind code are no doc comments of a line.
    //// What has four slashes is no doc comment.
    /// The same, in metres.
    pub size: f32,
}
"""


def test_the_repository_has_at_most_as_many_as_it_had():
    run = waiting.run([sys.executable, REPOSITORY / "scripts" / "sentences.py"])
    assert run.returncode == 0, run.stdout
    # It has read the sources.
    assert int(run.stdout.split()[-1]) == len(sentences.found(REPOSITORY))


def test_first_sentences_that_name_nothing_are_found():
    assert [number for number, _ in sentences.faulty(TEXT)] == [1, 8, 14]


def test_tracked_rust_files_count_alone(tmp_path):
    for name in ("a/kept.rs", "b/kept.rs", "b/page.md", "b/new.rs"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("/// What it is.\n")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    tracked = ["a/kept.rs", "b/kept.rs", "b/page.md"]
    subprocess.run(["git", "-C", tmp_path, "add", *tracked], check=True)
    both = ["a/kept.rs:1: /// What it is.", "b/kept.rs:1: /// What it is."]
    assert sentences.found(tmp_path) == both
    assert sentences.found(tmp_path, ["b"]) == both[1:]
