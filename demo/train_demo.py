"""Train and serve, end to end: record a robot, train a policy on windows, serve it live, and prove that both are equal.

    python3 demo/train_demo.py [--record-s 20] [--episodes 4] [--train-s 60] [--serve-s 15] [--output demo/train]

`make demo-train` builds first and calls this with ROS sourced, in a Python that has PyTorch. The exit code is 0 only if:

- the loss on the held-out episode fell,
- every tensor that the policy got live has the digest of the windows of the recording at its tick,
- every live action is, bit for bit, the action that these windows give,
- and the policy refuses a node that has another lag than the training.

The report is OUTPUT/report.html.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / part) for part in ("scripts", "examples", "demo", "python")]

import configuration  # noqa: E402
from domains import free_domain  # noqa: E402
from processes import ProcessFailure, executable, private_environment  # noqa: E402
from record import record  # noqa: E402
from refusals import other_node, refusal  # noqa: E402

CONFIG = REPOSITORY / "demo" / "train.yaml"
#: Within this time, a policy has the node's information, or the node is too slow [s].
START_S = 60
#: Joints whose actions the report shows.
SHOWN = 3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record-s", type=float, default=20, help="length of an episode [s]")
    parser.add_argument("--episodes", type=int, default=4, help="one is held out (4)")
    parser.add_argument("--train-s", type=float, default=60, help="time to train [s]")
    parser.add_argument("--serve-s", type=float, default=15, help="time to serve [s]")
    parser.add_argument("--device", default="cpu", help="where to train: cpu or cuda")
    parser.add_argument("--output", default=str(REPOSITORY / "demo" / "train"))
    return parser.parse_args()


def ros_site():
    """The packages of the sourced ROS's Python, which may be another one than this."""
    found = subprocess.run(
        ["python3", "-c", "import rclpy; print(rclpy.__path__[0])"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if found.returncode:
        raise ProcessFailure("expected a sourced ROS: no python3 on PATH imports rclpy")
    return str(Path(found.stdout.strip()).parent)


def replay(bags, out):
    """The rows of recordings; returns the store."""
    command = [executable("robocache"), "replay", *bags, "--config", CONFIG, "--out", out]
    subprocess.run([*map(str, command), "--format", "rows"], check=True, stdout=subprocess.DEVNULL)
    return out / "rows.zarr"


def train(store, output, options):
    """Trains a policy; returns its file, and the report of the training."""
    policy, curve = output / "policy.pt", output / "curve.json"
    command = [sys.executable, REPOSITORY / "examples" / "train_policy.py", store]
    command += ["--out", policy, "--curve", curve, "--seconds", options.train_s]
    command += ["--device", options.device]
    subprocess.run([str(part) for part in command], check=True)
    return policy, json.loads(curve.read_text())


def compare(store, served, policy_file):
    """Computes the actions again, from windows of the recording. Returns what was compared, and the differences."""
    import numpy as np
    import torch
    import train_policy

    import robocache

    torch.set_num_threads(1)
    cache = robocache.EpisodeCache.load(store)
    period_ns = round(1e9 / 50)
    (span,) = cache.episodes[0]["spans"]
    instants = served["tick"] * period_ns
    # The recording has all messages since the node's start, so each of its ticks can be made again.
    known = (instants >= span[1]) & (instants <= span[2])
    windows = cache.windows(np.zeros(known.sum(), np.int64), instants[known], rows="strict")
    order = [stream.name for stream in configuration.load(str(CONFIG)).streams]
    digests = np.array(
        [digest_of(windows, at, order) for at in range(windows.batch_size)], np.uint64
    )
    policy, batch = train_policy.load(policy_file), windows.torch()
    with torch.inference_mode():
        # One by one, as live: a batch may be summed in another order.
        each = (
            {name: part[at : at + 1] for name, part in batch.items()}
            for at in range(windows.batch_size)
        )
        actions = np.stack([policy(one)[0].numpy() for one in each])
    return {
        "ticks": len(instants),
        "compared": int(known.sum()),
        "digests_differ": int((digests != served["digest"][known]).sum()),
        "actions_differ": int((actions != served["action"][known]).any(axis=(1, 2)).sum()),
        "actions": actions,
        "instants": instants[known],
        "known": known,
        "cache": cache,
    }


def digest_of(windows, at, order):
    """The digest that the node gives the tensor of a window: docs/message.md. Every stream here has one input."""
    import numpy as np
    import xxhash

    hasher, data = xxhash.xxh3_64(), b""
    # In the order of the message, which is that of the configuration.
    for name in order:
        segment = windows[name]
        valid, values = segment.valid[at], segment.array[at]
        hasher.update(valid.astype(np.uint8).tobytes())
        hasher.update(segment.target_ns[at].astype("<i8").tobytes())
        hasher.update(segment.age_ns[at].astype("<i8").tobytes())
        hasher.update(np.full(len(valid), values.shape[1], "<u4").tobytes())
        hasher.update(valid.astype("<u4").tobytes())
        data += values.tobytes()
        data += bytes(-len(data) % 64)
    hasher.update(data)
    return hasher.intdigest()


def report(path, about, compared, served, problems):
    """Writes the report."""
    import numpy as np
    import train_policy

    losses, tests = about["loss"], about["test"]
    stride = max(1, len(losses) // 800)
    means = [[at, float(np.mean(losses[at : at + stride]))] for at in range(0, len(losses), stride)]
    begin = compared["instants"][0]
    ahead = train_policy.ACTION_NS[-1]
    truth = compared["cache"].windows(
        np.zeros(len(compared["instants"]), np.int64),
        compared["instants"],
        {train_policy.ACTION: {"offsets_ns": [ahead], "rows": "all", "dtype": "f32"}},
    )[train_policy.ACTION]
    curves = []
    for joint in range(SHOWN):
        seconds = (compared["instants"] + ahead - begin) / 1e9
        live = served["action"][compared["known"], -1, joint]
        values = np.where(truth.valid[:, 0], truth.float32()[:, 0, joint], np.nan)
        points = [
            [float(t), None if np.isnan(v) else float(v)]
            for t, v in zip(seconds, values, strict=True)
        ]
        curves.append({"name": f"joint_{joint}, measured", "points": points})
        predicted = [[float(t), float(v)] for t, v in zip(seconds, live, strict=True)]
        curves.append({"name": f"joint_{joint}, live action", "points": predicted, "dots": True})
    per_second = about["steps"] * about["batch"] / about["seconds"]
    share = 100 * about["data_seconds"] / about["seconds"]
    content = {
        "robocache_report": 1,
        "title": "robocache: train and serve",
        "about": [
            "A simulated robot is recorded, a policy learns from windows of the recordings, and then it acts beside "
            "the node. What it gets live is compared with what it was trained on."
        ],
        "passed": f"All {compared['compared']} live tensors and actions equal those of the recording, bit for bit.",
        "problems": problems,
        "tiles": [
            [str(about["steps"]), "training steps"],
            [f"{per_second:,.0f}", "windows per second, training included"],
            [f"{share:.1f} %", "of the time was data"],
            [f"{compared['compared']}", "live tensors compared"],
            [f"{np.median(served['latency_ns']) / 1e6:.2f} ms", "tick to action, p50"],
        ],
        "sections": [
            {
                "title": "Loss",
                "blocks": [
                    {"plot": {
                        "title": "loss over training steps", "x": "training step", "y": "mean squared error [rad²]",
                        "caption": "Mean of the steps so far in each point, and the episode that was held out",
                        "curves": [{"name": "training", "points": means}, {"name": "held out", "points": tests}],
                    }},
                ],
            },
            {
                "title": "Live actions",
                "blocks": [
                    {"text": f"The last of the {len(train_policy.ACTION_NS)} predicted steps, {ahead / 1e6:.0f} ms "
                     "after each tick, and where the joint then was."},
                    {"plot": {
                        "title": "live actions and what came", "x": "time [s]", "y": "position [rad]",
                        "caption": "Live actions against the later measurement", "curves": curves,
                    }},
                ],
            },
            {
                "title": "Proof",
                "blocks": [
                    {"table": {
                        "head": ["what", "compared", "different"], "texts": 1,
                        "rows": [
                            ["digests of live tensors and of windows", str(compared["compared"]), str(compared["digests_differ"])],
                            ["live actions and actions from windows", str(compared["compared"]), str(compared["actions_differ"])],
                        ],
                    }},
                ],
            },
        ],
    }  # fmt: skip
    written = path.with_suffix(".json")
    written.write_text(json.dumps(content), encoding="utf-8")
    command = [executable("robocache"), "view", written, "--out", path]
    subprocess.run([str(part) for part in command], check=True)


def run(options):
    import numpy as np

    output = Path(options.output)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.environ["ROBOCACHE_ROS_SITE"] = ros_site()
    print(f"recording {options.episodes} episodes of {options.record_s:g} s", flush=True)
    runs = [
        record(
            output / f"episode_{at}" / "runs", options.record_s, CONFIG, output / f"episode_{at}"
        )
        for at in range(options.episodes)
    ]
    store = replay(runs, output / "data")
    print(f"training for {options.train_s:g} s", flush=True)
    policy, about = train(store, output, options)
    print(f"serving for {options.serve_s:g} s", flush=True)
    served_file = output / "served.npz"
    serve = [sys.executable, REPOSITORY / "demo" / "train_serve.py", policy, "--out", served_file]
    live = output / "live"
    live = record(live / "runs", options.serve_s, CONFIG, live, beside=[("policy", serve)])
    served = np.load(served_file)
    compared = compare(replay([live], output / "live_data"), served, policy)
    problems = []
    first, last = about["test"][0][1], about["test"][-1][1]
    if not last < first:
        problems.append(f"the loss on the held-out episode did not fall: {first:.5f} to {last:.5f}")
    if compared["compared"] < 0.95 * compared["ticks"] or compared["ticks"] < 100:
        problems.append(
            f"only {compared['compared']} of {compared['ticks']} ticks could be compared"
        )
    for what in ("digests", "actions"):
        if compared[f"{what}_differ"]:
            problems.append(f"{compared[f'{what}_differ']} {what} differ")
    with other_node(CONFIG, (40, 60), output):
        told = refusal(serve, START_S)
    if told is None:
        problems.append("the policy did not refuse a node with another lag")
    else:
        print(f"the policy refuses another lag: {told}", flush=True)
    report(output / "report.html", about, compared, served, problems)
    return problems


def expect_packages(*names):
    """Fails at once if a package is missing that a later step needs."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ProcessFailure(
            f"expected the packages {', '.join(missing)} in {sys.executable}: install them, or set PYTHON to a Python "
            "that has them; make test-torch makes .torch/bin/python"
        )


def main():
    options = parse_arguments()
    private_environment(free_domain())
    try:
        expect_packages("numpy", "torch", "xxhash")
        problems = run(options)
    except (ProcessFailure, subprocess.CalledProcessError, OSError) as failure:
        problems = [str(failure)]
    for problem in problems:
        print(f"demo: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
