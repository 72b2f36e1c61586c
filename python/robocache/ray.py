"""`robocache replay` and `robocache to-lerobot` on a Ray cluster: `python -m robocache.ray`.

    python -m robocache.ray replay recordings/ --config robot.yaml --out data/ --format zarr
    python -m robocache.ray to-lerobot recordings/ --config robot.yaml --out dataset/

The bags are divided into shares, one Ray task each. If a task fails or its worker ends, it runs
again and goes on with what it had. At the end this process makes one result of all shares. All
machines must have the bags, the configuration and the results under the same paths. It needs
`pip install robocache[ray]`. docs/cluster.md has more.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from . import _command

FORMATS = ("mcap", "zarr", "rows")
#: Shares for each task that the cluster runs at once, so that none waits long for the last one.
SHARES_PER_SLOT = 4


def replay(bags, config, out, *, format="mcap", options=(), **cluster):
    """Replays bags on a Ray cluster. The results are those of one process, byte for byte.

    Args:
        bags: bags, or folders of bags.
        config: the path of the configuration.
        out: the folder of the results.
        format: "mcap", "zarr" or "rows".
        options: further arguments of `robocache replay`, such as `["--rate-hz=30"]`.
        cluster: what `run_shares` takes: shares, cpus, retries, address, told.

    Returns the exit code of `robocache replay` and what became of each episode, as `--json` prints it.

    Raises ImportError without Ray, ValueError if an argument does not fit, and RuntimeError if a share
    failed too often.
    """
    if format not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found {format!r}")
    bags, config, out = _paths(bags, config, out)
    given = [f"--format={format}", *options]

    def share(number, of, folder):
        # An episode that fails here fails below too, where somebody is told.
        asked = [*given, f"--share={number}/{of}", "--parts-only"]
        return len(_command.replay(bags, config, folder, *asked)[1])

    folder = _shares_of(out)
    parts = run_shares(share, folder, **cluster)
    takes = [f"--take={part}" for part in parts]
    result = _command.replay(bags, config, out, *given, *takes)
    shutil.rmtree(folder)
    return result


def to_lerobot(bags, config, out, *, replay_options=(), cluster=None, **given):
    """Writes a LeRobot dataset on a Ray cluster: each share is a dataset, and LeRobot joins them.

    Takes what `robocache.lerobot.to_lerobot` takes, and as `cluster` a dict of what `run_shares`
    takes. Returns the number of episodes and of frames. Raises what these two raise.
    """
    from . import lerobot

    bags, config, out = _paths(bags, config, out)
    if out.exists():
        raise ValueError(f"{out}: expected a folder that does not exist yet")

    def share(number, of, folder):
        done = folder / "done.json"
        if not done.exists():
            shutil.rmtree(folder / "dataset", ignore_errors=True)
            asked = [*replay_options, f"--share={number}/{of}"]
            counts = lerobot.to_lerobot(
                bags, config, folder / "dataset", replay_options=asked, **given
            )
            done.write_text(json.dumps(counts))
        return json.loads(done.read_text())[0]

    folder = _shares_of(out)
    _keep_only(folder, _made_of(bags, config, [list(replay_options), given]))
    parts = run_shares(share, folder, **(cluster or {}))
    counts = lerobot.join([part / "dataset" for part in parts], out)
    shutil.rmtree(folder)
    return counts


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
        raise ImportError(f"expected Ray: pip install 'robocache[ray]' ({error})") from error
    is_new = not ray.is_initialized()
    if is_new:
        ray.init(address=address)
    try:
        slots = max(1, int(ray.cluster_resources().get("CPU", 1) // cpus))
        of = _number_of_shares(folder, shares or SHARES_PER_SLOT * slots)
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


def _made_of(bags, config, options):
    """A text that differs if what shares are made of differs: bags, configuration or options."""
    files = [
        [str(file), file.stat().st_size, file.stat().st_mtime_ns]
        for bag in bags
        for file in sorted(bag.rglob("*") if bag.is_dir() else [bag])
        if file.is_file()
    ]
    return json.dumps([files, config.read_text(), options], default=str)


def _keep_only(folder, made_of):
    """Removes the shares of an earlier run that were made of other things."""
    noted = folder / "made_of.json"
    if folder.exists() and (not noted.exists() or noted.read_text() != made_of):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    partial = noted.with_suffix(".partial")
    partial.write_text(made_of)
    partial.rename(noted)


def _number_of_shares(folder, wanted):
    """The number of shares of the run that was interrupted, or else the one that is wanted."""
    noted = folder / "shares.json"
    folder.mkdir(parents=True, exist_ok=True)
    if noted.exists():
        return json.loads(noted.read_text())
    partial = noted.with_suffix(".partial")
    partial.write_text(json.dumps(wanted))
    partial.rename(noted)
    return wanted


def _paths(bags, config, out):
    """Paths that mean the same to every process. Results among bags would pass for bags."""
    bags = [Path(bag).resolve() for bag in bags]
    out = Path(out).resolve()
    for bag in bags:
        if out.is_relative_to(bag):
            raise ValueError(f"--out: expected a folder that is not in {bag}, found {out}")
    return bags, Path(config).resolve(), out


def _shares_of(out):
    return out.with_name(f"{out.name}.shares")


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m robocache.ray",
        description="Run robocache replay or to-lerobot on a Ray cluster. All machines must have the "
        "bags, the configuration and the results under the same paths.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    replay = commands.add_parser("replay", help="replay bags, with the results of one process")
    replay.add_argument("bags", nargs="+", metavar="BAG", help="bags, or folders of bags")
    replay.add_argument("--config", required=True, help="the configuration file (YAML)")
    replay.add_argument("--out", required=True, help="the folder of the results")
    replay.add_argument("--format", choices=FORMATS, default="mcap", help="what to write")
    replay.add_argument("--bf16", choices=("uint16", "f32"), help="how Zarr has elements of bf16")
    _command.add_replay_options(replay)
    dataset = commands.add_parser("to-lerobot", help="write a LeRobot dataset of bags")
    from .lerobot import add_options

    add_options(dataset)
    for command in (replay, dataset):
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
    parsed = _parser().parse_args(arguments)
    cluster = {name: getattr(parsed, name) for name in ("shares", "cpus", "retries", "address")}
    cluster["told"] = lambda line: print(line, file=sys.stderr)
    where = (parsed.bags, parsed.config, parsed.out)
    try:
        if parsed.command == "replay":
            options = _command.replay_options(parsed)
            options += [f"--bf16={parsed.bf16}"] if parsed.bf16 else []
            code, outcomes = replay(*where, format=parsed.format, options=options, **cluster)
            lines = _command.failures(outcomes)
            print("\n".join([*lines, f"{len(outcomes) - len(lines)} episodes in {parsed.out}"]))
            return code
        from .lerobot import options

        episodes, frames = to_lerobot(*where, cluster=cluster, **options(parsed))
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(f"{parsed.out}: {episodes} episodes, {frames} frames")
    return 0 if episodes else 1


if __name__ == "__main__":
    sys.exit(main())
