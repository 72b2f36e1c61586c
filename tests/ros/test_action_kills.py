"""Commands when a policy or the node is killed or suspended, in real time. A command that moves is one of a live plan."""

import os
import re
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import waiting
from fusion import MS, nanoseconds
from robocache_ros.msg import CommandStatus
from test_actions import HERE, NAMES, Arm, config, joints

from robocache.ros import ActionPublisher, TensorSubscriber

pytestmark = pytest.mark.slow("kills")
PERIOD_NS = 10 * MS
WATCHDOG_MS = 300
#: Ten rows of 1.8 s: without a watchdog, commands would move for so long after the last chunk.
ROWS = {"rows": {"steps": 10, "step_ms": 200}, "watchdog_ms": WATCHDOG_MS}


class Measured:
    """Sends what the joints are, again and again: they stay where they are."""

    def __init__(self, arm):
        self._node = arm.ros.node
        clock = self._node.get_clock()

        def send():
            arm.fusion.send("/joints", joints(clock.now().nanoseconds, *HERE))

        self._timer = self._node.create_timer(0.02, send)

    def end(self):
        self._node.destroy_timer(self._timer)


class Policy:
    """A policy of rclpy: it answers each tensor with a motion that goes on."""

    def __init__(self, ros):
        self._publisher = ActionPublisher(ros.node, "arm", NAMES)
        self._subscriber = TensorSubscriber(ros.node, self._answer)

    def _answer(self, tensor):
        if tensor.segments["joints"].valid.all():
            # At an instant, each joint is at the same value whatever chunk says it.
            first = tensor.stamp_ns % 10**12 / 1e11
            rows = [[first + 0.002 * row] * len(NAMES) for row in range(10)]
            self._publisher.send(tensor, rows)

    def end(self):
        self._subscriber.destroy()


def instants(arm):
    """The instants of all commands so far."""
    return [nanoseconds(command.header.stamp) for command in arm.commands]


def await_commands(arm, count, after_ns=0):
    """Waits for so many commands of instants after the given one."""
    arm.fusion.until(
        lambda: sum(ns > after_ns for ns in instants(arm)) >= count,
        f"{count} commands",
    )


def enable(arm):
    """Enables commands, as soon as the joints are valid."""
    arm.fusion.until(lambda: arm.switch(True)[0], "commands that are enabled")


def suspend(pid):
    """Suspends a process. Returns an instant at which it stands still [ns]."""
    os.kill(pid, signal.SIGSTOP)

    def stands_still():
        # Each thread of its own.
        states = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
        return all(re.search(r"State:\s+T", state) for state in states)

    waiting.until(stands_still, "the process stands still")
    return time.time_ns()


@contextmanager
def moving(ros, start, folder, expected_code=0, **rows):
    """An arm that a policy of rclpy moves."""
    arm = Arm(ros, start, folder, config(**rows), sim_time=False, expected_code=expected_code)
    measured, policy = Measured(arm), Policy(ros)
    enable(arm)
    await_commands(arm, 50)
    yield arm
    policy.end()
    measured.end()


def stand_still(arm, seconds):
    """Lets the node stand still. Returns an instant at which it does, and one after it goes on [ns]."""
    stopped_ns = suspend(arm.fusion.process.pid)
    time.sleep(seconds)
    resumed_ns = time.time_ns()
    os.kill(arm.fusion.process.pid, signal.SIGCONT)
    return stopped_ns, resumed_ns


def await_disabled(arm, count):
    """Waits for so many more chunks that are refused because commands are disabled."""

    def refused():
        return list(arm.refused().values()).count("disabled")

    expected = refused() + count
    arm.fusion.until(lambda: refused() >= expected, "chunks that are refused")
    assert arm.newest().stage == CommandStatus.DISABLED


def test_commands_end_with_a_node_that_is_killed_and_none_come_before_enabling(
    ros, start, tmp_path
):
    with moving(ros, start, tmp_path, expected_code=None) as arm:
        os.kill(arm.fusion.process.pid, signal.SIGKILL)
        arm.fusion.process.wait()
        arm.fusion.process.is_stopped = True
        killed_ns = time.time_ns()
        again = Arm(ros, start, tmp_path, config(), sim_time=False)
        measured = Measured(again)
        # The new node takes the chunks of the policy, and refuses each.
        await_disabled(again, 50)
        assert {status.stage for status in again.statuses} == {CommandStatus.DISABLED}
        assert max(instants(arm)) <= killed_ns and not again.commands
        enabled_ns = time.time_ns()
        enable(again)
        await_commands(again, 50)
        assert min(instants(again)) > enabled_ns - PERIOD_NS
        assert list(again.commands[0].position) == HERE, "they begin where the joints are"
        measured.end()


