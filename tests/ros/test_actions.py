"""Chunks of actions become commands. The clients are real: rclpy sends chunks, and receives commands and statuses."""

import itertools
import os
import shutil
import signal
from types import SimpleNamespace

import configuration
import numpy as np
import pytest
import recordings
from fusion import (
    MS,
    RELIABLE,
    T0,
    nanoseconds,
    stamped,
    start_fusion,
    streams,
    write_config,
)
from managed import ACTIVATE, CONFIGURE, DEACTIVATE, start_managed
from rclpy.serialization import deserialize_message
from robocache_ros.msg import ActionChunk, CommandStatus
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool

import robocache
from robocache.message.tensor import FusedTensor, from_msg
from robocache.ros import ActionPublisher, TensorSubscriber
from robocache.shared import ActionWriter, TensorReader

PERIOD_NS = 10 * MS
NAMES = ["elbow", "wrist"]
GROUP = {
    "joints": NAMES,
    "rows": {"steps": 10, "step_ms": 20},
    "start_from": "joints",
    "watchdog_ms": 300,
    "blend_ms": 0,
    "on_stall": "hold",
    "on_end": "hold",
    "limits": "none",
    "output": {"topic": "/commands", "type": "sensor_msgs/msg/JointState"},
}
#: Limits of the arm that the node moves by the system's clock.
VELOCITY, ACCELERATION = 2.0, 8.0
LIMITED = {"position": [-3, 3], "velocity": VELOCITY, "acceleration": ACCELERATION}


def config(rate_hz=100, **group):
    joints = {"type": "sensor_msgs/msg/JointState", "joints": NAMES, "max_age_ms": 100}
    return {
        "rate_hz": 100,
        "streams": streams(joints=joints),
        "commands": {"rate_hz": rate_hz, "groups": {"arm": {**GROUP, **group}}},
    }


def joints(ns, *positions):
    """The measured joints, in another order than that of the group."""
    return stamped(JointState, ns, name=NAMES[::-1], position=[float(x) for x in positions[::-1]])


class Arm:
    """A node that makes commands, and what it sends."""

    def __init__(self, ros, start, folder, config, *arguments, **options):
        self.fusion = start_fusion(ros, start, folder, config, *arguments, **options)
        self.ros, node = ros, ros.node
        self.commands, self.statuses = [], []
        node.create_subscription(JointState, "/commands", self.commands.append, RELIABLE)
        node.create_subscription(CommandStatus, "command_status", self.statuses.append, RELIABLE)
        self.chunks = node.create_publisher(ActionChunk, "action_chunk", RELIABLE)
        self.enable = node.create_client(SetBool, "/fusion_node/enable_commands")
        topic = config["commands"]["groups"]["arm"]["output"]["topic"]
        self.fusion.until(
            lambda: (
                self.enable.service_is_ready()
                and self.chunks.get_subscription_count()
                and node.count_publishers(topic)
                and node.count_publishers("command_status")
            ),
            "the node's ends of the way back",
        )
        self._sequences = itertools.count(1)

    def switch(self, on):
        """Enables or disables commands. Returns what the node answers."""
        answer = self.enable.call_async(SetBool.Request(data=on))
        self.fusion.until(answer.done, "the node's answer")
        return answer.result().success, answer.result().message

    def send(self, tensor, given, **changes):
        """Sends a chunk that answers a tensor. Returns its number."""
        rows = np.asarray(given, np.float32)
        chunk = ActionChunk(
            run=tensor.run,
            epoch=tensor.epoch,
            stamp=tensor.header.stamp,
            tick=tensor.tick,
            sequence=next(self._sequences),
            group="arm",
            names=NAMES,
            rows=len(rows),
            values=rows.ravel(),
        )
        # As a policy of another contract would.
        for name, value in changes.items():
            setattr(chunk, name, value)
        self.chunks.publish(chunk)
        return chunk.sequence

    def newest(self):
        return self.statuses[-1]

    def refused(self):
        """All refusals so far, each with its reason."""
        return {
            sequence: reason
            for status in self.statuses
            for sequence, reason in zip(status.refused_sequences, status.refused_reasons)
        }


