"""A policy is served with another configuration than it was trained with: it must refuse."""

import contextlib
import subprocess

from processes import executable


@contextlib.contextmanager
def other_node(config, lag_ms, output):
    """Runs the node with another lag than `config` has. Yields the path of the other configuration."""
    other = output / "other.yaml"
    before, after = (f"lag_ms: {value}" for value in lag_ms)
    text = config.read_text()
    assert before in text, f"expected {before!r} in {config}"
    other.write_text(text.replace(before, after))
    command = [executable("fusion_node"), "--ros-args", "-p", f"config_file:={other}"]
    with (output / "other_node.log").open("w") as log:
        with subprocess.Popen([str(word) for word in command], stdout=log, stderr=log) as node:
            try:
                yield other
            finally:
                node.terminate()


def refusal(command, timeout_s):
    """What a policy says when it refuses another lag; None if it does not refuse within this time [s]."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None
    told = [line.strip() for line in done.stderr.splitlines() if "targets_ns" in line]
    return told[-1] if done.returncode == 1 and told else None
