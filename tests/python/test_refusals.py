"""Reasons for which a chunk is refused, and bounds of chunks: Rust, Python and docs/actions.md have the same."""

import re
from pathlib import Path

from robocache.message import chunk

REPOSITORY = Path(__file__).resolve().parents[2]
COMMANDS = REPOSITORY / "crates/core/src/command"


def reasons_of_rust():
    """The words of `Refusal::word`."""
    words = re.findall(r'Refusal::\w+ => "(\w+)"', (COMMANDS / "refused.rs").read_text())
    assert len(words) > 10
    return words


def test_the_client_has_words_for_each_reason():
    assert list(chunk.REFUSALS) == reasons_of_rust()


def test_the_documentation_has_each_reason_once():
    page = (REPOSITORY / "docs/actions.md").read_text()
    table = page[page.index("| reason | the chunk |") :].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = [word for cell in cells for word in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(reasons_of_rust())


def test_the_client_has_the_bounds_of_the_node():
    for file, name in (("chunk.rs", "MOST_ROWS"), ("status.rs", "MOST_REFUSED")):
        text = (COMMANDS / file).read_text()
        number = re.search(rf"pub const {name}: usize = (\d+);", text)[1]
        assert getattr(chunk, name) == int(number), name
