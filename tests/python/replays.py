"""Runs of the command `robocache replay`, and what it wrote, read by independent readers."""

import json
import subprocess
import warnings

import configuration
import xarray
from mcap.reader import make_reader
from mcap_ros2.reader import read_ros2_messages


def replay(config, out, *bags, expect=0, options=(), **kwargs):
    """Runs the command; returns what it says of each episode, as (outcome, summary)."""
    command = [configuration.program(), "replay", *bags, "--config", config, "--out", out, "--json"]
    command = [str(word) for word in [*command, *options]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)
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
    command = [configuration.program(), "replay", *bags, "--config", config, "--out", out, "--json"]
    command = [str(word) for word in [*command, *options]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return [next(iter(outcome.items())) for outcome in json.loads(done.stdout)], done.stderr


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def opened(path, group):
    """A group by xarray, which must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xarray.open_zarr(path, group=group).load()
