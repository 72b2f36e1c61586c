"""A LeRobot dataset with videos: its import, and windows with images, beside what a user would write.

    python benches/dataset.py [--lerobot [--lance]] [--episodes 8] [--length 20] [--codec libsvtav1] [--workers 8] [--images jpeg:95]
                              [--folder FOLDER] [--loaders]

Three cameras of 224x224 at 30 Hz, 14 joints and 14 actions. It needs the package with its extra `import`, Pillow and
zstandard; with `--lerobot` also lerobot, whose loader then reads the same dataset; with `--lance` also
lerobot-lancedb.

- import: the processor time of `robocache import` beside that of a script which decodes each frame by PyAV, resizes it by
  Pillow to 112x112 and compresses it by zstd, level 1. Both use all cores. The script does nothing else: no stamps, no
  files, no checks.
- windows: batches of 64 random frames with the three images, of 224x224, and 50 steps of action ahead, from rows in memory, from
  compressed rows, from compressed rows of a store with `--images`, and by LeRobot's loader (torchcodec or PyAV, whichever it takes) with `--workers` and a global shuffle.
- dialect, with `--lerobot`: the same batches as LeRobot's items, by `robocache.lerobot.dataset`, from rows in memory and from
  compressed ones: by a DataLoader that shuffles items, and as `batches`; images as numbers and as bytes.

Ways take turns, and rates and processor times of a window are medians of the rounds; a machine with other work changes the
rates more. Left out are the first second of each turn, and of LeRobot the batches that its workers make ahead. With
`--folder` the dataset and its rows stay there for another run. With `--loaders` the import is not compared.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests" / "python")]

CAMERAS = ("left", "right", "wrist")
FPS, SIZE, RESIZED, JOINTS, AHEAD, BATCH = 30, 224, 112, 14, 50, 64
STEPS = {"action": [at / FPS for at in range(AHEAD)]}


def picture(random, at):
    """A scene that moves, with the noise of a sensor."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] / 24
    waves = [np.sin(x + at / 9), np.cos(y - at / 15), np.sin(x + y + at / 6)]
    scene = 127.5 + 90 * np.stack(waves, axis=-1) + random.normal(scale=2, size=(SIZE, SIZE, 3))
    return np.clip(scene, 0, 255).astype(np.uint8)


def write(root, options):
    """Writes the dataset as LeRobot lays it out (v3.0), with its settings of the codec."""
    random = np.random.default_rng(1)
    count = options.length * FPS
    vector = {"dtype": "float32", "shape": [JOINTS], "names": None}
    image = {"dtype": "video", "shape": [SIZE, SIZE, 3], "names": ["height", "width", "channels"]}
    features = {"observation.state": vector, "action": vector}
    features |= {f"observation.images.{name}": image for name in CAMERAS}
    from lerobot_files import Files, frames_of

    files = Files(root, "v3.0", FPS, features)
    for number in range(options.episodes):
        columns = frames_of(count, number, FPS)
        for key in ("observation.state", "action"):
            columns[key] = random.normal(size=(count, JOINTS)).astype(np.float32)
        pictures = [picture(random, at) for at in range(count)]
        video = (pictures, {"codec": options.codec})
        files.add(columns, {f"observation.images.{name}": video for name in CAMERAS})
    files.finish()


def script(path):
    """Decodes, resizes and compresses the frames of a video. Returns their number."""
    import av
    import zstandard
    from PIL import Image

    compress, count = zstandard.ZstdCompressor(level=1).compress, 0
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for frame in container.decode(stream):
            image = Image.fromarray(frame.to_ndarray(format="rgb24"))
            resized = image.resize((RESIZED, RESIZED), Image.Resampling.BILINEAR)
            compress(np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1)))
            count += 1
    return count


