"""Contracts: what a policy relies on that was trained on tensors.

    contract = cache.contract()                 # or contract.of("robot.yaml"), or Pipeline(...).contract()
    contract.save("checkpoint/")                # checkpoint/robocache.json
    TensorSubscriber(node, act, contract="checkpoint/")     # refuses to serve something else

A contract has every setting that bears on the numbers of the tensors, and none of the others. docs/contract.md lists
both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from ._config_text import config_text

__all__ = ["Contract", "ContractError", "load", "of", "save"]


class ContractError(ValueError):
    """What is served is not what the policy was trained with.

    Attributes:
        differences: a sentence for each difference.
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

    def differences(self, served: Contract) -> list[str]:
        """A sentence for each thing in which `served`, another contract, differs for a policy that was trained by this
        one. Streams that only `served` has are no difference."""
        return _native.contract_differences(self.json, served.json)

    def expect(self, served: Contract, where: str = "contract") -> None:
        """Raises ContractError if `served` differs; `where` says what was compared."""
        differences = self.differences(served)
        if differences:
            raise ContractError(where, differences)

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


def of(config: str | os.PathLike[str] | Mapping[str, Any]) -> Contract:
    """The contract of a configuration: a path, the YAML text, or a dict, as for `Pipeline`.

    Raises ValueError if the configuration is wrong.
    """
    return Contract(_native.contract_of(*config_text(config)))


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


def expect_served(contract: Contract, text: str, where: str) -> None:
    """Checks what a node says that it serves, by the text of its contract.

    Raises ContractError if it differs, or if the node says nothing.
    """
    if not text:
        raise ContractError(
            where, ["the node does not say its contract: it is of an older version of robocache"]
        )
    contract.expect(Contract(text), where)
