"""A policy without ROS: makes one command from each tensor in shared memory, but none without good data.

    python3 examples/policy_without_ros.py robot/fused_tensor

It needs the robocache wheel and NumPy, in any Python environment. The node runs with
`shared_output:=robot/fused_tensor`. Replace `act` by a network, and `send` by the way to your robot.
"""

import argparse
import sys

import numpy as np

from robocache.shared import TensorReader


def problem_with(tensor, inputs, max_age_ns):
    """The reason why the policy must not act on this tensor, or None."""
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
    return None


def act(tensor, name):
    """In place of a network: one number per channel, which pulls it gently to zero."""
    return -0.5 * tensor.segments[name].float32()[-1].astype(np.float64)


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
    try:
        while acted + refused != arguments.ticks:
            # The reader waits without a word if the node is not there, ends or holds its ticks back.
            tensor = reader.wait(timeout_s=1.0)
            if tensor is None:
                print(f"not acting: no tensor of {arguments.service!r} for 1 s", file=sys.stderr)
                continue
            problem = problem_with(tensor, arguments.inputs, arguments.max_age_ms * 1e6)
            if problem is None:
                acted += 1
                send(act(tensor, arguments.inputs[0]))
            else:
                refused += 1
                print(f"not acting: {problem}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    print(f"acted on {acted} tensors, refused {refused}, missed {reader.missed}")


if __name__ == "__main__":
    main()