def cpu_s():
    """Processor time of this process's children that have ended [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(run):
    """Wall time and processor time of children [s], and what it returns."""
    before, began = cpu_s(), time.perf_counter()
    found = run()
    return time.perf_counter() - began, cpu_s() - before, found


def imports(root, out):
    """The import and the script, three times in turns; medians."""

    def ours():
        command = [
            sys.executable,
            "-m",
            "robocache",
            "import",
            str(root),
            "--out",
            str(out),
            "--json",
        ]
        command += ["--resize", f"{RESIZED}x{RESIZED}", "--replace"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=None, text=True)
        assert all("done" in each for each in json.loads(done.stdout))

    def theirs():
        with ProcessPoolExecutor() as pool:
            return sum(pool.map(script, sorted(root.rglob("*.mp4"))))

    rounds = []
    for _ in range(3):
        subprocess.run(["rm", "-rf", str(out)], check=True)
        rounds.append((measured(ours)[:2], measured(theirs)))
    of = lambda pick: float(np.median([pick(each) for each in rounds]))  # noqa: E731
    frames = rounds[0][1][2]
    found = {
        "frames": frames,
        "import_cpu_ms_per_frame": 1e3 * of(lambda r: r[0][1]) / frames,
        "script_cpu_ms_per_frame": 1e3 * of(lambda r: r[1][1]) / frames,
        "cpu_ratio": of(lambda r: r[0][1] / r[1][1]),
        "wall_ratio": of(lambda r: r[0][0] / r[1][0]),
    }
    return {name: round(value, 3) for name, value in found.items()}


def imported(root, out, *options):
    """The store of the rows."""
    command = [sys.executable, "-m", "robocache", "import", str(root), "--out", str(out), *options]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return out / "rows.zarr"


def windows(store, **load):
    """A function that makes a batch of windows of random frames."""
    import robocache

    cache = robocache.EpisodeCache.load(store, **load)
    steps = {"steps": AHEAD, "step_ms": round(1e9 / FPS) / 1e6}
    config = {"state": {}, "action": {"horizon": steps}, **{name: {} for name in CAMERAS}}
    sampler = robocache.WindowSampler.of(
        cache, period_ns=round(1e9 / FPS), margin_ns=(0, AHEAD * round(1e9 / FPS)), batch_size=BATCH
    )
    batches = [sampler.batch(0, number)[:2] for number in range(len(sampler))]
    plan = cache.plan(config)
    checked = cache.windows(*batches[0], plan)
    assert all(checked[name].valid.all() for name in config)
    order = itertools.cycle(batches)
    return lambda: cache.windows(*next(order), plan)


def used_s():
    """Processor time of this process and of all its descendants that run [s]."""
    ticks, processes = 0, ["self"]
    while processes:
        folder = Path("/proc") / processes.pop()
        # A process or a thread may end meanwhile. The name of a program may have spaces.
        with contextlib.suppress(OSError):
            told = (folder / "stat").read_text().rpartition(")")[2].split()
            ticks += int(told[11]) + int(told[12])
        for children in folder.glob("task/*/children"):
            with contextlib.suppress(OSError):
                processes += children.read_text().split()
    return ticks / os.sysconf("SC_CLK_TCK")


def rate(batch, seconds, ahead=0):
    """Windows per second, and processor time of a window [ms], after the first second and `ahead` batches."""
    begin, done, began, used = time.perf_counter(), 0, None, 0
    while began is None or time.perf_counter() - began < seconds:
        batch()
        done += 1
        if began is None and time.perf_counter() - begin > 1 and done > ahead:
            began, done, used = time.perf_counter(), 0, used_s()
    count = done * BATCH
    return count / (time.perf_counter() - began), 1e3 * (used_s() - used) / count


def medians(ways, rounds):
    """By name the medians of the numbers that each way gives, which take turns."""
    found = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return {name: np.median(turns, axis=0).tolist() for name, turns in found.items()}


def endless(loader):
    """A function that gives the next batch of epoch after epoch."""
    return (batch for _ in itertools.count() for batch in loader).__next__


def lerobot(root, seconds, workers):
    """A turn of LeRobot's loader, and what decodes its videos."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/dataset", root=root, delta_timestamps=STEPS)
    # LeRobot 0.4 and 0.6.
    names = [name for name in ("video_backend", "_video_backend") if hasattr(dataset, name)]
    return by_workers(dataset, seconds, workers), getattr(dataset, names[0])


