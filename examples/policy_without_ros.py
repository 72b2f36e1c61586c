"""A policy without ROS: makes one command from each tensor in shared memory, but none without good data.

    python3 examples/policy_without_ros.py robot/fused_tensor

It needs the robocache wheel and NumPy, in any Python environment. The node runs with
`shared_output:=robot/fused_tensor`. Replace `act` by a network, and `send` by the way to your robot.

The policy takes the positions of its first input by the names of the channels, which the node publishes. A row may also have
velocities or efforts, which are not commanded. So a change of the configuration cannot exchange joints silently.
"""

import argparse
import sys

import numpy as np

from robocache.shared import TensorReader


def positions_of(info, name):
    """The places of joint positions in a row of a segment, and its channels; both empty before the node has said them."""
    segments = info["segments"] if info else []
    channels = next((list(it["channels"]) for it in segments if it["name"] == name), [])
    return [at for at, channel in enumerate(channels) if channel.endswith(".position")], channels


def problem_with(tensor, inputs, max_age_ns, positions, channels):
    """The reason why the policy must not act on this tensor, or None."""
    if not channels:
        return "the node has not told what the channels are"
    if not positions:
        return f"expected joint positions in {inputs[0]}, found {', '.join(channels)}"
    for name in inputs:
        segment = tensor.segments.get(name)
        if segment is None:
            return f"expected a stream {name!r}, found {', '.join(tensor.segments)}"
        # Every step that the network reads must be valid. An invalid step holds a fill value, not a measurement.
        if not segment.valid.all():
            return f"{name}: {np.count_nonzero(~segment.valid)} invalid step(s)"
        age_ns = int(tensor.age_at_tick_ns(name)[-1])
        if age_ns > max_age_ns:
            return f"{name}: measured {age_ns / 1e6:.0f} ms before the tick"
    shape = list(tensor.segments[inputs[0]].shape)
    if shape[1:] != [len(channels)]:
        return f"expected {len(channels)} channels in {inputs[0]}, found a segment of {shape}"
    return None


def act(tensor, name, positions):
    """In place of a network: one number per joint, which pulls the joint gently to zero."""
    return -0.5 * tensor.segments[name].float32()[-1, positions].astype(np.float64)


def send(command):
    """In place of the way to the robot."""
    print(np.array2string(command, precision=3, max_line_width=200), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("service", help="the node's parameter shared_output")
    parser.add_argument("--inputs", nargs="+", default=["joints"], help="streams that are needed")
    parser.add_argument("--max-age-ms", type=float, default=100.0, help="of a value at the tick")
    parser.add_argument("--contract", help="folder of the policy: refuses other tensors")
    parser.add_argument("--ticks", type=int, help="end after this many tensors")
    arguments = parser.parse_args()
    acted = refused = 0
    reader = TensorReader(arguments.service, contract=arguments.contract)
    positions, channels, run = [], [], None
    try:
        while acted + refused != arguments.ticks:
            # The reader waits without a word if the node is not there, ends or holds its ticks back.
            tensor = reader.wait(timeout_s=1.0)
            if tensor is None:
                print(f"not acting: no tensor of {arguments.service!r} for 1 s", file=sys.stderr)
                continue
            if not channels or reader.run != run:
                # A node that starts again may have another configuration.
                positions, channels = positions_of(reader.info, arguments.inputs[0])
                run = reader.run
            problem = problem_with(
                tensor, arguments.inputs, arguments.max_age_ms * 1e6, positions, channels
            )
            if problem is None:
                acted += 1
                send(act(tensor, arguments.inputs[0], positions))
            else:
                refused += 1
                print(f"not acting: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    print(f"acted on {acted} tensors, refused {refused}, missed {reader.missed}")


if __name__ == "__main__":
    main()
