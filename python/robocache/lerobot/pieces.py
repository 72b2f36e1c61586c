"""Which ticks of a store become the episodes of a dataset.

Timestamps of a dataset are `k / fps`. So a tick that is left out ends an episode, and another one begins behind it.
"""

import numpy as np

from ..node.summary import why_without


class Pieces:
    """The episodes of a dataset, and what was left out of them.

    Attributes:
        kept: a list of (episode, first, end): evenly spaced ticks `first..end` of an episode of the store.
        failures: a line for each episode that has no frame.
    """

    def __init__(self, frames, columns, summaries, findings):
        """
        Args:
            frames: a `Frames`.
            columns: of the dataset.
            summaries: those of the replay, by the names of episodes.
            findings: a `Findings`. It gets what is left out, and the share of valid steps.
        """
        self._frames, self._summaries, self._findings = frames, summaries, findings
        self._streams = dict.fromkeys(stream for column in columns for stream in column.streams)
        self._needed = {
            stream for column in columns if column.must_be_valid for stream in column.streams
        }
        self.kept, self.failures = [], []

    def choose(self, keep_invalid, least):
        """Chooses the frames of all episodes.

        Args:
            keep_invalid: whether a tick stays at which a value is not valid that a policy needs.
            least: the fewest frames of a piece, unless invalid ticks are kept.
        """
        for episode, runs in self._frames.tensors.runs():
            self._take(episode, runs, keep_invalid, least)

    def _take(self, episode, runs, keep_invalid, least):
        valid, ticks = self._counts(runs), sum(end - first for first, end in runs)
        for stream, count in valid.items():
            self._findings.count(stream, count, ticks)
        if why := self._failure(episode, valid, ticks):
            self.failures.append(f"{episode['name']}: failed: {why}")
            return
        if self._summaries[episode["name"]].get("commands"):
            text = "its commands are left out: the actions of a LeRobot dataset are rows of streams"
            self._findings.add(episode["name"], text)
        if keep_invalid:
            self.kept += [(episode, first, end) for first, end in runs]
            return
        pieces = [piece for run in runs for piece in self._valid_pieces(*run)]
        if not pieces:
            needed = ", ".join(self._streams_needed())
            self.failures.append(
                f"{episode['name']}: failed: {needed} are never valid at the same of its {ticks} ticks"
            )
            return
        long = [(first, end) for first, end in pieces if end - first >= least]
        self.kept += [(episode, first, end) for first, end in long]
        self._tell(episode["name"], valid, ticks, pieces, long, least)

    def _counts(self, runs):
        """By stream the number of its valid ticks."""
        known = self._frames.known
        return {
            stream: sum(int(known(stream, "valid", *run).sum()) for run in runs)
            for stream in self._streams
        }

    def _failure(self, episode, valid, ticks):
        """Why an episode has no frame; None if it may have one."""
        summary = self._summaries[episode["name"]]
        if not ticks:
            held_back = summary["held_back"]
            return f"it has no tick; {held_back} were held back, because a required stream was not valid"
        for stream in self._streams_needed():
            if not valid[stream]:
                why = why_without(summary, stream, "bag")
                return f"{stream} is valid at none of its {ticks} ticks: {why}"
        return None

    def _streams_needed(self):
        """The streams without which a tick is no frame, in their order."""
        return [stream for stream in self._streams if stream in self._needed]

    def _valid_pieces(self, first, end):
        """The parts of ticks `first..end` at which all streams are valid that a policy needs."""
        use = np.ones(end - first, bool)
        for stream in self._streams_needed():
            use &= self._frames.known(stream, "valid", first, end)
        edges = np.flatnonzero(np.diff(np.concatenate([[False], use, [False]])))
        return [(first + start, first + stop) for start, stop in edges.reshape(-1, 2).tolist()]

    def _tell(self, name, valid, ticks, pieces, long, least):
        """Says what is left out of an episode."""
        whole, left = sum(_lengths(pieces)), sum(_lengths(pieces)) - sum(_lengths(long))
        if whole < ticks:
            lacking = [
                f"{stream} at {ticks - valid[stream]}"
                for stream in self._streams_needed()
                if valid[stream] < ticks
            ]
            text = (
                f"{ticks - whole} of {ticks} ticks are left out, at which a stream is not valid: "
            )
            self._findings.add(name, text + ", ".join(lacking))
        if left:
            text = f"pieces of fewer than {least} frames are left out (--min-frames): "
            text += f"{len(pieces) - len(long)}, of {left} frames together"
            self._findings.add(name, text)


def _lengths(pieces):
    return [end - first for first, end in pieces]
