"""What became of each episode, for people and programs: a line of text each, and a file of JSON."""

import dataclasses
import json

from ..node import whole

#: The files, in the folder of `share_folders.watched_of`.
TEXT, JSON = "summary.txt", "summary.json"
#: A stream is in doubt if its share of valid steps is below this part of the best one before.
_LEAST = 0.5


@dataclasses.dataclass
class Entry:
    """What became of an episode.

    Attributes:
        name: of its folder.
        became: "converted", "failed" or "discarded".
        ended: whether its recording has an end. If not, the node was killed, or its disk failed.
        ticks: of its result. A dataset calls them frames.
        valid: by stream the share of its valid steps, 0 to 1. Rows have none.
        rows: by stream the number of its rows, if rows are the result.
        why: why it failed, a line each.
        found: what was left out, dropped, missing or damaged, a line each.
        warnings: streams that are not as they were, a line each.
    """

    name: str
    became: str
    ended: bool
    ticks: int = 0
    valid: dict[str, float] = dataclasses.field(default_factory=dict)
    rows: dict[str, int] = dataclasses.field(default_factory=dict)
    why: list[str] = dataclasses.field(default_factory=list)
    found: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def lines(self):
        """The line of the episode, and below it what a user should look at."""
        parts = []
        if self.became == "discarded":
            parts.append("left out: it has the mark 'discard'")
        if self.became == "failed":
            parts.append("FAILED: " + "; ".join(self.why))
        if self.became == "converted" and not (self.rows and not self.ticks):
            parts.append(f"{self.ticks} ticks")
        if not self.ended:
            parts.append("not ended (the node was killed, or its disk failed)")
        streams = [f"{stream} {_percent(share)}" for stream, share in self.valid.items()]
        streams += [f"{stream} {rows} rows" for stream, rows in self.rows.items()]
        parts += [", ".join(streams)] if streams else []
        lines = [f"{self.name}: {'; '.join(parts)}"]
        lines += [f"WARNING {self.name}: {text}" for text in self.warnings]
        # Without a doubt they are only in the file of JSON.
        has_doubt = self.warnings or (self.became == "converted" and not self.ticks)
        return lines + [f"  {text}" for text in self.found if has_doubt]


class Summary:
    """The entries of all episodes, in the order in which they came.

    Attributes:
        entries: a list of `Entry`.
    """

    def __init__(self, folder):
        """Reads what is in the folder, so that a program that starts again goes on with it."""
        self._folder = folder
        path = folder / JSON
        episodes = json.loads(path.read_text())["episodes"] if path.exists() else []
        self.entries = [Entry(**entry) for entry in episodes]

    def take(self, entry):
        """Takes the entry of an episode, in place of an older one, and writes the files. Returns its lines, or none if it is
        as it was."""
        names = [known.name for known in self.entries]
        at = names.index(entry.name) if entry.name in names else len(names)
        entry.warnings = _warnings(entry, self.entries[:at])
        if self.entries[at : at + 1] == [entry]:
            return []
        self.entries[at : at + 1] = [entry]
        self._write()
        return entry.lines()

    def _write(self):
        lines = [line for entry in self.entries for line in entry.lines()]
        whole.write(self._folder / TEXT, "\n".join(lines) + "\n")
        # After an interrupt, the entries of this file are those that are no news.
        episodes = [dataclasses.asdict(entry) for entry in self.entries]
        whole.write(self._folder / JSON, json.dumps({"episodes": episodes}, indent=1) + "\n")


def _warnings(entry, earlier):
    """Sentences about streams that were better in earlier episodes, or that never had a value."""
    found = []
    for stream, share in entry.valid.items():
        best = max((before.valid.get(stream, 0.0) for before in earlier), default=0.0)
        before = f"; {_percent(best)} in an earlier episode" if best else ""
        if share == 0:
            found.append(f"{stream}: no step is valid{before or ', and none was before'}")
        elif share < _LEAST * best:
            found.append(f"{stream}: {_percent(share)} of the steps are valid{before}")
    for stream in (stream for stream, rows in entry.rows.items() if not rows):
        had = any(before.rows.get(stream) for before in earlier)
        found.append(
            f"{stream}: no row{'; an earlier episode has some' if had else ', and none before'}"
        )
    return found


def _percent(share):
    return f"{100 * share:.1f} %"
