"""What serves a policy refuses to serve something else than the policy was trained with."""

import functools
import itertools
import json
import os

import pytest
import rclpy
import waiting
from fusion import MS, T0, WRENCH, start_fusion, wrench, write_config
from middlewares import numbers_only
from rclpy.executors import SingleThreadedExecutor
from robocache_ros.msg import FusedTensor, FusedTensorInfo

import robocache

pytest.importorskip("robocache._native", reason="the compiled part: scripts/develop.sh")

from robocache.ros import INFO_QOS, TENSOR_QOS, PipelineNode, TensorSubscriber  # noqa: E402
from robocache.shared import TensorReader  # noqa: E402

CONFIG = {"rate_hz": 100, "streams": {"wrench": WRENCH}}
OTHER = {"rate_hz": 100, "streams": {"wrench": {**WRENCH, "lag_ms": 30}}}
LAG = "wrench.targets_ns: the policy was trained with [-30] ms, and [0] ms would be served"


@pytest.fixture
def checkpoints(tmp_path):
    """Folders of two policies: one was trained with CONFIG, the other with a lag of 30 ms."""
    for name, config in (("same", CONFIG), ("other", OTHER)):
        (tmp_path / name).mkdir()
        robocache.contract.save(tmp_path / name, config)
    return tmp_path


