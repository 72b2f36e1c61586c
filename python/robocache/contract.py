"""Contracts: what a policy relies on that was trained on tensors.

    contract = cache.contract()                 # or contract.of("robot.yaml"), or Pipeline(...).contract()
    contract.save("checkpoint/")                # checkpoint/robocache.json
    TensorSubscriber(node, act, contract="checkpoint/")     # refuses to serve something else

A contract has every setting that bears on the numbers of the tensors, and none of the others. docs/contract.md lists
both.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _native

__all__ = ["Contract", "ContractError", "Difference", "accept", "load", "of", "save"]

_log = logging.getLogger(__name__)


class Difference(NamedTuple):
    """A setting in which two contracts differ. Its text is the sentence.

    Attributes:
        key: the setting, such as "wrist.targets_ns".
        kind: "values": other numbers, which is refused; "validity": other steps are valid; "transport": another message
            type or codec; "unknown": one side does not know it; "accepted": other numbers, which the contract accepts.
        sentence: what it is, for people. It begins with the key.
    """

    key: str
    kind: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class ContractError(ValueError):
    """What is served is not what the policy was trained with.

    Attributes:
        differences: a sentence for each difference that is refused.
    """

    def __init__(self, where: str, differences: Sequence[str]) -> None:
        lines = "\n  ".join(differences)
        super().__init__(
            f"{where}: the policy would not be served what it was trained with:\n  {lines}"
        )
        self.where, self.differences = where, list(differences)

    def __reduce__(self) -> tuple[Any, ...]:
        return ContractError, (self.where, self.differences)


class Contract:
    """What a policy relies on that was trained on tensors. Make one with `of` or `load`, or by `contract()` of a
    `Pipeline`, an `EpisodeCache` or a `WindowPlan`.

    Two contracts are equal if their digests are.

    Attributes:
        json: the text of the contract. The same contract has the same text always.
        digest: the XXH3 of the text, 16 hexadecimal digits.
    """

    def __init__(self, text: str) -> None:
        self.json, self.digest = _native.contract_read(text)

    @property
    def value(self) -> dict[str, Any]:
        """The contract as a dict."""
        return json.loads(self.json)

    @property
    def streams(self) -> list[str]:
        """The names of its streams, sorted."""
        return sorted(self.value["streams"])

    def only(self, *streams: str) -> Contract:
        """The contract of these streams alone: of those that the policy takes.

        Raises ValueError if it lacks one, or if no name is given.
        """
        return Contract(_native.contract_only(self.json, list(streams)))

    def differences(self, served: Contract) -> list[Difference]:
        """What `served`, another contract, serves otherwise to a policy that was trained by this one, the worst kind first.
        Streams that only `served` has are no difference."""
        return [Difference(*of) for of in _native.contract_differences(self.json, served.json)]

    def expect(self, served: Contract, where: str = "contract") -> None:
        """Raises ContractError if `served` has other values; `where` says what was compared.

        Another validity is a warning. Any other difference is logged (`robocache.contract`, level INFO).
        """
        for difference in self._kept(served, where):
            if difference.kind == "validity":
                warnings.warn(f"{where}: {difference}", RuntimeWarning, stacklevel=2)
            else:
                _log.info("%s: %s: %s", where, difference.kind, difference)

    def _kept(self, served: Contract, where: str) -> list[Difference]:
        """The differences with which a policy is served. Raises ContractError if there are others."""
        found = self.differences(served)
        if refused := [str(difference) for difference in found if difference.kind == "values"]:
            raise ContractError(where, refused)
        return found

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes `robocache.json` into a folder that exists, beside a checkpoint. A file of this name is replaced.

        Raises OSError if it cannot be written.
        """
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"{os.fspath(folder)}: expected a folder, found none")
        _native.contract_save(self.json, os.fspath(folder))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contract) and self.json == other.json

    def __hash__(self) -> int:
        return hash(self.json)

    def __reduce__(self) -> tuple[Any, ...]:
        return Contract, (self.json,)

    def __repr__(self) -> str:
        return f"Contract({self.digest} of {', '.join(self.streams)})"


