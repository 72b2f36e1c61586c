#!/usr/bin/env python3
"""A JPEG photograph to a normalised row of 224x224 on one core: robocache beside OpenCV.

    cargo build --release -p robocache_bench --bin robocache_jpeg --no-default-features --features nasm
    pip install opencv-python-headless pillow numpy
    python3 benches/jpeg.py PHOTO [PHOTO ...]

Each photograph is scaled to 1280x720 and 1920x1080 and saved with quality 90 and 4:2:0, as cameras do.
Both take the file to float32 [3, 224, 224]: OpenCV by imdecode, resize (INTER_LINEAR), and NumPy; robocache
through its pipeline, as a CompressedImage (with antialias, as Pillow). Rounds alternate; a round is the
median of its repeats, and the table has the median of all rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

SIZES = [(1280, 720), (1920, 1080)]
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
BINARY = Path(__file__).parent.parent / "target/release/robocache_jpeg"


def row_by_opencv(file):
    pixels = cv2.imdecode(file, cv2.IMREAD_COLOR)
    small = cv2.resize(pixels, (224, 224), interpolation=cv2.INTER_LINEAR)
    values = cv2.cvtColor(small, cv2.COLOR_BGR2RGB).astype(np.float32) * np.float32(1 / 255)
    return np.ascontiguousarray(((values - MEAN) / STD).transpose(2, 0, 1))


def median_us(function, argument, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(argument)
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def opencv(path, repeats):
    file = np.frombuffer(path.read_bytes(), np.uint8)
    decode = median_us(lambda data: cv2.imdecode(data, cv2.IMREAD_COLOR), file, repeats)
    return {"row_us": median_us(row_by_opencv, file, repeats), "decode_us": decode}


def robocache(binary, path, repeats):
    command = [binary, path, "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def compare(binary, path, rounds, repeats):
    """The medians of both, by name."""
    taken = {"robocache": [], "OpenCV": []}
    for _ in range(rounds):
        taken["robocache"].append(robocache(binary, path, repeats))
        taken["OpenCV"].append(opencv(path, repeats))

    def middle(runs, key):
        return statistics.median(run[key] for run in runs)

    return {
        name: {key: middle(runs, key) for key in ("row_us", "decode_us")}
        for name, runs in taken.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", type=Path)
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    # One core for both: the child inherits it.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    print(f"OpenCV {cv2.__version__}; us: file to row (decoder alone)")
    print("| photograph | size | OpenCV | robocache | ratio |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for photo in options.photos:
            for size in SIZES:
                path = Path(folder) / "photo.jpg"
                picture = Image.open(photo).convert("RGB").resize(size, Image.LANCZOS)
                picture.save(path, quality=90, subsampling="4:2:0")
                found = compare(options.binary, path, options.rounds, options.repeats)
                cells = [f"{m['row_us']:.0f} ({m['decode_us']:.0f})" for m in found.values()]
                ratio = found["robocache"]["row_us"] / found["OpenCV"]["row_us"]
                name = f"{photo.stem} | {size[0]}x{size[1]}"
                print(f"| {name} | {cells[1]} | {cells[0]} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
