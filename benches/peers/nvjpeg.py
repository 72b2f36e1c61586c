"""A camera's JPEG file to a normalised row of 224x224: robocache on each backend beside nvJPEG.

    benches/gpu.sh --build
    python3 benches/camera_jpeg.py camera.jpg
    python3 benches/peers/nvjpeg.py camera.jpg

nvJPEG is that of torchvision (`decode_jpeg(device="cuda")`), which takes the hardware engine of the GPU if it has one; torch
resizes and normalises. One row decodes six files in one call, and its times are of one file. It waits for every row, as
robocache's tick does, and the wait blocks, so that processor time is work. A time is the median, processor time the mean
over all threads, both in microseconds. nvJPEG does not promise libjpeg's pixels: the last line counts the bytes of the
decoded image that differ from Pillow's. Needs torch, torchvision, NumPy and Pillow.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import time
from pathlib import Path

import numpy as np
import torch
import torchvision
from PIL import Image

PROGRAM = Path(__file__).parents[2] / "build/gpu/robocache_jpeg"
WARM_UP = 50
#: Files of a batch.
BATCH = 6
#: cudaDeviceScheduleBlockingSync: a wait for the GPU takes no time of a core.
BLOCKING = 4


def robocache(program, file, backend, repeats):
    command = [program, file, "--backend", backend, "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def decoded(data):
    return torchvision.io.decode_jpeg(data, torchvision.io.ImageReadMode.RGB, device="cuda")


def block_while_waiting():
    """Makes waits block. The caller does this before anything uses the GPU."""
    version = torch.version.cuda.split(".")[0]
    runtime = ctypes.CDLL(f"libcudart.so.{version}")
    if runtime.cudaSetDeviceFlags(BLOCKING) != 0:
        raise SystemExit("nvjpeg: the CUDA runtime does not let waits block")


def nvjpeg(file, repeats, count):
    """The times of a file, if a call decodes `count`."""
    data = torch.from_numpy(np.fromfile(file, np.uint8))
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1)
    times = []
    for number in range(WARM_UP + repeats):
        if number == WARM_UP:
            times, processor = [], time.process_time()
        start = time.perf_counter()
        pixels = torch.stack(decoded([data] * count)).float()
        row = torch.nn.functional.interpolate(
            pixels, (224, 224), mode="bilinear", antialias=True, align_corners=False
        )
        row = (row / 255 - mean) / std
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6 / count)
    processor_us = (time.process_time() - processor) * 1e6 / repeats / count
    return {"ready_us": statistics.median(times), "processor_us": processor_us}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--program", type=Path, default=PROGRAM)
    parser.add_argument("--repeats", type=int, default=300)
    options = parser.parse_args()
    rows = {
        f"robocache, {backend}": robocache(options.program, options.file, backend, options.repeats)
        for backend in ("cpu", "auto", "cuda")
    }
    block_while_waiting()
    rows["nvJPEG and torch"] = nvjpeg(options.file, options.repeats, 1)
    rows[f"the same, {BATCH} in a call"] = nvjpeg(options.file, options.repeats, BATCH)
    print("| | row in a tensor | processor time | of the message | decoder alone | headers alone |")
    print("|---|---|---|---|---|---|")
    keys = ("ready_us", "processor_us", "row_processor_us", "decode_us", "headers_us")
    for name, row in rows.items():
        cells = [f"{row[key]:.0f}" if row.get(key) is not None else "" for key in keys]
        print(f"| {name} | " + " | ".join(cells) + " |")
    expected = np.asarray(Image.open(options.file).convert("RGB"))
    found = decoded(torch.from_numpy(np.fromfile(options.file, np.uint8)))
    found = found.permute(1, 2, 0).cpu().numpy()
    print(f"bytes of nvJPEG's pixels that differ from Pillow's: {(found != expected).mean():.1%}")


if __name__ == "__main__":
    main()
