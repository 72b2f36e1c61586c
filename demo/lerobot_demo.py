"""LeRobot, end to end: record a robot, train ACT by LeRobot's trainer, serve it live, and prove that both are equal.

    python3 demo/lerobot_demo.py [--record-s 20] [--episodes 2] [--steps 200] [--ticks 200] [--output demo/lerobot]

`make demo-lerobot` builds first and calls this with ROS sourced, in a Python that has LeRobot. The simulated robot is
recorded and exported by `to-lerobot`. `examples/serve_lerobot.py` serves the policy three times at once: by `PipelineNode`,
from the node, which records, and by chunks of which the node makes commands. Then the actions are computed again, by LeRobot
from the dataset of that recording, and by the example from its replay. The exit code is 0 only if:

- every live action has the bits of both, and so has every row of the chunks,
- `robocache verify` makes all commands of the node again, bit for bit,
- all actions of a chunk follow from the observation of one tick, and none is published at another tick than its own,
- and both ways refuse another configuration than that of the training.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / part) for part in ("scripts", "examples", "demo", "python")]

from domains import free_domain  # noqa: E402
from processes import ProcessFailure, executable, private_environment  # noqa: E402
from record import record  # noqa: E402

CONFIG = REPOSITORY / "demo" / "lerobot.yaml"
#: Tick `k` is at `k * PERIOD_NS`.
PERIOD_NS = round(1e9 / 30)
#: What the configuration does not need is off, so that two cores suffice.
ROBOT = "--lidar-hz=0 --camera-wrist-hz=0 --wrench-hz=0 --imu-hz=0 --joints-hz=200 --image-width=160 --image-height=120"
#: A small network without weights of a hub.
ACT = (
    "pretrained_backbone_weights=null chunk_size=10 n_action_steps=10 dim_model=64 n_heads=4 dim_feedforward=128 "
    "latent_dim=8 n_encoder_layers=1 n_vae_encoder_layers=1 device=cpu push_to_hub=false"
)
#: The two ways to serve, and what chooses them.
WAYS = {"PipelineNode": ["--config", CONFIG], "TensorSubscriber": ["--topic", "fused_tensor"]}
#: The third way sends chunks to the group of the node.
CHUNKS, GROUP, STEPS = "chunks", "arm", 10
#: The longest start of the servers, and of the first action after it [s].
START_S = 120
#: Within this time, a policy refuses another lag, also on a machine with other work [s].
REFUSAL_S = 400
#: ROS usually has another Python. Its packages come last, so that those of this Python are used.
WITH_ROS = (
    "import os, runpy, sys; sys.path.append(os.environ['ROBOCACHE_ROS_SITE']); del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record-s", type=float, default=20, help="length of an episode [s]")
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200, help="of the training (200)")
    parser.add_argument("--ticks", type=int, default=200, help="actions of each way to compare")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "demo" / "lerobot")
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


def export(bags, out):
    """The LeRobot dataset of recordings. Images are kept without loss."""
    from robocache.lerobot import to_lerobot

    # The policy may act at each valid tick, also in a short piece between two gaps.
    given = {"images": True, "min_frames": 1, "task": "follow the joints"}
    episodes, frames = to_lerobot(bags, CONFIG, out, **given)
    print(f"{out}: {episodes} episodes, {frames} frames", flush=True)
    return out


def train(dataset, output, steps):
    """Trains ACT by LeRobot's trainer; returns the folder of the policy, with the file that says its inputs."""
    command = [sys.executable, "-m", "lerobot.scripts.lerobot_train", "--policy.type=act"]
    command += ["--dataset.repo_id=local/dataset", f"--dataset.root={dataset}"]
    command += [f"--policy.{option}" for option in ACT.split()]
    command += ["--batch_size=8", f"--steps={steps}", "--num_workers=0", "--log_freq=50"]
    command += [f"--save_freq={steps}", f"--output_dir={output / 'train'}"]
    log = output / "train.log"
    with log.open("w") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode:
            raise ProcessFailure(f"LeRobot's trainer failed: {log}")
    losses = [word for word in log.read_text().split() if word.startswith("loss:")]
    print(f"loss of the training: {', '.join(word[5:] for word in losses)}", flush=True)
    (checkpoint,) = (output / "train" / "checkpoints").glob("[0-9]*/pretrained_model")
    shutil.copy(dataset / "meta" / "robocache.json", checkpoint)
    return checkpoint


