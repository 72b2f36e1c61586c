"""What a run over many episodes came to, in lines for the user. A replay, an import and an export say the same."""

#: Names of episodes that a line has at most, and lines about single episodes that a list has.
_NAMES, _LINES = 5, 20


def complete(outcomes):
    """The summaries of the episodes that have a result, of the outcomes of a replay."""
    return [of[kind] for of in outcomes for kind in ("done", "kept") if kind in of]


class Findings:
    """What a user must know of many episodes. What several of them have in common is one line.

    Attributes:
        found: a dict of text to the names of the episodes that it is true of.
        valid: a dict of stream to the pair of its valid steps and of all its steps.
    """

    def __init__(self, found=None, valid=None):
        self.found = {text: list(names) for text, names in (found or {}).items()}
        self.valid = {stream: tuple(counts) for stream, counts in (valid or {}).items()}

    @classmethod
    def of(cls, summaries, source, has_steps=True):
        """What the summaries of a replay say: missing topics, dropped messages, damage, and the share of valid steps.

        Args:
            summaries: of `complete`.
            source: what the messages come from: "bag" or "dataset".
            has_steps: whether the steps of tensors count.
        """
        findings = cls()
        for summary in summaries:
            for text in _of_messages(summary, source):
                findings.add(summary["name"], text)
            for stream, numbers in summary["streams"].items() if has_steps else ():
                steps = numbers["steps"]
                findings.count(stream, steps - sum(numbers["invalid"].values()), steps)
        return findings

    def add(self, name, text):
        """Takes a sentence about an episode."""
        self.found.setdefault(text, []).append(name)

    def count(self, stream, valid, steps):
        """Counts the steps of a stream, and those of them that are valid."""
        before = self.valid.get(stream, (0, 0))
        self.valid[stream] = before[0] + int(valid), before[1] + int(steps)

    def join(self, value):
        """Takes what others have found: a `value`."""
        for text, names in value["found"].items():
            self.found.setdefault(text, []).extend(names)
        for stream, (valid, steps) in value["valid"].items():
            self.count(stream, valid, steps)

    @property
    def value(self):
        """The same for JSON."""
        return {"found": self.found, "valid": self.valid}

    def lines(self):
        """The lines: what was found, and the share of valid steps of each stream that is not always valid."""
        common = [_of_many(text, names) for text, names in self.found.items() if len(names) > 1]
        single = [f"{names[0]}: {text}" for text, names in self.found.items() if len(names) == 1]
        if (more := len(single) - _LINES) > 0:
            single[_LINES:] = [f"and {more} more lines like these"]
        shares = [
            f"{stream}: {100 * valid / steps:.1f} % of {steps} steps valid"
            for stream, (valid, steps) in self.valid.items()
            if valid < steps
        ]
        return [*common, *single, *shares]


def why_without(summary, stream, source):
    """Why a stream has no value in an episode, in words: what became of its topics, or of its steps."""
    reasons, missing = [], summary["missing"]
    for name, numbers in summary["inputs"].items():
        if name.partition(" ")[0].partition("[")[0] != stream:
            continue
        topic, received = numbers["topic"], numbers["received"]
        if not received and (topic in missing or not missing):
            reasons.append(f"{topic} has no message in the {source}")
        elif not received:
            # `remap` may have given the topic another name, which is not there.
            reasons.append(f"{topic} got no message; not in the {source}: {', '.join(missing)}")
        reasons += [f"{topic}: {text}" for text in _losses(numbers)]
    steps = summary["streams"].get(stream, {}).get("invalid", {})
    return "; ".join(reasons) or ", ".join(f"{reason} {count}" for reason, count in steps.items())


def _of_messages(summary, source):
    """What a summary says of the messages, in sentences."""
    for topic in summary["missing"]:
        yield (
            f"{topic}: not in the {source}, so its stream has no row from it; `remap` gives a topic another name"
        )
    # Each frame of a dataset has a message of each topic, unless its value is not valid.
    frames = max((each["received"] for each in summary["inputs"].values()), default=0)
    for name, numbers in summary["inputs"].items():
        received = numbers["received"]
        if numbers["topic"] in summary["missing"]:
            continue
        if not received:
            yield f"{name}: no frame has a value" if source == "dataset" else f"{name}: no message"
        elif source == "dataset" and received < frames:
            yield f"{name}: {frames - received} of {frames} frames have no value"
        for text in _losses(numbers):
            yield f"{name}: {text}"
    yield from summary.get("problems", ())
    if more := summary.get("more_problems", 0):
        yield f"and {more} more problems of this {source}"


def _losses(numbers):
    """What became of messages of an input that gave no row, or a part of one."""
    received = numbers["received"]
    for reason, count in numbers["dropped"].items():
        yield f"{count} of {received} messages dropped: {reason}"
    if waiting := numbers.get("waiting", 0):
        yield f"{waiting} of {received} messages still wait for a transform"
    for reason, count in numbers.get("parts_dropped", {}).items():
        yield f"{count} parts of messages dropped: {reason}"


def _of_many(text, names):
    """A sentence that is true of several episodes."""
    if len(set(names)) < len(names):
        names = list(dict.fromkeys(names))
    shown = ", ".join(names[:_NAMES]) + (", ..." if len(names) > _NAMES else "")
    return f"{text} ({len(names)} episodes: {shown})"
