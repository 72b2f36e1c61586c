"""An RLDS dataset: its import beside the iteration of TensorFlow Datasets.

    python benches/rlds.py [--episodes 24] [--steps 40] [--rounds 3]

The dataset has the features of BridgeData V2, with four cameras of 256x256 as JPEG, and is written by tfds. It needs the
package with its extra `import`, tensorflow-cpu, tensorflow-datasets, importlib_resources and Pillow.

- import: the wall time and the processor time of `robocache import --resize 112x112` as a process, with its start and all
  that it writes.
- tfds: those of a loop over all steps as NumPy arrays, with each image resized to 112x112 by Pillow. The start of
  TensorFlow is left out, and the first episode is read before.

Both have all cores. They run in turns; medians.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests/python/tfds")]
RESIZED = 112


def used_s(who):
    """Processor time [s]."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measured(run, who):
    """Wall time and processor time [s], and what it returns."""
    before, began = used_s(who), time.perf_counter()
    found = run()
    return time.perf_counter() - began, used_s(who) - before, found


def ours(root, out):
    """Imports all. Returns the number of rows of the first camera."""
    command = [sys.executable, "-m", "robocache", "import", str(root), "--mapping", "bridge"]
    command += ["--out", str(out), "--json", "--resize", f"{RESIZED}x{RESIZED}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return sum(each["done"]["streams"]["image_0"]["rows"] for each in json.loads(done.stdout))


def theirs(dataset, cameras):
    """Reads all. Returns the number of steps."""
    import tensorflow_datasets as tfds
    from PIL import Image

    count = 0
    for episode in dataset:
        for step in tfds.as_numpy(episode["steps"]):
            for camera in cameras:
                image = Image.fromarray(step["observation"][camera])
                np.asarray(image.resize((RESIZED, RESIZED), Image.Resampling.BILINEAR))
            count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--steps", type=int, default=40, help="of an episode")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    import tensorflow_datasets as tfds
    from rlds_builders import bridge

    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        lengths = [options.steps] * options.episodes
        root, out = Path(os.fspath(bridge.write(folder, lengths))), Path(folder) / "out"
        plain = tfds.ReadConfig(try_autocache=False)
        dataset = tfds.builder_from_directory(str(root)).as_dataset(
            split="train+val", read_config=plain
        )
        theirs(dataset.take(1), bridge.CAMERAS)
        for _ in range(options.rounds):
            shutil.rmtree(out, ignore_errors=True)
            rounds.append(
                (
                    measured(lambda: ours(root, out), resource.RUSAGE_CHILDREN),
                    measured(lambda: theirs(dataset, bridge.CAMERAS), resource.RUSAGE_SELF),
                )
            )
    steps = sum(lengths)
    assert all(found == steps for each in rounds for *_, found in each)
    of = lambda pick: float(np.median([pick(*each) for each in rounds]))  # noqa: E731
    found = {
        "steps": steps,
        "import_steps_per_s": steps / of(lambda ours, _: ours[0]),
        "tfds_steps_per_s": steps / of(lambda _, tfds: tfds[0]),
        "wall_ratio": of(lambda ours, tfds: tfds[0] / ours[0]),
        "cpu_ratio": of(lambda ours, tfds: tfds[1] / ours[1]),
    }
    print(json.dumps({name: round(value, 2) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