class Stepped(Arm):
    """An arm by a clock that the test sets: every command is known."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.fusion.warm_up()
        self.now = T0 - PERIOD_NS

    def step(self, position):
        """Sends what the joints are, and serves the next tick. Returns its tensor."""
        self.now += PERIOD_NS
        self.fusion.send("/joints", joints(self.now, *position))
        self.fusion.tick(self.now)
        return self.fusion.tensors[self.fusion.tick_of(self.now)]

    def step_until(self, predicate, what, position):
        """Serves ticks until the predicate holds. Returns the instants of the ticks."""
        instants = []

        def holds():
            instants.append(self.now + PERIOD_NS)
            self.step(position)
            return self.ros.spin_for(0.1, until=predicate)

        self.fusion.until(holds, what)
        return instants

    def values(self):
        """The commands by their instants."""
        return {nanoseconds(it.header.stamp): list(it.position) for it in self.commands}


def test_a_chunk_becomes_the_commands_of_its_instants(ros, start, tmp_path):
    runs = tmp_path / "runs"
    arm = Stepped(ros, start, tmp_path, config(), "-p", f"record_to:={runs}")
    assert arm.switch(True) == (
        False,
        "group arm has no valid measured values of joints: commands begin at them. Look at `ros2 topic echo "
        "/diagnostics`, part joints",
    )
    here = [0.5, -0.25]
    tensor = arm.step(here)
    # Nobody has enabled commands.
    early = arm.send(tensor, np.zeros((10, 2)))
    arm.step_until(lambda: early in arm.refused(), "the refusal of a chunk", here)
    assert arm.refused()[early] == "disabled" and not arm.commands
    assert arm.newest().waits_for == "enabling"
    enabled, message = arm.switch(True)
    assert enabled, message
    arm.step_until(lambda: arm.newest().waits_for == "chunk", "a group that waits", here)
    assert arm.newest().stage == CommandStatus.WAITING and arm.newest().commands == 0
    tensor = arm.step(here)
    answered = nanoseconds(tensor.header.stamp)
    rows = np.stack([0.5 + 0.01 * np.arange(10), -0.25 - 0.02 * np.arange(10)], axis=1)
    sent = arm.send(tensor, rows)
    arm.step_until(lambda: arm.newest().has_chunk, "a chunk that counts", here)
    status = arm.newest()
    assert (status.sequence, status.group, status.run) == (sent, "arm", tensor.run)
    assert (status.stage, status.waits_for) == (CommandStatus.FOLLOWING, "")
    start_ns = answered + status.delay_ticks * PERIOD_NS
    # On to the last row and past it, where the last command is held.
    while arm.now < answered + 300 * MS:
        arm.step(here)
    arm.step_until(lambda: arm.newest().stage == CommandStatus.ENDED, "the end of the plan", here)
    assert arm.newest().joints == NAMES and list(arm.newest().clipped) == [0, 0]
    values = arm.values()
    assert min(values) == start_ns and values[start_ns] == here, (
        "commands begin where the joints are"
    )
    as_sent = rows.astype(np.float32).astype(float)
    for ns, command in values.items():
        at = (ns - answered) / (20 * MS)
        if ns == start_ns:
            continue
        row = min(int(at), 9)
        along, after = at - int(at), as_sent[min(row + 1, 9)]
        expected = as_sent[row] + (after - as_sent[row]) * along if at < 9 else as_sent[9]
        assert command == list(expected), (ns, command)
    # Without new chunks it stalls, and a switch off is the end.
    arm.step_until(lambda: arm.newest().stage == CommandStatus.STALLED, "a stall", here)
    assert arm.switch(False)[0]
    arm.step_until(lambda: arm.newest().stage == CommandStatus.DISABLED, "rest", here)
    count = len(arm.commands)
    for _ in range(5):
        arm.step(here)
    assert len(arm.commands) == count == arm.newest().commands
    # A replay of what the command ticks found makes the same commands.
    arm.fusion.process.stop()
    recording = recordings.folder_of(runs)
    report = recordings.verify(configuration.program(), recording)["commands"]
    assert report["chunks"] == 2 and report["equal"] >= count
    assert report["differing"] == report["unverifiable"] == 0 and report["first"] is None
    chunks = [
        it for it in recordings.messages_of(recording) if it[2] == "robocache_ros/msg/ActionChunk"
    ]
    assert [topic for _, topic, _, _ in chunks] == ["/action_chunk"] * 2
    assert deserialize_message(chunks[1][3], ActionChunk).sequence == sent
    # A replay writes the commands that came.
    again = write_config(tmp_path, config())
    recordings.replay(configuration.program(), recording, again, tmp_path / "out")
    replayed = recordings.messages_of(tmp_path / "out")
    made = [deserialize_message(it[3], JointState) for it in replayed if it[1] == "/commands"]
    assert {nanoseconds(it.header.stamp): list(it.position) for it in made} == arm.values()
    assert [it[3] for it in replayed if it[1] == "/action_chunk"] == [it[3] for it in chunks]


def test_commands_on_a_topic_that_the_node_reads_are_refused_after_remapping(start, tmp_path):
    file = write_config(tmp_path, config())
    remap = ["-r", "/commands:=/joints"]
    node = start("fusion_node", "--ros-args", "-p", f"config_file:={file}", *remap, expected_code=1)
    node.wait_for("commands.groups.arm.output.topic: expected a topic of its own")
    assert node.wait() == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": 1}, "run"),
        ({"epoch": 77}, "epoch"),
        ({"tick": 5}, "not_served"),
        ({"group": "leg"}, "group"),
        ({"names": NAMES[::-1]}, "names"),
        ({"rows": 3}, "shape"),
        ({"rows": 0, "values": []}, "no_rows"),
        ({"values": [float("nan")] * 20}, "non_finite"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused_and_told(ros, start, tmp_path, changes, reason):
    arm = Stepped(ros, start, tmp_path, config(), "-p", "commands:=enabled")
    tensor = arm.step([0, 0])
    sent = arm.send(tensor, np.zeros((10, 2)), **changes)
    arm.step_until(lambda: sent in arm.refused(), "the refusal", [0, 0])
    assert arm.refused()[sent] == reason
    assert not arm.commands and arm.newest().refused == 1
    # It is counted in the diagnostics, too.
    name = f"arm.refused.{reason}"
    arm.fusion.until(
        lambda: arm.fusion.status["loop command"][2].get(name) == "1", f"{name} in the diagnostics"
    )


def test_a_policy_moves_an_arm_and_the_end_of_the_node_is_no_jump(ros, start, tmp_path):
    limits = {"joints": dict.fromkeys(NAMES, LIMITED)}
    # Long, because this is about the end of the node alone.
    group = {"limits": limits, "watchdog_ms": 60_000, "blend_ms": 20}
    ends = {"on_stall": "decelerate", "on_end": "decelerate"}
    arm = Arm(
        ros,
        start,
        tmp_path,
        config(rate_hz=200, **group, **ends),
        "-p",
        "commands:=enabled",
        sim_time=False,
    )
    policy = ActionPublisher(ros.node, "arm", NAMES)
    moves = np.array([0.03, -0.02])

    def on_tensor(tensor):
        if tensor.segments["joints"].valid.all():
            here = arm.commands[-1].position if arm.commands else [0.0, 0.0]
            policy.send(tensor, np.asarray(here) + np.arange(10)[:, None] * moves)

    subscriber = TensorSubscriber(ros.node, on_tensor)
    timer = ros.node.create_timer(
        0.02,
        lambda: arm.fusion.send("/joints", joints(ros.node.get_clock().now().nanoseconds, 0, 0)),
    )
    period_ns = 5 * MS

    def changes():
        """By instant: the change of the command in a tick, and that of this change. What was lost on the way has none."""
        sent = {nanoseconds(it.header.stamp): np.array(it.position) for it in arm.commands}
        moved = {ns: it - sent[ns - period_ns] for ns, it in sent.items() if ns - period_ns in sent}
        pairs = [(it, moved[ns - period_ns]) for ns, it in moved.items() if ns - period_ns in moved]
        return moved, [it - before for it, before in pairs]

    arm.fusion.until(lambda: len(changes()[1]) > 200, "commands of two hundred ticks in a row")
    with pytest.raises(ValueError, match="expected \\[rows, 2\\]"):
        policy.send(None, [[1.0]])
    os.kill(arm.fusion.process.pid, signal.SIGTERM)
    arm.fusion.until(lambda: not arm.fusion.process.running, "the end of the node")
    assert arm.fusion.process.wait() == 0
    ros.node.destroy_timer(timer)
    subscriber.destroy()
    ros.spin_for(1.0)
    moved, bent = changes()
    step, bend = VELOCITY * period_ns / 1e9, ACCELERATION * (period_ns / 1e9) ** 2
    assert max(abs(it).max() for it in moved.values()) <= step + 1e-12
    assert max(abs(it).max() for it in bent) <= bend + 1e-12
    assert max(abs(it).max() for it in moved.values()) > 0.1 * step, "it did move"
    # It came to rest. The newest commands may be lost on the way.
    assert abs(moved[max(moved)]).max() <= 10 * bend
    assert policy.status is not None and policy.sequence > 10


def test_a_publisher_says_once_for_each_reason_why_chunks_are_refused(
    ros, start, tmp_path, monkeypatch
):
    arm = Stepped(ros, start, tmp_path, config())
    logged = []
    logger = SimpleNamespace(warning=logged.append)
    monkeypatch.setattr(ros.node, "get_logger", lambda: logger)
    monkeypatch.setattr("robocache.actions.ABSENT_S", 0.0)
    policy = ActionPublisher(ros.node, "arm", NAMES)
    tensor = FusedTensor(3, 3 * PERIOD_NS, "base_link", {}, np.zeros(8, np.uint8))

    def send():
        sent = policy.send(tensor, np.zeros((2, 2)))
        arm.step_until(lambda: (sent, "disabled") in policy.refused, "the refusal", HERE)

    arm.step_until(lambda: policy.status is not None, "a status", HERE)
    send()
    send()
    assert logged == [
        "a chunk of group 'arm' was refused (disabled): commands are disabled: call the service "
        "enable_commands of the node"
    ]
    # Nobody tells of a group that no configuration has, so the publisher knows it by the others.
    other = ActionPublisher(ros.node, "leg", NAMES)

    def is_said():
        other.send(tensor, np.zeros((2, 2)))
        arm.step(HERE)
        return "the node has no group 'leg': it has arm" in logged

    arm.fusion.until(is_said, "the warning of an unknown group")
    policy.destroy()
    other.destroy()


def test_commands_that_no_controller_takes_are_a_warning(ros, start, tmp_path):
    nobody = {"topic": "/nobody", "type": "sensor_msgs/msg/JointState"}
    arm = Stepped(ros, start, tmp_path, config(output=nobody), "-p", "commands:=enabled")
    said = "arm: nobody subscribes to /nobody: does the controller run?"

    def is_said():
        arm.send(arm.step(HERE), np.zeros((10, 2)))
        ros.spin_for(0.02)
        return said in arm.fusion.status["loop command"][1]

    arm.fusion.until(is_said, "the warning in the diagnostics")
    arm.fusion.process.wait_for(f"commands: {said}")


@pytest.mark.parametrize("way", ["topic", "shared memory"])
def test_relative_rows_of_a_contract_are_added_to_the_tensor_that_was_answered(
    ros, start, tmp_path, service, way
):
    trained = config(relative=["elbow"], operators=[{"scale": 2, "of": ["elbow"]}])
    normalize = {"mode": "mean_std", "mean": [0.25, 0.125], "std": [0.5, 0.25]}
    trained["streams"]["joints"]["operators"] = [{"normalize": normalize}]
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    robocache.contract.of(trained).save(checkpoint)
    # What the policy answers is written nowhere but in its contract.
    group = {key: value for key, value in GROUP.items() if key != "rows"}
    group["contract"] = "checkpoint/"
    served = {**trained, "commands": {"rate_hz": 100, "groups": {"arm": group}}}
    given = ("-p", "commands:=enabled", "-p", f"contract:={checkpoint}")
    runs = tmp_path / "runs"
    given = (*given, "-p", f"shared_output:={service}", "-p", f"record_to:={runs}")
    arm = Stepped(ros, start, tmp_path, served, *given)
    if way == "topic":
        policy = ActionPublisher(ros.node, "arm", contract=checkpoint)
        arm.fusion.until(policy._publisher.get_subscription_count, "the node's end of the topic")
        tensor = from_msg(arm.step(HERE))
    else:
        policy = ActionWriter(service, "arm", contract=checkpoint)
        reader = TensorReader(service, contract=checkpoint)
        tensor = None
        while tensor is None or tensor.stamp_ns != arm.now:
            arm.step(HERE)
            tensor = reader.wait(1.0)
    rows = np.stack([0.02 * np.arange(10), -0.25 - 0.02 * np.arange(10)], axis=1)
    with pytest.raises(ValueError, match="expected \\[1 to 10, 2\\]"):
        policy.send(tensor, np.zeros((11, 2)))
    # Nothing is sent before the node has said its contract.
    arm.fusion.until(lambda: policy.send(tensor, rows), "a chunk that is sent")
    # The arm has gone on since: rows are added to what the policy saw, and never again.
    there = [0.75, -0.25]
    arm.step_until(lambda: arm.newest().has_chunk, "a chunk that counts", there)
    while arm.now < tensor.stamp_ns + 160 * MS:
        arm.step(there)
    arm.fusion.until(lambda: max(arm.values()) >= arm.now, "all commands")
    expected = rows.astype(np.float32).astype(float)
    expected[:, 0] = expected[:, 0] / 2 + HERE[0]
    _, *followed = sorted(arm.values().items())
    assert len(followed) > 5
    for ns, command in followed:
        at = (ns - tensor.stamp_ns) / (20 * MS)
        row, after = expected[int(at)], expected[int(at) + 1]
        assert command == list(row + (after - row) * (at - int(at))), (ns, command)
    # The recording has the contract.
    arm.fusion.process.stop()
    shutil.rmtree(checkpoint)
    report = recordings.verify(configuration.program(), recordings.folder_of(runs))["commands"]
    assert report["equal"] > len(followed) and report["differing"] == 0


@pytest.mark.parametrize("way", ["topic", "shared memory"])
def test_a_policy_of_another_contract_sends_nothing(ros, start, tmp_path, service, way):
    arm = Stepped(ros, start, tmp_path, config(), "-p", f"shared_output:={service}")
    slower = config(rows={"steps": 10, "step_ms": 50})
    # The same shape, and another order.
    swapped = config()
    swapped["streams"]["joints"]["joints"] = NAMES[::-1]
    for trained, key in ((slower, "actions.arm.offsets_ns"), (swapped, "joints.channels")):
        contract = robocache.contract.of(trained)
        if way == "topic":
            policy = ActionPublisher(ros.node, "arm", contract=contract)
        else:
            policy = ActionWriter(service, "arm", contract=contract)
        reader = TensorReader(service)
        tensor = None
        while tensor is None or tensor.stamp_ns != arm.now:
            arm.step(HERE)
            tensor = reader.wait(1.0)
        refused = []

        def is_refused(policy=policy, tensor=tensor, refused=refused):
            try:
                assert policy.send(tensor, np.zeros((10, 2))) == 0
            except robocache.ContractError as error:
                refused.append(error)
            return refused

        arm.fusion.until(is_refused, "the refusal")
        assert refused[0].differences[0].startswith(f"{key}: the policy was trained with")
        with pytest.raises(robocache.ContractError):
            policy.send(tensor, np.zeros((10, 2)))
        reader.close()
        (policy.destroy if way == "topic" else policy.close)()
    arm.step_until(lambda: arm.statuses, "a status", HERE)
    assert arm.newest().chunks == 0 and not arm.refused()


class Acting:
    """A policy without ROS that answers the tensors of an arm."""

    def __init__(self, arm, policy, service, group="arm"):
        self._arm = arm
        self.process = policy(service, str(T0), group, *NAMES, program="acting_process.py")

    def step(self):
        """Serves a tick, and waits for its answer. Returns what the policy says."""
        tick = self._arm.step(HERE).tick
        said = self.process.next()
        # A later policy also gets the tensor before.
        while said["tick"] != tick:
            said = self.process.next()
        return said


HERE = [0.5, -0.25]


def test_a_policy_without_ros_commands(ros, start, tmp_path, service, policy):
    given = ("-p", "commands:=enabled", "-p", f"shared_output:={service}")
    arm = Stepped(ros, start, tmp_path, config(), *given)
    acting = Acting(arm, policy, service)
    said = [acting.step() for _ in range(30)]
    # What was sent before a command tick counts at this tick.
    status = said[-1]["status"]
    assert status["stage"] == "following" and status["refused"] == []
    assert status["sequence"] >= said[-1]["sent"] - 2 and status["delay_ticks"] <= 1
    assert status["clipped"] == dict.fromkeys(NAMES, 0)
    arm.step_until(lambda: len(arm.commands) >= 29, "commands", HERE)
    values = arm.values()
    (first, start_from), *followed = sorted(values.items())
    assert start_from == HERE
    for ns, command in followed:
        np.testing.assert_allclose(command, (ns - T0) / 1e10, atol=1e-6, err_msg=str(ns - first))
    # The topic has the same status, and another writer is refused on it.
    assert arm.newest().has_chunk and arm.newest().writer
    sent = arm.send(arm.step(HERE), np.zeros((10, 2)))
    arm.step_until(lambda: sent in arm.refused(), "the refusal", HERE)
    assert arm.refused()[sent] == "writer"


def test_a_policy_without_ros_is_warned_once_for_each_reason(ros, start, tmp_path, service, policy):
    arm = Stepped(ros, start, tmp_path, config(), "-p", f"shared_output:={service}")
    acting = Acting(arm, policy, service)
    said = [acting.step() for _ in range(30)]
    warned = [words for one in said for words in one["warned"]]
    assert len(warned) == 1 and "was refused (disabled)" in warned[0], warned
    assert said[-1]["status"]["waits_for"] == "enabling"
    acting.process.kill()
    # A group that no configuration has.
    leg = Acting(arm, policy, service, group="leg")

    def is_said():
        return any("has no group 'leg': it has arm" in words for words in leg.step()["warned"])

    arm.fusion.until(is_said, "the warning of an unknown group")


def test_a_policy_without_ros_that_is_killed_gives_its_group_to_the_next(
    ros, start, tmp_path, service, policy
):
    given = ("-p", "commands:=enabled", "-p", f"shared_output:={service}")
    arm = Stepped(ros, start, tmp_path, config(watchdog_ms=60), *given)
    for _ in range(5):  # more than may write at once
        acting = Acting(arm, policy, service)
        # The group is of the one before until the watchdog, 6 ticks.
        for _ in range(30):
            status = acting.step()["status"]
            if status and status["sequence"] is not None:
                break
        assert status["stage"] == "following", status
        assert {reason for _, reason in status["refused"]} <= {"writer"}
        acting.process.kill()
    arm.step_until(lambda: arm.newest().stage == CommandStatus.STALLED, "a stall", HERE)


def test_a_policy_without_ros_goes_on_with_each_activation(ros, start, tmp_path, service, policy):
    file = write_config(tmp_path, config())
    given = {"config_file": file, "commands": "enabled", "shared_output": service}
    node = start_managed(ros, start, **given)
    node.must(CONFIGURE)
    process = policy(service, str(T0), "arm", *NAMES, program="acting_process.py")
    measured = ros.node.create_publisher(JointState, "/joints", RELIABLE)
    clock = ros.node.get_clock()
    timer = ros.node.create_timer(
        0.02, lambda: measured.publish(joints(clock.now().nanoseconds, *HERE))
    )
    runs = set()

    def follows():
        said = process.newest()
        status = said and said["status"]
        counts = status and status["sequence"] is not None and status["run"] not in runs
        return counts and status["stage"] == "following" and status

    for _ in range(3):
        node.must(ACTIVATE)
        status = []
        node.until(lambda: status.append(follows()) or status[-1], "commands of the policy")
        runs.add(status[-1]["run"])
        # They are of before the activation, or came while the node was deactivated.
        assert {reason for _, reason in status[-1]["refused"]} <= {"run", "disabled"}
        node.must(DEACTIVATE)
    ros.node.destroy_timer(timer)
