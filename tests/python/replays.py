"""Runs of the command `robocache replay`, and what it wrote, read by independent readers."""

import json
import signal
import tempfile
import warnings

import configuration
import waiting
import xarray
from held import Held, listens, started
from mcap.reader import make_reader
from mcap_ros2.reader import read_ros2_messages

#: What the command says at the first interrupt.
STOPPING = "stopping; once more to stop at once\n"


def command_of(config, out, *bags, options=()):
    return [configuration.program(), "replay", *bags, "--config", config, "--out", out, *options]


def replay(config, out, *bags, expect=0, options=(), **kwargs):
    """Runs the command; returns what it says of each episode, as (outcome, summary)."""
    command = command_of(config, out, *bags, options=["--json", *options])
    done = waiting.run(command, **kwargs)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    if not done.stdout:
        return done.stderr
    return [next(iter(outcome.items())) for outcome in json.loads(done.stdout)]


def tensors(path):
    """The tensors of a result, in their order."""
    messages = read_ros2_messages(str(path), topics=["/fused_tensor"])
    return [message.ros_msg for message in messages]


def raw(path):
    """All messages of a result: topic, time, bytes."""
    with path.open("rb") as file:
        messages = make_reader(file).iter_messages()
        return [(channel.topic, message.log_time, message.data) for _, channel, message in messages]


def stamp_of(message):
    return message.header.stamp.sec * 10**9 + message.header.stamp.nanosec


def run(config, out, *bags, options=(), **kwargs):
    """A run that ends with 1: what it says of each episode, and on stderr."""
    done = waiting.run(command_of(config, out, *bags, options=["--json", *options]), **kwargs)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return [next(iter(outcome.items())) for outcome in json.loads(done.stdout)], done.stderr


def interrupted(config, out, *bags, options=()):
    """A run that gets SIGINT when it opens the second bag: its exit code, and what it says on stderr.

    The run has noted the signal before it reads that bag. So it begins the episode and gives it up.
    """
    second = Held(bags[1] / "metadata.yaml")
    command = command_of(config, out, *bags, options=["--jobs", 1, *options])
    with tempfile.TemporaryFile("w+") as stderr, started(command, stderr=stderr) as process:

        def said():
            stderr.seek(0)
            return stderr.read()

        second.wait(process)
        waiting.until(lambda: listens(process, signal.SIGINT), "the run listens for interrupts")
        process.send_signal(signal.SIGINT)
        waiting.until(lambda: said() == STOPPING, "the run says that it stops", detail=said)
        second.give()
        code = waiting.exit_code(process, "the interrupted run", detail=said)
        return code, said().removeprefix(STOPPING)


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def opened(path, group):
    """A group by xarray, which must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xarray.open_zarr(path, group=group).load()
