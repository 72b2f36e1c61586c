"""A camera's JPEG file to a normalised row of 224x224: robocache on each backend beside nvJPEG.

    benches/gpu.sh --build
    python3 benches/camera_jpeg.py camera.jpg
    python3 benches/peers/nvjpeg.py camera.jpg

nvJPEG is that of torchvision (`decode_jpeg(device="cuda")`); torch resizes and normalises. It waits for every row, as
robocache's tick does. A time is the median, processor time the mean over all threads, both in microseconds. nvJPEG does
not promise libjpeg's pixels: the last line counts the bytes of the decoded image that differ from Pillow's. Needs torch,
torchvision, NumPy and Pillow.
"""

import argparse
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


def robocache(program, file, backend, repeats):
    command = [program, file, "--backend", backend, "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def decoded(data):
    return torchvision.io.decode_jpeg(data, torchvision.io.ImageReadMode.RGB, device="cuda")


def nvjpeg(file, repeats):
    data = torch.from_numpy(np.fromfile(file, np.uint8))
    mean = torch.tensor([0.485, 0.456, 0.406], device="cuda").view(3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device="cuda").view(3, 1, 1)
    times = []
    for number in range(WARM_UP + repeats):
        if number == WARM_UP:
            times, processor = [], time.process_time()
        start = time.perf_counter()
        pixels = decoded(data)[None].float()
        row = torch.nn.functional.interpolate(
            pixels, (224, 224), mode="bilinear", antialias=True, align_corners=False
        )
        row = (row[0] / 255 - mean) / std
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    processor_us = (time.process_time() - processor) * 1e6 / repeats
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
    rows["nvJPEG and torch"] = nvjpeg(options.file, options.repeats)
    print("| | row in a tensor | processor time | decoder alone | headers alone |")
    print("|---|---|---|---|---|")
    keys = ("ready_us", "processor_us", "decode_us", "headers_us")
    for name, row in rows.items():
        cells = [f"{row[key]:.0f}" if row.get(key) is not None else "" for key in keys]
        print(f"| {name} | " + " | ".join(cells) + " |")
    expected = np.asarray(Image.open(options.file).convert("RGB"))
    found = decoded(torch.from_numpy(np.fromfile(options.file, np.uint8)))
    found = found.permute(1, 2, 0).cpu().numpy()
    print(f"bytes of nvJPEG's pixels that differ from Pillow's: {(found != expected).mean():.1%}")


if __name__ == "__main__":
    main()
