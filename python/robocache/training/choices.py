"""What is asked of windows, as the compiled part reads it."""

import json
import warnings
from collections.abc import Mapping

import numpy as np

from ..datasets.asked_episodes import integers
from ..node.caller import outside
from . import action_rows
from .steps import nanoseconds, offsets_of

#: What a stream of a configuration of windows may have, and what the compiled part calls it.
_NANOSECONDS = {"max_age_ms": "max_age_ns", "max_gap_ms": "max_gap_ns"}
_AS_THEY_ARE = {"strategy": "strategy", "fill": "fill", "dtype": "dtype", "rows": "view"}
_KEYS = {
    *("history", "horizon", "lag_ms", "offsets_ns", "present", "label", "required", "scale"),
    *_NANOSECONDS,
    *_AS_THEY_ARE,
    *action_rows.KEYS,
}
#: Streams that a policy mostly answers.
_ACTIONS = {"action", "actions"}
#: The words that a key may have.
_WORDS = {
    "strategy": ("hold", "nearest", "linear", "slerp"),
    "fill": ("zero", "last", "first"),
    "dtype": ("f32", "f16", "bf16", "u8", "i32"),
    "rows": ("as_served", "strict", "all"),
}


def choices(config, rows, streams, period_ns, labels=frozenset()):
    """The text of what `EpisodeCache.plan` is asked for; None for all streams as the node's configuration has them.

    Args:
        config, rows: of `EpisodeCache.windows`.
        streams: what the streams of the cache mean, by name.
        period_ns: of the cache.
        labels: the streams whose own steps are a label.
    """
    _check_word("rows", rows, "rows")
    if config is None and (rows is not None or labels):
        config = {name: {} for name in streams}
    if config is None:
        _warn_of_late_action({name: {} for name in streams}, streams)
        return None
    if not isinstance(config, Mapping):
        raise TypeError(f"config: expected a dict by stream, found {config!r}")
    if not config:
        raise ValueError("config: expected a stream or more, found none")
    if unknown := [name for name in config if name not in streams]:
        known = ", ".join(streams)
        raise ValueError(f"config: stream: expected one of {known}, found {unknown[0]!r}")
    asked = [
        _choice(name, own, rows, streams[name], period_ns, name in labels)
        for name, own in config.items()
    ]
    _warn_of_late_action(config, streams)
    return json.dumps(asked, default=_plain)


def _choice(name, config, rows, means, period_ns, own_label):
    """What is asked of a stream."""
    if not isinstance(config, Mapping):
        raise TypeError(f"'{name}': expected a dict, found {config!r}")
    unknown = set(config) - _KEYS
    if unknown:
        expected, found = ", ".join(sorted(_KEYS)), ", ".join(sorted(map(str, unknown)))
        raise ValueError(f"'{name}': expected {expected}, found {found}")
    choice = {"stream": name}
    for key in ("required", "scale"):
        choice[key] = config.get(key, False)
        if not isinstance(choice[key], bool):
            raise ValueError(f"{key} of '{name}': expected true or false, found {config[key]!r}")
    choice["label"] = label = is_label(name, config, means, own_label)
    for key, native in _AS_THEY_ARE.items():
        if key in config:
            _check_word(key, config[key], f"{key} of '{name}'")
            choice[native] = config[key]
    for key, native in _NANOSECONDS.items():
        if key in config:
            choice[native] = nanoseconds(config[key], f"{key} of '{name}'")
    if not label:
        choice.setdefault("view", rows)
    keeps_own = own_label and "horizon" not in config and "label" not in config
    return choice | _targets(name, config, means, label and not keeps_own, period_ns)


def is_label(name, config, means, own_label=False):
    """True if the windows of a stream are a label: what a policy is trained to say, rather than what it sees.

    A stream with a `horizon` and no `history` is one, unless its rows are plans, it chooses which rows it sees, or it says
    `label` itself. `own_label`: its own steps are one.
    """
    if "label" not in config:
        sees_all = config.get("rows", "all") == "all"
        own = own_label and not {"history", "horizon", "lag_ms", "offsets_ns"} & set(config)
        ahead = "horizon" in config and "history" not in config
        return (own or ahead) and sees_all and not means["plans"]
    label = config["label"]
    if not isinstance(label, bool):
        raise ValueError(f"label of '{name}': expected true or false, found {label!r}")
    if label and config.get("rows", "all") != "all":
        raise ValueError(
            f"rows of '{name}': expected all, because a label sees all rows, found {config['rows']}"
        )
    if label and means["plans"]:
        raise ValueError(f"label of '{name}': expected false for plans, found true")
    return label