def test_the_node_refuses_before_the_first_tick(start, checkpoints):
    config = write_config(checkpoints, CONFIG)
    given = ["-p", f"config_file:={config}", "-p", f"contract:={checkpoints / 'other'}"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    node.wait()
    assert f"parameter contract: {checkpoints / 'other'}: the policy would not be" in node.output
    assert LAG in node.output and "on the cpu backend" not in node.output


def test_another_validity_is_a_warning_of_the_node(ros, start, checkpoints):
    older = {"rate_hz": 100, "streams": {"wrench": {**WRENCH, "max_age_ms": 49}}}
    given = ["-p", f"contract:={checkpoints / 'same'}"]
    fusion = start_fusion(ros, start, checkpoints, older, *given).warm_up()
    age = WRENCH["max_age_ms"]
    sentence = f"wrench.max_age_ns: the policy was trained with {age} ms, and 49 ms would be served"
    assert f"contract, validity: {sentence}" in fusion.process.output


def test_the_node_says_that_there_is_no_contract(start, checkpoints):
    config = write_config(checkpoints, CONFIG)
    given = ["-p", f"config_file:={config}", "-p", f"contract:={checkpoints / 'none'}"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    node.wait()
    assert "parameter contract: " in node.output and "expected a contract" in node.output


def test_the_rate_of_the_parameter_counts(start, checkpoints):
    config = write_config(checkpoints, CONFIG)
    given = ["-p", f"config_file:={config}", "-p", f"contract:={checkpoints / 'same'}"]
    node = start("fusion_node", "--ros-args", *given, "-p", "rate_hz:=50.0", expected_code=1)
    node.wait()
    assert "rate_hz: the policy was trained with 100, and 50 would be served" in node.output


def test_who_receives_by_topic_is_served_only_what_was_trained(ros, start, checkpoints):
    given = ["-p", f"contract:={checkpoints / 'same'}"]
    fusion = start_fusion(ros, start, checkpoints, {**CONFIG}, *given).warm_up()
    digest = robocache.contract.of(CONFIG).digest
    assert f"the contract {digest} of" in fusion.process.output
    tensors, refused = [], []
    served = TensorSubscriber(
        ros.node, tensors.append, topic="/fused_tensor", contract=checkpoints / "same"
    )
    # On a node of its own: its callback raises.
    client = rclpy.create_node("refusing", context=ros.context)
    executor = SingleThreadedExecutor(context=ros.context)
    executor.add_node(client)
    other = TensorSubscriber(
        client, refused.append, topic="/fused_tensor", contract=checkpoints / "other"
    )
    with pytest.raises(robocache.ContractError, match="would not be served") as raised:
        spin_until(executor, lambda: False, "the refusal")
    assert raised.value.differences == other.differences == [LAG]
    ticks = itertools.count(T0, 10 * MS)

    def both_have_received():
        ns = next(ticks)
        fusion.send("wrench", wrench(ns, 1, 0, 0))
        fusion.tick(ns)
        executor.spin_once(timeout_sec=0.1)
        return min(len(tensors), other.received) > 2

    fusion.until(both_have_received, "tensors of both")
    assert served.differences == [] and not refused and other.unchecked == other.received
    executor.shutdown()
    client.destroy_node()


def spin_until(executor, predicate, what):
    """Handles messages until the predicate holds, or until a callback raises."""
    wait = waiting.Wait(what)
    while not predicate():
        wait.check()
        executor.spin_once(timeout_sec=min(wait.left, 0.05))


@pytest.fixture
def client(ros):
    """A node whose callbacks may raise, and its `until(predicate, what)`."""
    node = rclpy.create_node("checking", context=ros.context)
    executor = SingleThreadedExecutor(context=ros.context)
    executor.add_node(node)
    yield node, functools.partial(spin_until, executor)
    executor.shutdown()
    node.destroy_node()


@numbers_only
def test_a_node_that_starts_again_with_another_configuration_is_refused(start, client, checkpoints):
    def node_of(config):
        given = ["-p", f"config_file:={write_config(checkpoints, config)}"]
        return start("fusion_node", "--ros-args", *given)

    node, until = client
    tensors = []
    served = TensorSubscriber(
        node, tensors.append, topic="/fused_tensor", contract=checkpoints / "same"
    )
    process = node_of(CONFIG)
    # So many that the numbers of the next node are lower, because that one is slower.
    until(lambda: len(tensors) > 300, "tensors")
    process.stop()
    process = node_of({**OTHER, "rate_hz": 10})
    refused = r"trained with \[0\] ms, and \[-30\] ms would be served"
    with pytest.raises(robocache.ContractError, match=refused):
        until(lambda: False, "the refusal")
    unchecked = served.unchecked
    until(lambda: served.unchecked > unchecked + 10, "refused tensors")
    before = len(tensors)
    process.stop()
    node_of(CONFIG)
    until(lambda: len(tensors) > before, "tensors")
    assert served.differences == []
    # None is of the node that was refused.
    assert {tensor.stamp_ns - tensor["wrench"].target_ns[0] for tensor in tensors} == {0}


@numbers_only
def test_tensors_of_a_node_that_started_again_wait_for_its_info(ros, client, checkpoints):
    node, until = client
    tensors = []
    served = TensorSubscriber(node, tensors.append, topic="/again", contract=checkpoints / "same")
    info = FusedTensorInfo(contract=robocache.contract.of(CONFIG).json)

    def start_again():
        publisher = ros.node.create_publisher(FusedTensor, "/again", TENSOR_QOS)
        until(publisher.get_subscription_count, "a match")
        return publisher

    def send(publisher, times=1):
        for _ in range(times):
            received = served.received
            publisher.publish(FusedTensor())
            until(lambda: served.received > received, "the tensor")

    def tell():
        told = []
        served._on_info = told.append
        infos.publish(info)
        until(lambda: told, "the info")

    infos = ros.node.create_publisher(FusedTensorInfo, "/again/info", INFO_QOS)
    publisher = start_again()
    send(publisher)
    assert (len(tensors), served.unchecked) == (0, 1)
    tell()
    send(publisher, 5)
    assert (len(tensors), served.unchecked) == (5, 1)
    # Its tensors come before its info.
    ros.node.destroy_publisher(publisher)
    publisher = start_again()
    send(publisher, 2)
    assert (len(tensors), served.unchecked) == (5, 3)
    tell()
    send(publisher, 2)
    assert (len(tensors), served.unchecked) == (7, 3)
    # Its info comes before its tensors.
    ros.node.destroy_publisher(publisher)
    tell()
    send(start_again(), 2)
    assert (len(tensors), served.unchecked) == (9, 3)


def taken(reader):
    """The next tensor of a reader of shared memory."""
    return waiting.until(lambda: reader.wait(1.0), "a tensor in shared memory", nap=0)


def test_who_reads_shared_memory_is_served_only_what_was_trained(ros, start, checkpoints):
    service = f"robocache_test/{os.getpid()}/contract"
    given = ["-p", f"shared_output:={service}"]
    fusion = start_fusion(ros, start, checkpoints, {**CONFIG}, *given, sim_time=False)
    fusion.until(lambda: fusion.ticks, "a tensor")
    with TensorReader(service, contract=checkpoints / "same") as reader:
        assert taken(reader)["wrench"].array.shape == (1, 6)
        assert taken(reader) is not None
    with TensorReader(service, contract=checkpoints / "other") as reader:
        with pytest.raises(robocache.ContractError) as raised:
            taken(reader)
        assert raised.value.differences == [LAG] and service in str(raised.value)


def test_a_pipeline_in_the_process_refuses(ros, checkpoints):
    before = ros.node.count_subscribers("/wrench")
    with pytest.raises(robocache.ContractError) as raised:
        PipelineNode(ros.node, CONFIG, print, contract=checkpoints / "other")
    assert raised.value.differences == [LAG]
    assert ros.node.count_subscribers("/wrench") == before
    pipeline = PipelineNode(ros.node, CONFIG, print, contract=checkpoints / "same")
    assert pipeline.contract() == robocache.contract.of(CONFIG)
    pipeline.destroy()


def test_a_pipeline_in_the_process_has_no_actions_to_compare(ros):
    joints = {
        "type": "sensor_msgs/msg/JointState",
        "topic": "/joints",
        "joints": ["a"],
        "max_age_ms": 50,
    }
    group = {
        "joints": ["a"],
        "rows": {"steps": 2, "step_ms": 20},
        "start_from": "joints",
        "watchdog_ms": 500,
        "limits": "none",
        "on_stall": "hold",
        "on_end": "hold",
        "output": {"topic": "/commands", "type": "sensor_msgs/msg/JointState"},
    }

    def config(**rows):
        commands = {"rate_hz": 250, "groups": {"arm": {**group, "rows": {"steps": 2, **rows}}}}
        return {"rate_hz": 100, "streams": {"joints": joints}, "commands": commands}

    trained = robocache.contract.of(config(step_ms=20))
    assert trained.differences(robocache.contract.of(config(step_ms=25)))
    # It makes no commands: another program does.
    pipeline = PipelineNode(ros.node, config(step_ms=25), print, contract=trained)
    assert pipeline.contract().differences(trained) == []
    pipeline.destroy()


def test_what_the_node_says_is_what_the_command_prints(ros, start, install, checkpoints):
    fusion = start_fusion(ros, start, checkpoints, {**CONFIG})
    got = []
    ros.node.create_subscription(FusedTensorInfo, "/fused_tensor/info", got.append, INFO_QOS)
    fusion.until(lambda: got, "the info")
    program = install / "lib" / "robocache_ros" / "robocache"
    command = [program, "check", checkpoints / "config.yaml", "--json"]
    said = json.loads(waiting.run(command, check=True).stdout)
    assert json.loads(got[0].contract) == said["contract"]