def lance(root, out, seconds, workers):
    """A turn of the loader of lerobot-lancedb, which reads its own copy of the dataset."""
    from lerobot_lancedb import LanceDBDataset, lance_mp_context

    if not out.exists():
        command = [sys.executable, "-m", "lerobot_lancedb.convert"]
        subprocess.run([*command, "--root", root, "--out", out], check=True, stdout=sys.stderr)
    dataset = LanceDBDataset(root=out, delta_timestamps=STEPS)
    return by_workers(dataset, seconds, workers, multiprocessing_context=lance_mp_context())


def by_workers(dataset, seconds, workers, **options):
    """A turn of a loader with workers, which shuffles items."""
    import torch

    def turn():
        loader = torch.utils.data.DataLoader(
            dataset, BATCH, shuffle=True, num_workers=workers, persistent_workers=True, **options
        )
        # Workers make batches in bursts, one each.
        return rate(endless(loader), max(seconds, 40), ahead=2 * workers)

    return turn


def dialect(root, rows, **load):
    """By name the next batch of the dataset in LeRobot's dialect, by the way it is loaded."""
    import torch

    from robocache.lerobot import dataset

    # As in a DataLoader's worker. On a machine with other work, two threads of torch mostly wait for each other.
    torch.set_num_threads(1)
    found = {}
    for kind, is_bytes in (("numbers", False), ("bytes", True)):
        data = dataset(root, STEPS, out=rows, return_uint8=is_bytes, **load)
        loader = torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True)
        found[f"items of {kind}"] = endless(loader)
        found[f"batches of {kind}"] = endless(data.batches(BATCH))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lerobot", action="store_true")
    parser.add_argument("--lance", action="store_true", help="also the loader of lerobot-lancedb")
    parser.add_argument("--episodes", type=int, default=8)
    parser.add_argument("--length", type=int, default=20, help="of an episode [s]")
    parser.add_argument("--codec", default="libsvtav1")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--images", default="jpeg:95", help="of the store with loss")
    parser.add_argument("--seconds", type=float, default=8, help="per turn")
    parser.add_argument("--rounds", type=int, default=3, help="of turns")
    parser.add_argument("--folder", type=Path, help="that keeps the dataset and its rows")
    parser.add_argument("--loaders", action="store_true", help="do not compare the import")
    options = parser.parse_args()
    os.environ |= {"SVT_LOG": "1", "HF_HUB_OFFLINE": "1"}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        root = folder / "dataset"
        if not root.exists():
            write(root, options)
        found = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
        if not options.loaders:
            found["import"] = imports(root, Path(temporary) / "out")
        # Windows have the pixels of the dataset, as LeRobot's have.
        whole = imported(root, folder / "whole")
        lossy = imported(root, folder / "lossy", "--images", options.images)
        size = lambda path: sum(f.stat().st_size for f in path.rglob("*") if f.is_file())  # noqa: E731
        paths = {"dataset": root, "rows": whole, options.images: lossy}
        found["mb"] = {name: round(size(path) / 1e6, 1) for name, path in paths.items()}
        batch_of = {
            "windows, memory": windows(whole),
            "windows, compressed": windows(whole, compressed=True),
            f"windows, {options.images}": windows(lossy, compressed=True),
        }
        turns = {}
        if options.lerobot:
            from importlib.metadata import version

            found["versions"] = {name: version(name) for name in ("lerobot", "torch")}
            turns["lerobot"], found["video_backend"] = lerobot(
                root, options.seconds, options.workers
            )
            if options.lance:
                found["versions"]["lerobot-lancedb"] = version("lerobot-lancedb")
                turns["lerobot-lancedb"] = lance(
                    root, folder / "lance", options.seconds, options.workers
                )
            for where, load in (("memory", {"compressed": False}), ("compressed", {})):
                of_dialect = dialect(root, whole.parent, **load)
                batch_of |= {f"{name}, {where}": batch for name, batch in of_dialect.items()}
        turns |= {
            name: lambda batch=batch: rate(batch, options.seconds)
            for name, batch in batch_of.items()
        }
        rates = medians(turns, options.rounds)
        found["windows_per_s"] = {name: round(each, 1) for name, (each, _) in rates.items()}
        found["cpu_ms_per_window"] = {name: round(each, 3) for name, (_, each) in rates.items()}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
