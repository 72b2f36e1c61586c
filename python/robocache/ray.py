"""`robocache replay`, `to-lerobot` and `import` on a Ray cluster: `python -m robocache.ray`.

    python -m robocache.ray replay recordings/ --config robot.yaml --out data/ --format zarr
    python -m robocache.ray to-lerobot recordings/ --config robot.yaml --out dataset/
    python -m robocache.ray import bridge/1.0.0/ --mapping bridge --out data/

The bags, or the episodes of the dataset, are divided into shares, one Ray task each. If a task fails or its worker ends, it runs
again and goes on with what it had. At the end this process makes one result of all shares. All
machines must have the bags, the configuration and the results under the same paths. It needs
`pip install 'dist/WHEEL.whl[ray]'`. docs/training.md has more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .datasets import import_options, importing, mapping_file
from .node import replay_command, share_folders
from .node import replay_options as of_replay
from .node.summary import Findings, complete

#: What `replay` takes besides the options that all commands have.
_OPTIONS = of_replay.common("format", "bf16", "images", "rows", "replace")
#: Shares for each task that the cluster runs at once, so that none waits long for the last one.
SHARES_PER_SLOT = 4


def replay(
    bags: Any,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str = "mcap",
    options: Mapping[str, Any] | Iterable[str] = (),
    **cluster: Any,
) -> tuple[int, list[dict[str, Any]]]:
    """Replays bags on a Ray cluster. The results are those of one process, byte for byte. Results that
    are in `out` are not made again.

    Args:
        bags: bags, or folders of bags.
        config: the path of the configuration.
        out: the folder of the results.
        format: "mcap", "zarr" or "rows".
        options: options of `robocache replay` by name, such as `{"rate_hz": 30}`, or its words, such as
            `["--rate-hz=30"]`.
        cluster: what `run_shares` takes: shares, cpus, retries, address, told.

    Returns the exit code of `robocache replay` and the outcome of each episode, as `--json` prints it.

    Raises ImportError without Ray, ValueError if an argument does not fit, and RuntimeError if a share
    failed too often.
    """
    return _replay(bags, config, out, of_replay.given(options, format=format), cluster)


def _replay(bags, config, out, options, cluster):
    """`replay` with all options by name."""
    bags, config, out = _paths(bags, config, out)
    replay_command.request(bags, config, out, options)

    def share(number, of, folder):
        # An episode that fails here fails again below. There the error is reported.
        own = {"share": f"{number}/{of}", "parts_only": True, "kept_in": out}
        asked = of_replay.given(options, **own)
        return len(replay_command.replay(bags, config, folder, **asked)[1])

    folder = share_folders.folder_of(out)
    parts = run_shares(share, folder, **cluster)
    result = replay_command.replay(
        bags, config, out, **{**options, "take": [*options.get("take", ()), *parts]}
    )
    shutil.rmtree(folder)
    return result


def to_lerobot(
    bags: Any,
    config: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    cluster: Mapping[str, Any] | None = None,
    **given: Any,
) -> tuple[int, int]:
    """Writes a LeRobot dataset on a Ray cluster: each share is a dataset, and this process joins them.

    Takes what `robocache.lerobot.to_lerobot` takes, and as `cluster` a dict of what `run_shares`
    takes. Returns the number of episodes and of frames. Warns and raises as these two do.
    """
    from .lerobot import exporting

    return exporting.counted(_to_lerobot(bags, config, out, cluster=cluster, **given))


def _to_lerobot(
    bags, config, out, *, layout="lerobot", replace=False, replay_options=(), cluster=None, **given
):
    """As `to_lerobot`. Returns an `Export`, and says nothing."""
    from .lerobot import exporting, run, shares

    bags, config, out = _paths(bags, config, out)
    options = of_replay.given(replay_options)
    given = {**given, "layout": layout, "replace": replace, "replay_options": options}
    given = exporting.checked(config, given)
    run.expect_new(out, replace)

    def share(number, of, folder):
        own = of_replay.given(options, share=f"{number}/{of}")
        return shares.share(bags, config, folder, {**given, "replay_options": own})["counts"][0]

    folder = share_folders.folder_of(out)
    parts = run_shares(share, folder, **(cluster or {}))
    found = shares.joined(parts, out, given)
    if not found.failures:
        shutil.rmtree(folder)
    return found


def import_dataset(
    dataset: str | os.PathLike[str],
    out: str | os.PathLike[str],
    config: str | os.PathLike[str] | None = None,
    *,
    format: str = "rows",
    mapping: str | os.PathLike[str] | None = None,
    split: str | None = None,
    episodes: Any = None,
    share: tuple[int, int] | None = None,
    preset: str | None = None,
    resize: Any = None,
    tolerance_s: float = importing.TOLERANCE_S,
    cluster: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[list[dict[str, Any]], str | None]:
    """Imports a dataset on a Ray cluster. The results are those of one process. Results that are in `out` are not made
    again.

    Takes what `robocache.importing.import_dataset` takes, except `progress` and `has_bar`, with the path of a dataset, and
    as `cluster` a dict of what `run_shares` takes.

    Returns the outcomes of episodes, as `robocache import --json` prints them, and why there is no new store, or None. Warns
    of `importing.remarks`, of missing topics, dropped messages and damage. Raises what these two raise.
    """
    said: list[str] = []
    result = _import(
        (dataset, out, config),
        {"split": split, "episodes": episodes, "share": share, "tolerance_s": tolerance_s},
        {"preset": preset, "resize": resize},
        {"format": format, **options},
        mapping=mapping,
        cluster=dict(cluster or {}),
        told=said.append,
    )
    said += Findings.of(complete(result[0]), "dataset").lines()
    importing.warn_of(said)
    return result


def _import(places, reading, made, options, *, mapping, cluster, told):
    """As `import_dataset`. Gives the remarks to `told`, line by line."""
    dataset, out, config = places
    dataset, out = Path(dataset).resolve(), Path(out).resolve()
    share_folders.expect_outside(dataset, out)
    if mapping is not None and str(mapping) not in mapping_file.known():
        mapping = Path(mapping).resolve()
    opened = importing.opened(dataset, mapping)
    opened.expect_packages()
    for line in importing.remarks(opened, generates=config is None):
        told(line)
    made = {**made, "as_jpeg": str(options.get("images")).startswith("jpeg")}
    with importing.configured(opened, out, config, **made) as path:
        path = Path(path).resolve()
        replay_command.request([dataset], path, out, options)

        def part(number, of, folder):
            # An episode that fails here fails again below. There the error is reported.
            outcomes, _ = importing.replayed(
                importing.opened(dataset, mapping),
                folder,
                path,
                {**options, "parts_only": True, "kept_in": out},
                reading,
                part=(number - 1, of),
            )
            return len(outcomes)

        folder = share_folders.folder_of(out)
        parts = run_shares(part, folder, **cluster)
        result = importing.replayed(opened, out, path, {**options, "take": parts}, reading)
    shutil.rmtree(folder)
    return result


def run_shares(share, folder, *, shares=None, cpus=1, retries=3, address=None, told=None):
    """Runs `share(number, of, its_folder)` for the numbers 1 to `of` as tasks of Ray.

    Args:
        share: it returns how many episodes it has. It may run again in the same folder.
        folder: where the folders of the shares are. If a run was interrupted, the next one uses them,
            and as many shares.
        shares: how many; None: four for each task that the cluster runs at once.
        cpus: processors for each task.
        retries: how often a task may fail, or lose its worker, before the run fails.
        address: of the cluster; None: the one of this machine or of RAY_ADDRESS, or else a new one.
        told: a function that is given a line when a share has ended.

    Returns the folders of the shares, in their order.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            f"expected Ray: pip install 'dist/WHEEL.whl[ray]', with the wheel of `make wheel` ({error})"
        ) from error
    is_new = not ray.is_initialized()
    if is_new:
        ray.init(address=address)
    try:
        slots = max(1, int(ray.cluster_resources().get("CPU", 1) // cpus))
        of = share_folders.number_of(folder, shares or SHARES_PER_SLOT * slots)
        task = ray.remote(
            num_cpus=cpus, max_retries=retries, retry_exceptions=[RuntimeError, OSError]
        )(share)
        folders = [folder / f"{number:05}" for number in range(1, of + 1)]
        for part in folders:
            part.mkdir(exist_ok=True)
        running = {
            task.remote(number, of, part): number for number, part in enumerate(folders, start=1)
        }
        _follow(ray, running, told or (lambda line: None))
    finally:
        if is_new:
            ray.shutdown()
    return folders


def _follow(ray, running, told):
    """Waits until all tasks have ended. If one fails, the others are given up."""
    of, episodes = len(running), 0
    waiting = list(running)
    while waiting:
        (ended,), waiting = ray.wait(waiting, num_returns=1)
        try:
            episodes += ray.get(ended)
        except ray.exceptions.RayError as error:
            for other in waiting:
                ray.cancel(other, force=True)
            raise RuntimeError(f"share {running[ended]} of {of} failed: {error}") from error
        told(f"{of - len(waiting)} of {of} shares, {episodes} episodes")


def _paths(bags, config, out):
    """Paths that mean the same to every process. Results among bags would pass for bags."""
    bags = [Path(bag).resolve() for bag in bags]
    out = Path(out).resolve()
    for bag in bags:
        share_folders.expect_outside(bag, out)
    return bags, Path(config).resolve(), out


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m robocache.ray",
        description="Run robocache replay, to-lerobot or import on a Ray cluster. All machines must have the "
        "bags or the dataset, the configuration and the results under the same paths.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser("replay", help="replay bags, with the results of one process")
    replay_command.add_places(replay, "the folder of the results")
    of_replay.add(replay, _OPTIONS)
    dataset = commands.add_parser("to-lerobot", help="write a LeRobot dataset of bags")
    from .lerobot.cli import add_options

    add_options(dataset)
    imported = commands.add_parser("import", help="read a dataset into rows or tensors")
    import_options.add_options(imported)
    for command in (replay, dataset, imported):
        group = command.add_argument_group("the cluster")
        group.add_argument(
            "--shares", type=int, help="tasks [default: 4 for each that runs at once]"
        )
        group.add_argument("--cpus", type=int, default=1, help="processors for each task [1]")
        group.add_argument("--retries", type=int, default=3, help="how often a task may fail [3]")
        group.add_argument("--address", help="of the cluster [default: RAY_ADDRESS, or a new one]")
    return parser


def main(arguments=None):
    """The command `python -m robocache.ray`. Returns its exit code."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    cluster = {name: getattr(parsed, name) for name in ("shares", "cpus", "retries", "address")}
    cluster["told"] = lambda line: print(line, file=sys.stderr)
    where = None if parsed.command == "import" else (parsed.bags, parsed.config, parsed.out)

    def run_replay():
        options = of_replay.parsed_values(parsed, _OPTIONS)
        replay_command.expect_request(parser, where, options)
        code, outcomes = _replay(*where, options, cluster)
        for line in Findings.of(complete(outcomes), "bag").lines():
            print(line, file=sys.stderr)
        lines = replay_command.failures(outcomes)
        done = len(outcomes) - replay_command.failed(outcomes)
        print("\n".join([*lines, f"{done} episodes in {parsed.out}"]))
        return code

    def run_to_lerobot():
        from .lerobot.cli import options, told

        given = options(parser, parsed)
        return told(parsed.out, lambda: _to_lerobot(*where, cluster=cluster, **given))

    def run_import():
        import_options.check(parser, parsed)
        if parsed.out is None:
            parser.error("--write-config and --write-mapping are options of robocache import")
        names = ("split", "episodes", "tolerance_s")
        found = _import(
            (parsed.dataset, parsed.out, parsed.config),
            {**{name: getattr(parsed, name) for name in names}, "share": None},
            {"preset": parsed.preset, "resize": parsed.resize},
            import_options.values_of(parsed),
            mapping=parsed.mapping,
            cluster=cluster,
            told=cluster["told"],
        )
        return importing.told(parsed, *found)

    commands = {"replay": run_replay, "to-lerobot": run_to_lerobot, "import": run_import}
    return replay_command.exit_code(commands[parsed.command])


if __name__ == "__main__":
    sys.exit(main())