def server(checkpoint, *options):
    """The command of the example, as a user starts it."""
    example = REPOSITORY / "examples" / "serve_lerobot.py"
    return [str(part) for part in (sys.executable, "-c", WITH_ROS, example, checkpoint, *options)]


class Listener:
    """Takes the actions of both ways from their topics.

    Attributes:
        actions: by way and tick, the positions that were published.
        counted: chunks of which the node has made commands.
    """

    def __init__(self, ticks):
        sys.path.append(os.environ["ROBOCACHE_ROS_SITE"])
        import rclpy
        from robocache_ros.msg import CommandStatus
        from sensor_msgs.msg import JointState

        rclpy.init()
        self._rclpy, self._node = rclpy, rclpy.create_node("listener")
        self._ticks, self.actions = ticks, {way: {} for way in WAYS}
        self.counted = 0
        self._node.create_subscription(CommandStatus, "command_status", self._take_status, 100)
        for way in WAYS:
            self._node.create_subscription(
                JointState, f"{way}/action", lambda message, way=way: self._take(way, message), 100
            )

    def _take(self, way, message):
        stamp_ns = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        self.actions[way][stamp_ns // PERIOD_NS] = list(message.position)

    def _take_status(self, status):
        self.counted = status.chunks

    def is_done(self):
        """Spins for a while; whether there are enough actions."""
        for _ in range(100):
            self._rclpy.spin_once(self._node, timeout_sec=0.005)
        enough = all(len(actions) >= self._ticks for actions in self.actions.values())
        return enough and self.counted >= self._ticks // STEPS


def serve(checkpoint, output, ticks):
    """Serves by both ways at once; returns the actions, and the recording of the node."""
    listener = Listener(ticks)
    beside = [
        (way, server(checkpoint, *options, "--out", f"{way}/action"))
        for way, options in WAYS.items()
    ]
    beside.append((CHUNKS, server(checkpoint, "--topic", "fused_tensor", "--chunks", GROUP)))
    longest = START_S + ticks / 30
    config = commanding(output)
    robot, given = ROBOT.split(), ["commands:=enabled"]
    done = listener.is_done
    live = record(output / "runs", longest, config, output, beside, robot, done, given)
    return listener.actions, live


def commanding(output):
    """The configuration of the training with commands of its actions at 250 Hz. Returns the file."""
    joints = [f"joint_{at}" for at in range(7)]
    limits = {joint: {"position": [-3, 3], "velocity": 3, "acceleration": 20} for joint in joints}
    group = {
        "joints": joints,
        "rows": {"steps": STEPS, "step_ms": PERIOD_NS / 1e6},
        "start_from": "joints",
        "watchdog_ms": 500,
        "limits": {"joints": limits},
        "output": {"topic": "/commands", "type": "std_msgs/msg/Float64MultiArray"},
    }
    output.mkdir(parents=True, exist_ok=True)
    file = output / "commanding.yaml"
    # JSON is YAML.
    commands = json.dumps({"rate_hz": 250, "groups": {GROUP: group}})
    file.write_text(f"{CONFIG.read_text()}\ncommands: {commands}\n")
    return file


def chunks_of(recording):
    """The chunks of a recording: tick and rows of each."""
    import numpy as np
    from mcap.reader import make_reader
    from rclpy.serialization import deserialize_message
    from robocache_ros.msg import ActionChunk

    for path in sorted(recording.glob("*.mcap")):
        with path.open("rb") as file:
            for schema, _, message in make_reader(file).iter_messages():
                if schema.name == "robocache_ros/msg/ActionChunk":
                    chunk = deserialize_message(message.data, ActionChunk)
                    yield chunk.tick, np.array(chunk.values, np.float32).reshape(chunk.rows, -1)


def verified(recording):
    """How many command ticks `robocache verify` makes again, and its report of them."""
    command = [executable("robocache"), "verify", str(recording), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["commands"]


def compare_chunks(live, references, least):
    """Compares the chunks of a recording, and makes its commands again. Returns problems."""
    import numpy as np

    problems, chunks = [], list(chunks_of(live))
    for name, reference in references.items():
        known = [(rows, reference.chunk(tick)) for tick, rows in chunks]
        equal = sum(
            bool(made) and np.array_equal(rows, np.array(made, np.float32)) for rows, made in known
        )
        print(f"{CHUNKS:18}{name:32}{STEPS * len(chunks):8}{STEPS * equal:8}{len(chunks):8}")
        if equal < len(chunks) or equal < least:
            problems.append(
                f"{equal} of {len(chunks)} chunks equal those of {name}, expected {least}"
            )
    report = verified(live)
    print(
        f"{report['equal']} command ticks of {report['chunks']} chunks are made again, bit for bit"
    )
    if report["differing"] or report["unverifiable"] or not report["equal"]:
        problems.append(f"commands that verify makes otherwise: {report}")
    return problems


class Reference:
    """LeRobot's policy, on the rows of a dataset as LeRobot's loader gives them."""

    def __init__(self, checkpoint, dataset):
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
        from lerobot.policies.act.modeling_act import ACTPolicy
        from lerobot.policies.factory import make_pre_post_processors

        self.policy = ACTPolicy.from_pretrained(checkpoint)
        self.before, self.after = make_pre_post_processors(self.policy.config, str(checkpoint))
        self.dataset = LeRobotDataset("local/live", root=dataset)
        self.rows = {int(tick): at for at, tick in enumerate(self.dataset.hf_dataset["tick"])}

    def chunk(self, tick):
        """The actions that follow from the observation of a tick; None if the dataset lacks the tick."""
        if tick not in self.rows:
            return None
        item = self.dataset[self.rows[tick]]
        kept = {key: item[key] for key in self.policy.config.input_features}
        self.policy.reset()
        steps = range(self.policy.config.n_action_steps)
        return [self.after(self.policy.select_action(self.before(kept)))[0].tolist() for _ in steps]


class Replayed:
    """The example's policy on the tensors of `robocache.replay`."""

    def __init__(self, checkpoint, bag):
        from serve_lerobot import Policy

        import robocache

        self.policy = Policy(checkpoint)
        self.tensors = {
            tensor.tick: tensor
            for episode in robocache.replay([bag], CONFIG)
            for tensor in episode
            if not self.policy.invalid(tensor)
        }

    def chunk(self, tick):
        """As of `Reference`."""
        if tick not in self.tensors:
            return None
        batch = self.policy.before(self.policy.observation(self.tensors[tick]))
        self.policy.policy.reset()
        chosen = [self.policy.policy.select_action(batch) for _ in range(self.policy.chunk)]
        return [self.policy.after(action)[0].tolist() for action in chosen]


def compare(actions, reference, steps):
    """Finds for each live action the observation that it follows from. Returns a dict of counts.

    An action at tick `t` is number `t - s` of the chunk from tick `s`. The chunk is that of the action before, or begins
    at this tick.
    """
    chunks, chunk = {}, None
    found = {"actions": len(actions), "equal": 0, "chunks": 0, "early chunks": 0, "worst": 0.0}
    for tick, action in sorted(actions.items()):
        if chunk is None:  # the first that came may be within a chunk
            tried = range(tick - steps + 1, tick + 1)
        else:
            tried = [tick] if tick - chunk >= steps else [chunk, tick]
        for begin in tried:
            if begin not in chunks:
                chunks[begin] = reference.chunk(begin)
        known = [begin for begin in tried if chunks[begin] is not None]
        equal = [begin for begin in known if chunks[begin][tick - begin] == action]
        if equal:
            found["early chunks"] += bool(chunk is not None and chunk < equal[0] < chunk + steps)
            found["chunks"] += equal[0] != chunk
            found["equal"] += 1
            chunk = equal[0]
        else:
            errors = [
                max(abs(a - b) for a, b in zip(chunks[begin][tick - begin], action, strict=True))
                for begin in known
            ]
            found["worst"] = max(found["worst"], min(errors, default=float("inf")))
    return found


@contextlib.contextmanager
def other_node(output):
    """Runs the node with another lag than that of the training. Yields the path of its configuration."""
    other = output / "other.yaml"
    other.write_text(CONFIG.read_text().replace("lag_ms: 100", "lag_ms: 60"))
    command = [executable("fusion_node"), "--ros-args", "-p", f"config_file:={other}"]
    with (output / "other_node.log").open("w") as log:
        with subprocess.Popen([str(word) for word in command], stdout=log, stderr=log) as node:
            try:
                yield other
            finally:
                node.terminate()


def refusal(command):
    """The line by which a policy refuses another lag; None if it does not refuse within `REFUSAL_S`."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=REFUSAL_S)
    except subprocess.TimeoutExpired:
        return None
    told = [line.strip() for line in done.stderr.splitlines() if "targets_ns" in line]
    return told[-1] if done.returncode == 1 and told else None


def accepted(checkpoint, output):
    """Serves with another configuration than that of the training; returns the ways that do not refuse it."""
    found = []
    with other_node(output) as other:
        for way, options in WAYS.items():
            options = ["--config", other] if way == "PipelineNode" else options
            told = refusal(server(checkpoint, *options))
            if told is None:
                found.append(way)
            else:
                print(f"{way} refuses another lag: {told}", flush=True)
    return found


def run(options):
    output = options.output
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.environ["ROBOCACHE_ROS_SITE"] = ros_site()
    print(f"recording {options.episodes} episodes of {options.record_s:g} s", flush=True)
    bags = [
        record(output / f"{at}" / "runs", options.record_s, CONFIG, output / f"{at}", robot=ROBOT.split())
        for at in range(options.episodes)
    ]  # fmt: skip
    dataset = export(bags, output / "dataset")
    print(f"LeRobot trains ACT for {options.steps} steps", flush=True)
    checkpoint = train(dataset, output, options.steps)
    print(f"serving {options.ticks} ticks by {', '.join([*WAYS, CHUNKS])}", flush=True)
    actions, live = serve(checkpoint, output / "live", options.ticks)

    import torch

    torch.set_num_threads(1)
    references = {
        "LeRobot, from the dataset": Reference(checkpoint, export([live], output / "live_dataset")),
        "the example, from the replay": Replayed(checkpoint, live),
    }
    problems = []
    print(f"\n{'live':18}{'compared with':32}{'actions':>8}{'equal':>8}{'chunks':>8}{'skipped':>9}")
    for way, of_way in actions.items():
        skipped = max(of_way, default=-1) - min(of_way, default=0) + 1 - len(of_way)
        for name, reference in references.items():
            found = compare(of_way, reference, STEPS)
            counts = "".join(f"{found[key]:8}" for key in ("actions", "equal", "chunks"))
            print(f"{way:18}{name:32}{counts}{skipped:9}", flush=True)
            if found["equal"] < found["actions"] or found["actions"] < options.ticks:
                problems.append(
                    f"{way}: {found['equal']} of {found['actions']} actions equal those of {name}, expected all of "
                    f"{options.ticks} or more; the greatest difference is {found['worst']:.2g}"
                )
            if found["early chunks"] and not skipped:
                problems.append(
                    f"{way}: {found['early chunks']} chunks began before the last one ended"
                )
    problems += compare_chunks(live, references, options.ticks // STEPS)
    print("actions and chunks are compared bit for bit\n", flush=True)
    return problems + [
        f"{way} has not refused another lag within {REFUSAL_S} s"
        for way in accepted(checkpoint, output)
    ]


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
    # Nothing is downloaded. One thread: the order of sums, and so the bits, must not depend on the load.
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    try:
        expect_packages("numpy", "torch", "lerobot", "zarr", "pyarrow", "av", "yaml")
        problems = run(options)
    except (ProcessFailure, subprocess.SubprocessError, OSError) as failure:
        problems = [str(failure)]
    for problem in problems:
        print(f"demo: {problem}", file=sys.stderr)
    print("failed" if problems else "all live actions equal those that LeRobot computes")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
