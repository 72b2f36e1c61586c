"""The latency of ticks into memory of the GPU, beside a thread that trains on the same GPU.

    python3 benches/pipeline_latency.py [--seconds 20] [--rate-hz 100] [--backend auto] [--priority 20] [--idle]
        [--only-idle] [--outputs cuda host]

The pipeline of the node ticks on its own thread in this process, and writes each tensor into memory of the GPU. A
thread of Python trains a transformer with torch on the same GPU. Four times are measured, from the instant of a tick:
until the system runs the tick thread ("woken"); until the tensor is complete on that thread ("fused"); until the
publishing thread hands it over ("tensor_ready"); and until Python's callback has it, which also waits for the
interpreter's lock. Needs torch and a GPU, except for `--outputs host --only-idle`. Prints one line of JSON per case.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import robocache  # noqa: E402
from robocache import _native  # noqa: E402
from robocache.contract import config_text  # noqa: E402
from robocache.message.views import Views  # noqa: E402

CAMERAS = ("left", "right")


def configuration(rate_hz):
    camera = {
        "type": "sensor_msgs/Image",
        "max_age_ms": 200,
        "dtype": "bf16",
        "history": {"steps": 2, "step_ms": 33},
        "image": {"resize": {"width": 224, "height": 224}},
    }
    streams = {name: {**camera, "topic": f"/{name}"} for name in CAMERAS}
    streams["wrench"] = {
        "type": "geometry_msgs/WrenchStamped",
        "topic": "/wrench",
        "max_age_ms": 50,
        "history": {"steps": 16, "step_ms": 10},
    }
    return {"rate_hz": rate_hz, "lag_ms": 20, "streams": streams}


def header(stamp_ns, frame=b"\0"):
    """The start of a message: encapsulation, stamp and frame."""
    stamp = np.array([stamp_ns // 1_000_000_000, stamp_ns % 1_000_000_000], "<u4").tobytes()
    return b"\0\1\0\0" + stamp + len(frame).to_bytes(4, "little") + frame


def padded(message, size):
    return message + b"\0" * (-(len(message) - 4) % size)


def image(stamp_ns, pixels):
    height, width = pixels.shape[:2]
    message = padded(header(stamp_ns), 4) + np.array([height, width, 5], "<u4").tobytes()
    message += b"rgb8\0\0"
    message = padded(message, 4) + np.array([3 * width, pixels.size], "<u4").tobytes()
    return message + pixels.tobytes()


def wrench(stamp_ns, values):
    return padded(header(stamp_ns), 8) + np.asarray(values, "<f8").tobytes()


class Training(threading.Thread):
    """Trains until `end` is set."""

    def __init__(self):
        super().__init__(daemon=True)
        self.end = threading.Event()
        self.steps = 0

    def run(self):
        import torch

        layer = torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 4).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        batch = torch.randn(32, 250, 256, device="cuda")
        while not self.end.is_set():
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.steps += 1
            if self.steps % 8 == 0:
                torch.cuda.synchronize()


def feed(live, end):
    """Sends messages as sensors would: two cameras at 30 Hz, a wrench at 500 Hz."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (480, 640, 3)).astype(np.uint8)
    numbers = {known["name"]: at for at, known in enumerate(json.loads(live.inputs()))}
    began, count = time.monotonic(), 0
    while not end.is_set():
        now = time.time_ns()
        live.push(numbers["wrench"], wrench(now, random.normal(size=6)), now, now)
        if count % 17 == 0:
            for name in CAMERAS:
                live.push(numbers[name], image(now, pixels), now, now)
        count += 1
        time.sleep(max(0.0, began + count * 0.002 - time.monotonic()))


def measure(arguments, output, training):
    text, file = config_text(configuration(arguments.rate_hz))
    place = (arguments.backend, arguments.device, output)
    live = _native.LivePipeline(text, file, *place, False, False, arguments.priority, [])
    live.watch([known["topic"] for known in json.loads(live.inputs())], "", "")
    end, views, delays, valid = threading.Event(), Views(), [], 0
    feeder = threading.Thread(target=feed, args=(live, end), daemon=True)
    feeder.start()
    beside = Training() if training else None
    if beside:
        beside.start()
    time.sleep(arguments.warm_up)
    live.report()
    live.wait(1.0)
    began, steps = time.monotonic(), beside.steps if beside else 0
    while time.monotonic() - began < arguments.seconds:
        native = live.wait(1.0)
        if native is None:
            continue
        tensor = views.of(native)
        delays.append(time.time_ns() - tensor.stamp_ns)
        valid += all(segment.valid.all() for segment in tensor.segments.values())
        if output == "cuda":
            tensor["wrench"].torch().sum()
        del tensor, native
    elapsed = time.monotonic() - began
    values = dict(live.report()[1][0][3])
    end.set()
    feeder.join()
    if beside:
        steps = beside.steps - steps
        beside.end.set()
        beside.join()
    live.close()
    quantiles = ("p50", "p99", "max")

    def until(stage):
        return {name: float(values[f"{stage}latency_{name}_ms"]) for name in quantiles}

    callback = np.percentile(np.array(delays) / 1e6, [50, 99, 100]).round(3).tolist()
    return {
        "output": output,
        "backend": values["backend"],
        "beside_training": training,
        "ticks": len(delays),
        "ticks_all_valid": valid,
        "overruns": values["overruns"],
        "realtime_priority": values["realtime_priority"],
        "woken_since_start_ms": until("woken_"),
        "fused_since_start_ms": until("fused_"),
        "tensor_ready_ms": until(""),
        "callback_ms": dict(zip(quantiles, callback, strict=True)),
        "training_steps_per_s": round(steps / elapsed, 1),
        "gpu": gpu_of(arguments),
        "version": robocache.__version__,
    }


def gpu_of(arguments):
    """The name of the GPU; None if the case needs none."""
    if arguments.outputs == ["host"]:
        return None
    import torch

    return torch.cuda.get_device_name(arguments.device)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up", type=float, default=4)
    parser.add_argument("--rate-hz", type=float, default=100)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument(
        "--priority", type=int, default=20, help="of the tick thread, as the node's"
    )
    parser.add_argument("--outputs", nargs="+", default=["cuda", "host"], metavar="OUTPUT")
    parser.add_argument("--idle", action="store_true", help="also without a training thread")
    parser.add_argument("--only-idle", action="store_true", help="never with a training thread")
    arguments = parser.parse_args()
    cases = [False] if arguments.only_idle else [False, True] if arguments.idle else [True]
    for training in cases:
        for output in arguments.outputs:
            print(json.dumps(measure(arguments, output, training)), flush=True)


if __name__ == "__main__":
    main()
