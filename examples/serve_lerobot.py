"""Serves a policy that LeRobot trained on a dataset of `robocache to-lerobot`: publishes an action at each tick.

    cp dataset/meta/robocache.json CHECKPOINT/     # once, after the training
    python3 examples/serve_lerobot.py CHECKPOINT --config robot.yaml      # makes the tensors in this process
    python3 examples/serve_lerobot.py CHECKPOINT --topic fused_tensor     # takes those of a fusion_node
    python3 examples/serve_lerobot.py CHECKPOINT --topic fused_tensor --chunks arm

CHECKPOINT is the folder `pretrained_model` of LeRobot's trainer. If something else than in the training would be
served, the program ends with exit code 1 and says what differs.

If all actions are positions of joints, they are a JointState with the stamp of the tick. Otherwise they are a
Float64MultiArray. If a value that the policy takes is not valid, no action is published at that tick. The controller
must stop by itself when no action comes.

With --chunks the program publishes no actions. It sends each chunk as a whole to the fusion_node, which makes commands of the
group at its own rate (docs/actions.md). It refuses a group whose rows are not at the frames of the dataset.
"""

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

import robocache


class Policy:
    """A policy of LeRobot with its normalisation, which acts on fused tensors.

    Attributes:
        contract: what it must be served: the contract of the streams that it takes.
        actions: the names of the actions.

    Raises ValueError if the checkpoint lacks the file of its dataset, or if the actions of the dataset were not those of
    their tick.
    """

    def __init__(self, checkpoint, task=""):
        config = PreTrainedConfig.from_pretrained(checkpoint)
        columns = columns_of(Path(checkpoint) / "robocache.json", config.input_features)
        self.policy = get_policy_class(config.type).from_pretrained(checkpoint, config=config)
        # The training may have had a GPU that this machine lacks.
        device = {"device_processor": {"device": config.device}}
        self.before, self.after = make_pre_post_processors(
            config, str(checkpoint), preprocessor_overrides=device
        )
        # By LeRobot's key: the streams whose values it has, and the step of each.
        self.inputs = {key: columns[key]["steps"] for key in config.input_features}
        streams = {name.split(".")[0] for steps in self.inputs.values() for name in steps}
        self.contract = robocache.contract.load(checkpoint).only(*streams)
        self.encoders = {name: of["encoder"] for name, of in self.contract.value["streams"].items()}
        self.actions = columns["action"]["names"]
        if len(columns["action"]["steps"]) > 1:  # then each name begins with its stream
            self.actions = [name.split(".", 1)[1] for name in self.actions]
        self.task = task
        # The policy uses `chunk` actions of each chunk. `left` of them remain, and the first is for tick `due`.
        self.chunk = getattr(config, "n_action_steps", 1)
        self.left, self.due = 0, 0
        # Such a policy keeps the observations of the ticks before. They must be one tick apart, as in the training.
        self.has_history = getattr(config, "n_obs_steps", 1) > 1

    def invalid(self, tensor):
        """The streams whose values are not valid at this tick."""
        taken = [item for steps in self.inputs.values() for item in steps.items()]
        return [name for name, step in taken if not tensor[name].valid[step]]

    def observation(self, tensor):
        """The observations of a tick, as LeRobot's loader gives them, in a batch of one."""
        batch = {"task": self.task}
        for key, steps in self.inputs.items():
            values = [tensor[name].torch()[step].float() for name, step in steps.items()]
            if key.startswith("observation.images."):
                (name,), (image,) = steps, values
                if self.encoders[name]["layout"] == "hwc":
                    image = image.permute(2, 0, 1)
                batch[key] = (image.expand(3, -1, -1) / 255).contiguous()[None]
            else:
                batch[key] = torch.cat(values)[None]
        return batch

    @torch.inference_mode()
    def answer(self, tensor):
        """The whole chunk of a tick whose values are valid: rows of a number for each of `actions`, the first for this tick."""
        (rows,) = self.policy.predict_action_chunk(self.before(self.observation(tensor)))
        return [self.after(row[None])[0].tolist() for row in rows[: self.chunk]]

    @torch.inference_mode()
    def act(self, tensor):
        """The action of a tick whose values are valid: a number for each of `actions`."""
        batch = self.before(self.observation(tensor))
        # Each action of a chunk is for its own tick. Those of skipped ticks are dropped. With a history, the policy begins
        # again after a skipped tick, because it takes each observation that it is given for that of the next tick.
        skipped = tensor.tick - self.due
        if not 0 <= skipped <= (0 if self.has_history else self.left):
            self.policy.reset()
            skipped = self.left = 0
        for _ in range(skipped + 1):
            action = self.policy.select_action(batch)
        self.left = (self.left - skipped or self.chunk) - 1
        self.due = tensor.tick + 1
        return self.after(action)[0].tolist()


def columns_of(path, needed):
    """Which streams the columns of the dataset have. Raises ValueError if the file does not say it."""
    about = json.loads(path.read_text()) if path.is_file() else {}
    columns = about.get("columns", {})
    if missing := [key for key in (*needed, "action") if key not in columns]:
        raise ValueError(
            f"{path}: expected the column {missing[0]} of the dataset, found none: copy the file meta/robocache.json "
            "of the dataset to this path; to-lerobot of this version writes the columns into it"
        )
    check_shift(path, about.get("actions", {}), columns["action"]["steps"])
    return columns