def config_text(config: Any) -> tuple[str, str]:
    """Returns (text, file name) of a configuration: a path, the YAML text, or a dict.

    A str with a line break is a text; any other str is a path.

    Raises TypeError if it is none of these, ValueError if a dict holds what YAML cannot, OSError if
    the file cannot be read.
    """
    if isinstance(config, dict):
        try:
            return json.dumps(config, ensure_ascii=False, allow_nan=False), "<dict>"
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"config: expected numbers, strings, lists and dicts: {error}"
            ) from None
    if isinstance(config, str) and "\n" in config:
        return config, "<text>"
    if not isinstance(config, (str, os.PathLike)):
        raise TypeError(f"config: expected a path, a text or a dict, found {type(config).__name__}")
    with open(config, encoding="utf-8") as file:
        try:
            return file.read(), os.fspath(config)
        except UnicodeDecodeError as error:
            raise ValueError(f"{os.fspath(config)}: expected UTF-8 text: {error}") from None


def of(config: str | os.PathLike[str] | Mapping[str, Any]) -> Contract:
    """The contract of a configuration: a path, the YAML text, or a dict, as for `Pipeline`. If it has `commands`, the contract
    has the actions of their groups.

    Raises ValueError if the configuration is wrong.
    """
    return Contract(_native.contract_of(*config_text(config), True))


def load(path: str | os.PathLike[str]) -> Contract:
    """The contract in a folder: `robocache.json` of a checkpoint, a store of `robocache replay`, a dataset of `robocache
    to-lerobot`, or a saved cache. A path of a file is read as `robocache.json`.

    Raises ValueError if there is none, or it was changed; OSError if it cannot be read.
    """
    return Contract(_native.contract_load(os.fspath(path)))


def save(folder: str | os.PathLike[str], of_what: Any) -> Contract:
    """Writes the contract of something beside a checkpoint: of a `Contract`, of what has `contract()` (`Pipeline`,
    `EpisodeCache`, `WindowPlan`), of a folder as for `load`, or of a configuration as for `of`. Returns the contract."""
    made = _made(of_what)
    made.save(folder)
    return made


def accept(path: str | os.PathLike[str], served: Any, *keys: str) -> Contract:
    """Accepts differences between the contract beside a checkpoint, its folder or its `robocache.json`, and what is served,
    as for `save`.

    `keys` are the names in the sentences, such as "wrist.targets_ns". What is served for them is written into the
    contract beside the checkpoint. So everything that reads it serves the policy with that value, and refuses any other.
    Returns the contract.

    Raises ValueError if a key is no difference that is refused, or if there is no `robocache.json`: stores, datasets and
    saved caches keep their contract; OSError if it cannot be written.
    """
    return Contract(_native.contract_accept(os.fspath(path), _made(served).json, list(keys)))


def _made(of_what: Any) -> Contract:
    if isinstance(of_what, Contract):
        return of_what
    own = getattr(of_what, "contract", None)
    if callable(own):
        return own()
    is_folder = isinstance(of_what, (str, os.PathLike)) and os.path.isdir(of_what)
    return load(of_what) if is_folder else of(of_what)


def trained(contract: str | os.PathLike[str] | Contract | None) -> Contract | None:
    """The contract of a policy as callers give it: a folder, a Contract, or None."""
    return contract if contract is None or isinstance(contract, Contract) else load(contract)


def served_as(text: str, where: str) -> Contract:
    """The contract that a node says, by its text. Raises ContractError if it says nothing."""
    if not text:
        raise ContractError(
            where, ["the node does not say its contract: it is of an older version of robocache"]
        )
    return Contract(text)


def expect_and_log(contract: Contract, served: Contract, where: str, logger: Any) -> None:
    """Raises ContractError as `Contract.expect`. A logger of a ROS node gets the other differences."""
    for difference in contract._kept(served, where):
        words = f"{where}: {difference.kind}: {difference}"
        # A logger of ROS refuses two levels in one line of code.
        if difference.kind == "validity":
            logger.warning(words)
        else:
            logger.info(words)