def _targets(name, config, means, label, period_ns):
    """The steps that are asked for; empty for those of the node."""
    if "present" in config and "offsets_ns" not in config:
        raise ValueError(f"present of '{name}': expected offsets_ns beside it")
    timed = {"history", "horizon", "lag_ms"} & set(config)
    if "offsets_ns" in config:
        if timed:
            found = ", ".join(sorted(timed))
            raise ValueError(f"offsets_ns of '{name}': expected no {found} beside it")
        offsets_ns = integers(config["offsets_ns"], f"offsets_ns of '{name}'")
        targets = {"offsets_ns": offsets_ns.reshape(-1).tolist()}
        # Targets without the instant itself have a lag. The others may have none that somebody stated.
        targets["lag_stated"] = 0 not in targets["offsets_ns"]
        if "present" in config:
            targets["present"] = int(config["present"])
        return targets
    own, present = means["target_offsets_ns"], means["present"]
    if timed:
        # A label is what the policy does at the instant; what it sees is as late as the node has it.
        lag_ns = 0 if label else -own[present]
        frames_ns = None if means["arrivals"] else period_ns
        steps = offsets_of(config, name, lag_ns, period_ns, frames_ns)
        present = config.get("history", {"steps": 1})["steps"] - 1
        return {"offsets_ns": steps, "present": present, "lag_stated": "lag_ms" in config}
    if label:
        return {"offsets_ns": [offset - own[present] for offset in own], "present": present}
    return {}


def _warn_of_late_action(config, streams):
    """Warns of actions that are taken as observations: their steps are those of the node, which has a lag."""
    for name in sorted(_ACTIONS & set(config)):
        lag_ns = -streams[name]["target_offsets_ns"][streams[name]["present"]]
        is_chosen = {"history", "horizon", "lag_ms", "offsets_ns", "label"} & set(config[name])
        if lag_ns > 0 and not is_chosen and not streams[name]["plans"]:
            warnings.warn(
                f"'{name}': its step is {lag_ns / 1e6:g} ms before the instant, as that of an observation. If the policy "
                'answers it, write {"label": True}; if it sees it, {"label": False}',
                UserWarning,
                stacklevel=outside(),
            )


#: What actions of a contract may have.
_OF_ACTIONS = {"relative", "reference"}


def rows_of(config, streams):
    """By stream what the windows make of its values, as `ActionRows`; of the others nothing is made.

    Args:
        config: of `EpisodeCache.windows`; None for that of the node.
        streams: what the streams of the cache mean, by name.

    Raises ValueError if a stream, or the reference of its rows, has no windows of plain float32 numbers.
    """
    found = {}
    for name, own in (config or {}).items():
        if not set(own) & set(action_rows.KEYS):
            continue
        found[name] = made = action_rows.ActionRows(name, own, streams)
        if made.reference is not None and made.reference not in config:
            known = ", ".join(config)
            raise ValueError(
                f"reference of '{name}': expected a stream of these windows, {known}, found {made.reference!r}"
            )
        for each in {name, made.reference} - {None}:
            means = streams[each]
            dtype = config[each].get("dtype", means["dtype"])
            if dtype != "f32":
                raise ValueError(
                    f"'{each}': expected dtype f32 for rows of '{name}', found {dtype}"
                )
    return found


def answered(actions, rows):
    """The text of the streams that a policy answers, for its contract.

    Args:
        actions: of `EpisodeCache.contract`.
        rows: of `rows_of`: what the windows make of them.
    """
    if actions is None or isinstance(actions, str):
        actions = [] if actions is None else [actions]
    if not isinstance(actions, Mapping):
        actions = {name: {} for name in actions}
    asked = []
    for name, own in actions.items():
        if not isinstance(name, str) or not isinstance(own, Mapping) or set(own) - _OF_ACTIONS:
            raise ValueError(
                f"actions: expected names of streams, or a dict by stream of dicts with relative and reference, found"
                f" {name!r}: {own!r}"
            )
        if name in rows:
            if own:
                raise ValueError(
                    f"actions: expected nothing of '{name}', because its windows say it, found {', '.join(own)}"
                )
            asked.append({"stream": name, **rows[name].in_contract()})
            continue
        relative = own.get("relative", [])
        if isinstance(relative, str):
            raise ValueError(
                f"relative of '{name}': expected a list of channels, found {relative!r}"
            )
        asked.append(
            {"stream": name, "relative": list(relative), "reference": own.get("reference")}
        )
    if seen := sorted(set(rows) - set(actions)):
        raise ValueError(
            f"actions: expected {seen[0]!r} among them, because a node serves no such rows, found {', '.join(actions) or 'none'}"
        )
    return json.dumps(asked)


def _check_word(key, value, what):
    words = _WORDS[key]
    if value is not None and value not in words:
        raise ValueError(f"{what}: expected one of {', '.join(words)}, found {value!r}")


def _plain(value):
    """NumPy's numbers and arrays for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"expected numbers, words and lists, found {type(value).__name__}")


def latencies(latency_ns, streams, windows, random):
    """`[streams, windows]`: how much earlier than at its instant each stream of a window is taken [ns]."""
    names = [stream.name for stream in streams]
    unknown = set(latency_ns) - set(names)
    if unknown:
        raise ValueError(
            f"latency_ns: expected streams of {', '.join(names)}, found {', '.join(sorted(unknown))}"
        )
    late = np.zeros((len(names), windows), np.int64)
    # In the order of the plan, so that what is drawn does not depend on the order of the dict.
    for at, name in enumerate(names):
        if name in latency_ns:
            what = f"latency_ns of '{name}'"
            least, most = np.broadcast_to(integers(latency_ns[name], what), (2,))
            if least < 0 or most < least:
                raise ValueError(
                    f"{what}: expected 0 or more, the least first, found {least} and {most}"
                )
            late[at] = random.integers(least, most, windows, endpoint=True)
    return late