def check_shift(path, actions, streams):
    """Raises ValueError unless the action of each frame was the command at its instant: this program publishes the action of
    a tick at that tick."""
    for name in streams:
        lag_ns = actions.get(name, {}).get("lag_ns")
        if lag_ns is None:
            raise ValueError(
                f"{path}: expected the lag of the action {name} under actions, found none: an older version wrote the "
                "dataset. Its actions had the lag of the observations, so export it again and train again"
            )
        if lag_ns != 0:
            raise ValueError(
                f"{path}: expected the action {name} at the instant of its frame (lag_ns 0), found {lag_ns / 1e6:g} ms "
                "before: each action would be that much late. Remove lag_ms from this stream, export again and train again"
            )


def message_of(names, action, stamp_ns):
    """A JointState if all actions are positions of joints, or else a Float64MultiArray."""
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64MultiArray

    if not all(name.endswith(".position") for name in names):
        return Float64MultiArray(data=action)
    message = JointState(name=[name.removesuffix(".position") for name in names], position=action)
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
    return message


def problem_with_rows(policy, group, served):
    """The reason why the rows of the node's group are not the actions at the frames of the training, or None. `served` is the
    contract of the node."""
    rate_hz = policy.contract.value["rate_hz"]
    frames_ns = [round(row * 1e9 / rate_hz) for row in range(policy.chunk)]
    actions = json.loads(served).get("actions", {})
    if group not in actions:
        return f"the node has no group {group!r}: it has {', '.join(actions) or 'none'}"
    # Velocities of these joints have other names, and a chunk does not say which it has.
    if (names := actions[group]["names"]) != policy.actions:
        return f"expected the group {group!r} to take {', '.join(policy.actions)}, found {', '.join(names)}"
    offsets_ns = actions[group]["offsets_ns"]
    # A step in milliseconds has few digits. Over a chunk that is some nanoseconds.
    if len(offsets_ns) < len(frames_ns) or any(
        abs(offset - frame) > 1000 for offset, frame in zip(offsets_ns, frames_ns)
    ):
        return (
            f"expected rows of the group {group!r} at the frames of the training, {frames_ns[:3]} ... ns, "
            f"{len(frames_ns)} or more (step_ms: {1e3 / rate_hz:.6f}), found {offsets_ns[:3]} ... ns, {len(offsets_ns)}"
        )
    return None


def joints_of(policy):
    """The joints of the actions. Raises ValueError if chunks of this policy are no positions of joints at their ticks."""
    if policy.has_history:
        raise ValueError("--chunks: expected a policy of one observation, found one with a history")
    if others := [name for name in policy.actions if not name.endswith(".position")]:
        raise ValueError(f"--chunks: expected positions of joints alone, found {others[0]}")
    return [name.removesuffix(".position") for name in policy.actions]


def serve(policy, options, ended):
    """Publishes actions until `ended` is set."""
    import rclpy

    from robocache.ros import ActionPublisher, PipelineNode, TensorSubscriber, keep_large_buffers

    keep_large_buffers()
    node = rclpy.create_node("lerobot_policy")
    if options.chunks:
        chunks = ActionPublisher(node, options.chunks, joints_of(policy))
    else:
        kind = type(message_of(policy.actions, [0.0] * len(policy.actions), 0))
        publisher = node.create_publisher(kind, options.out, 10)

    def on_info(info):
        if options.chunks and (problem := problem_with_rows(policy, options.chunks, info.contract)):
            raise ValueError(problem)

    def on_tensor(tensor):
        if invalid := policy.invalid(tensor):
            words = f"not acting: not valid: {', '.join(invalid)}"
            node.get_logger().warning(words, throttle_duration_sec=1.0)
            return
        if options.chunks:
            chunks.send(tensor, policy.answer(tensor))
            return
        publisher.publish(message_of(policy.actions, policy.act(tensor), tensor.stamp_ns))

    if options.config:
        source = PipelineNode(node, options.config, on_tensor, contract=policy.contract)
    else:
        source = TensorSubscriber(
            node, on_tensor, options.topic, on_info=on_info, contract=policy.contract
        )
    while not ended.is_set():
        rclpy.spin_once(node, timeout_sec=0.1)
    source.destroy()
    node.destroy_node()


def main():
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from rclpy.utilities import remove_ros_args

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "checkpoint", help="folder of the policy, with the dataset's robocache.json"
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", help="configuration: the tensors are made in this process")
    source.add_argument("--topic", help="the output of a fusion_node")
    parser.add_argument("--out", default="policy/action", help="topic of the actions")
    parser.add_argument("--chunks", metavar="GROUP", help="send chunks to the node's group")
    parser.add_argument("--task", default="", help="what a policy that reads it must do")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    if options.chunks and not options.topic:
        parser.error(
            "--chunks: expected --topic: the node that serves the tensors takes the chunks"
        )
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        policy = Policy(options.checkpoint, options.task)
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        serve(policy, options, ended)
    except (ValueError, OSError) as error:  # also a ContractError
        sys.exit(str(error))
    rclpy.shutdown()


if __name__ == "__main__":
    main()
