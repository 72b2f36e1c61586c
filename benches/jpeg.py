#!/usr/bin/env python3
"""A JPEG photograph to a normalised row of 224x224 on one core: robocache beside OpenCV and Pillow.

    cargo build --release -p robocache_bench --bin robocache_jpeg  --features nasm
    pip install opencv-python-headless pillow numpy
    python3 benches/jpeg.py PHOTO [PHOTO ...]

Each photograph is scaled to 1280x720 and 1920x1080 and saved with quality 90 and 4:2:0, as cameras do.
robocache takes the file through its pipeline, as a CompressedImage, to float32 [3, 224, 224]. Beside each
filter is the library that it is named after. A library's first figure is decode and resize alone, to bytes
[224, 224, 3]; the second is the whole row, which NumPy normalises. The ratio is that of robocache's row to
the first figure. Rounds alternate; a round is the median of its repeats, and the table has the median of all
rounds.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np
import PIL
from PIL import Image

SIZES = [(1280, 720), (1920, 1080)]
ROW = (224, 224)
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
BINARY = Path(__file__).parent.parent / "target/release/robocache_jpeg"


def by_opencv(interpolation):
    def resized(file):
        pixels = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)
        return cv2.resize(pixels, ROW, interpolation=interpolation)

    return resized, lambda file: normalised(cv2.cvtColor(resized(file), cv2.COLOR_BGR2RGB))


def by_pillow():
    def resized(file):
        return np.asarray(Image.open(io.BytesIO(file)).resize(ROW, Image.BILINEAR))

    return resized, lambda file: normalised(resized(file))


def normalised(pixels):
    values = pixels.astype(np.float32) * np.float32(1 / 255)
    return np.ascontiguousarray(((values - MEAN) / STD).transpose(2, 0, 1))


# Per filter: the library, its way to bytes and to a row.
PEERS = {
    "cv2_linear": ("OpenCV INTER_LINEAR", *by_opencv(cv2.INTER_LINEAR)),
    "cv2_area": ("OpenCV INTER_AREA", *by_opencv(cv2.INTER_AREA)),
    "pil_bilinear": ("Pillow BILINEAR", *by_pillow()),
}


def medians_us(functions, argument, repeats):
    """The median of each function. Their calls take turns, so that all run under the same load."""
    times = []
    for _ in range(repeats):
        marks = [time.perf_counter()]
        for function in functions:
            function(argument)
            marks.append(time.perf_counter())
        times.append([(end - start) * 1e6 for start, end in zip(marks, marks[1:])])
    return [statistics.median(column) for column in zip(*times)]


def robocache(binary, path, name, repeats):
    command = [binary, path, "--filter", name, "--repeats", str(repeats)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def one_round(binary, path, name, repeats):
    """The microseconds of robocache's row and decoder, and of its peer's bytes and row."""
    _, resized, row = PEERS[name]
    ours = robocache(binary, path, name, repeats)
    theirs = medians_us((resized, row), path.read_bytes(), repeats)
    return [ours["row_us"], ours["decode_us"], *theirs]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="+", type=Path)
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    # One core for all processes: the child inherits it.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    # After the first large block was freed, the C library keeps such blocks. So the peers have no page faults.
    cv2.imdecode(
        np.frombuffer(cv2.imencode(".jpg", np.zeros((2160, 3840, 3), np.uint8))[1], np.uint8), 1
    )
    print(f"OpenCV {cv2.__version__}, Pillow {PIL.__version__}; us")
    print(
        "| photograph | size | filter | robocache: row (decoder alone) | peer | bytes, row | ratio |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for photo in options.photos:
            for size in SIZES:
                path = Path(folder) / "photo.jpg"
                picture = Image.open(photo).convert("RGB").resize(size, Image.LANCZOS)
                picture.save(path, quality=90, subsampling="4:2:0")
                for name, (peer, *_) in PEERS.items():
                    rounds = [
                        one_round(options.binary, path, name, options.repeats)
                        for _ in range(options.rounds)
                    ]
                    found = [statistics.median(values) for values in zip(*rounds, strict=True)]
                    row, decoder, resized, whole = found
                    if decoder > row or resized > whole:
                        raise SystemExit(
                            f"a part took longer than the whole ({found}): busy machine"
                        )
                    cells = [photo.stem, f"{size[0]}x{size[1]}", f"`{name}`"]
                    cells += [f"{row:.0f} ({decoder:.0f})", peer]
                    cells += [f"{resized:.0f}, {whole:.0f}", f"{row / resized:.2f}"]
                    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
