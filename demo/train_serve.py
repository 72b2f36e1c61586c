"""A trained policy beside the node: it acts on each fused tensor, and keeps its actions.

    python3 demo/train_serve.py policy.pt --out served.npz

It refuses a node that serves something else than the contract beside `policy.pt` says. When it is interrupted, it writes for each tensor: the tick, its digest, whether everything was valid, and the actions.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

# The ROS of a set-up without root is in an environment of its own. It comes last, so that the packages of
# this Python are used.
sys.path.append(os.environ.get("ROBOCACHE_ROS_SITE", ""))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import numpy as np  # noqa: E402
import rclpy  # noqa: E402
import torch  # noqa: E402
import train_policy  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402

from robocache.ros import TensorSubscriber, keep_large_buffers  # noqa: E402


def batch_of(segments):
    """A batch of one window, as the policy was trained on it, from a tensor or from windows."""
    batch = {}
    for name, segment in segments.items():
        batch[name] = segment.torch()[None]
        batch[f"{name}.valid"] = torch.from_numpy(np.array(segment.valid))[None]
    return batch


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("policy")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    # One thread: the order of sums, and so the bits, must not depend on the load.
    torch.set_num_threads(1)
    policy = train_policy.load(options.policy)
    keep_large_buffers()
    ticks, digests, valid, actions, latencies = [], [], [], [], []
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("policy")

    def on_tensor(tensor):
        with torch.inference_mode():
            action = policy(batch_of(tensor.segments))[0].numpy()
        ticks.append(tensor.tick)
        digests.append(tensor.digest)
        valid.append(all(segment.valid.all() for segment in tensor.segments.values()))
        actions.append(action)
        latencies.append(node.get_clock().now().nanoseconds - tensor.stamp_ns)

    TensorSubscriber(node, on_tensor, contract=Path(options.policy).absolute().parent)
    ended = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(True))
    print("serving", flush=True)
    while not ended:
        rclpy.spin_once(node, timeout_sec=0.1)
    np.savez(
        options.out,
        tick=np.array(ticks, np.int64),
        digest=np.array(digests, np.uint64),
        valid=np.array(valid, bool),
        action=np.array(actions, np.float32),
        latency_ns=np.array(latencies, np.int64),
    )
    node.destroy_node()
    rclpy.shutdown()


if __name__ == "__main__":
    main()