def test_a_node_that_was_suspended_sends_no_stale_command_and_waits_to_be_enabled(
    ros, start, tmp_path
):
    with moving(ros, start, tmp_path, **ROWS) as arm:
        # Longer than what the node takes for a standstill of its process.
        stopped_ns, resumed_ns = stand_still(arm, 2.0)
        await_disabled(arm, 50)
        assert max(instants(arm)) <= stopped_ns, (
            "none for an instant of the standstill, and none after it"
        )
        enable(arm)
        await_commands(arm, 50, after_ns=resumed_ns)
        # One for each instant: no burst.
        after = [ns for ns in instants(arm) if ns > stopped_ns]
        assert min(after) > resumed_ns and len(set(after)) == len(after) and after == sorted(after)


def test_a_node_that_stands_still_for_a_moment_skips_the_ticks_that_are_past(ros, start, tmp_path):
    with moving(ros, start, tmp_path, **ROWS) as arm:
        # Longer than the watchdog, and shorter than a standstill of the process.
        stopped_ns, resumed_ns = stand_still(arm, 0.5)
        arm.fusion.until(
            lambda: (
                sum(ns > resumed_ns for ns in instants(arm)) >= 50
                # The machine has paused as well, and made a standstill of it.
                or arm.newest().stage == CommandStatus.DISABLED
            ),
            "commands of later instants",
        )
        past = [ns for ns in instants(arm) if stopped_ns < ns < resumed_ns - PERIOD_NS]
        assert not past, "a command is for an instant that was past when it was sent"


def movements_end(arm):
    """The instant of the newest command that differs from the one before it."""
    pairs = zip(arm.commands, arm.commands[1:])
    moved = [it for before, it in pairs if before.position != it.position]
    return nanoseconds(moved[-1].header.stamp) if moved else 0


def await_movement(arm, acting, after_ns):
    """Waits until commands of instants after the given one move. Reads what the policy says, so that it goes on."""

    def moves():
        acting.newest()
        return movements_end(arm) > after_ns

    arm.fusion.until(moves, "commands that move")


def newest_counted_ns(arm):
    """The tick from which the newest chunk that counts has counted, as the first status with it says."""
    newest = max(status.chunks for status in arm.statuses)
    return min(nanoseconds(it.stamp) for it in arm.statuses if it.chunks == newest)


@pytest.mark.parametrize("signum", [signal.SIGSTOP, signal.SIGKILL])
def test_a_policy_that_is_gone_leads_to_the_end_within_the_watchdog(
    ros, start, tmp_path, service, policy, signum
):
    given = ("-p", "commands:=enabled", "-p", f"shared_output:={service}")
    arm = Arm(ros, start, tmp_path, config(**ROWS), *given, sim_time=False)
    measured = Measured(arm)

    def begin():
        return policy(service, str(time.time_ns()), "arm", *NAMES, program="acting_process.py")

    acting = begin()
    await_movement(arm, acting, 0)
    for _ in range(3):
        gone_ns = suspend(acting.process.pid) if signum == signal.SIGSTOP else None
        if signum == signal.SIGKILL:
            acting.kill()
            gone_ns = time.time_ns()
        arm.fusion.until(
            lambda: arm.newest().stage == CommandStatus.STALLED
            and nanoseconds(arm.newest().stamp) > gone_ns,  # noqa: B023
            "a stall",
        )
        stalled_ns = nanoseconds(arm.newest().stamp)
        arm.fusion.until(
            lambda: nanoseconds(arm.newest().stamp) > stalled_ns + 500 * MS,  # noqa: B023
            "half a second of the stall",
        )
        # What moves after the watchdog's time is no command of the plan. (If the machine pauses for longer than that, then
        # there are no commands at all.)
        assert movements_end(arm) <= newest_counted_ns(arm) + WATCHDOG_MS * MS
        if signum == signal.SIGSTOP:
            os.kill(acting.process.pid, signal.SIGCONT)
        else:
            acting = begin()
        await_movement(arm, acting, stalled_ns)
    measured.end()
