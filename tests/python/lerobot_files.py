"""Writes LeRobot datasets v2.1 and v3.0 as LeRobot lays them out, with pyarrow and PyAV alone."""

import json
import os
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from robocache.lerobot.video import open_encoder

os.environ.setdefault("SVT_LOG", "1")  # the encoder's errors alone

#: How an encoder keeps B-frames, which come in another order than they are shown.
B_FRAMES = {"bf": "3", "g": "12"}
LOSSY = {
    "libx264": {"crf": "23", "preset": "ultrafast"},
    "libx265": {"crf": "28", "preset": "ultrafast", "x265-params": "log-level=none"},
    "libsvtav1": {"crf": "30", "preset": "12"},
}
STATE, CAMERA = "observation.state", "observation.images.top"


def picture(at, height=48, width=64):
    """A smooth picture that moves."""
    y, x = np.mgrid[0:height, 0:width] / 16
    waves = [np.sin(x + at / 3), np.cos(y - at / 5), np.sin(x + y + at / 2)]
    return (127.5 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


def encode(path, pictures, fps, codec="libx264", options=None, seconds=None, tags=None):
    """Writes a video. `seconds` has the instants of its frames, by default evenly spaced. With `tags`, the numbers of a matrix
    and a range (None for no tag), pictures are planes of yuv420p."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        rate = Fraction(fps).limit_denominator(10**6)
        stream = container.add_stream(codec, rate=rate)
        height, stream.width = pictures[0].shape[:2]
        stream.height = height * 2 // 3 if tags else height
        stream.pix_fmt = "yuv420p"
        stream.options = {**LOSSY[codec], **{"g": "2"}, **(options or {})}
        if seconds is not None:
            stream.codec_context.time_base = Fraction(1, 90_000)
        if tags is not None:
            _tag(stream.codec_context, tags)
        open_encoder(stream.codec_context)
        for at, pixels in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(pixels, format="yuv420p" if tags else "rgb24")
            _tag(frame, tags or (None, None))
            frame.pts = at if seconds is None else round(seconds[at] * 90_000)
            frame.time_base = 1 / rate if seconds is None else Fraction(1, 90_000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def _tag(of, tags):
    """Sets the matrix and the range of an encoder or a frame, if they are given."""
    for name, value in zip(("colorspace", "color_range"), tags, strict=True):
        if value is not None:
            setattr(of, name, value)


def decoded(path):
    """All frames of a video as PyAV decodes them: instants [s] and pixels."""
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
    return [frame.time for frame in frames], [frame.to_ndarray(format="rgb24") for frame in frames]


def frames_of(length, seed=0, fps=30):
    """The columns of an episode."""
    random = np.random.default_rng(seed)
    return {
        STATE: random.normal(size=(length, 3)).astype(np.float32),
        "action": random.normal(size=(length, 2)).astype(np.float32),
        "next.reward": random.normal(size=length).astype(np.float32),
        "next.done": np.arange(length) == length - 1,
        "timestamp": (np.arange(length) / fps).astype(np.float32),
        "frame_index": np.arange(length),
    }


FEATURES = {
    STATE: {"dtype": "float32", "shape": [3], "names": ["a", "b", "grip.pos"]},
    "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


#: The feature of the stamps of our own datasets.
STAMP = {"stamp_ns": {"dtype": "int64", "shape": [1], "names": None}}


def camera(height=48, width=64, dtype="video"):
    return {
        "dtype": dtype,
        "shape": [height, width, 3],
        "names": ["height", "width", "channels"],
    }


class Files:
    """Writes a dataset: `add` for each episode, then `finish`."""

    def __init__(self, root, version, fps=30, features=None):
        self.root, self.version, self.fps = Path(root), version, fps
        self.features = {**FEATURES, **({CAMERA: camera()} if features is None else features)}
        self._rows, self._episodes, self._tasks, self._videos = [], [], [], {}

    def add(self, columns, videos=(), task="pick"):
        """An episode. `videos` has for each feature its pictures, and further arguments of `encode`; `task` is a text, or
        a list with the text of each frame."""
        number, length = len(self._episodes), len(columns["timestamp"])
        of_frames = [task] * length if isinstance(task, str) else task
        tasks = list(dict.fromkeys(of_frames))
        self._tasks += [each for each in tasks if each not in self._tasks]
        first = sum(row["length"] for row in self._episodes)
        columns = {
            **columns,
            "episode_index": np.full(length, number),
            "index": first + np.arange(length),
            "task_index": np.array([self._tasks.index(each) for each in of_frames], np.int64),
        }
        self._rows.append(pa.table({name: _column(values) for name, values in columns.items()}))
        self._episodes.append({"episode_index": number, "length": length, "tasks": tasks})
        for key, (pictures, more) in dict(videos).items():
            self._videos.setdefault(key, []).append((number, pictures, more))

    def finish(self):
        info = {
            "codebase_version": self.version,
            "fps": self.fps,
            "chunks_size": 1000,
            "features": self.features,
            "total_episodes": len(self._episodes),
            "total_frames": sum(row["length"] for row in self._episodes),
            "total_tasks": len(self._tasks),
        }
        (self.root / "meta").mkdir(parents=True)
        (self._v3 if self.version == "v3.0" else self._v2)(info)
        (self.root / "meta/info.json").write_text(json.dumps(info, indent=4))
        return self.root

    def _v2(self, info):
        info["data_path"] = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
        info["video_path"] = (
            "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        )
        for number, table in enumerate(self._rows):
            place = {"episode_chunk": 0, "episode_index": number}
            path = self.root / info["data_path"].format(**place)
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(table, path)
        for key, episodes in self._videos.items():
            for number, pictures, more in episodes:
                place = {"episode_chunk": 0, "episode_index": number, "video_key": key}
                encode(self.root / info["video_path"].format(**place), pictures, self.fps, **more)
        tasks = [{"task_index": at, "task": task} for at, task in enumerate(self._tasks)]
        for name, lines in (("episodes", self._episodes), ("tasks", tasks)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (self.root / f"meta/{name}.jsonl").write_text(text)

    def _v3(self, info):
        """All episodes are in one table, and those of a camera in one video."""
        file = "chunk-{chunk_index:03d}/file-{file_index:03d}"
        info["data_path"] = f"data/{file}.parquet"
        info["video_path"] = f"videos/{{video_key}}/{file}.mp4"
        place = {"chunk_index": 0, "file_index": 0}
        path = self.root / info["data_path"].format(**place)
        path.parent.mkdir(parents=True)
        with parquet.ParquetWriter(path, self._rows[0].schema) as writer:
            for table in self._rows:
                writer.write_table(table)
        rows, begin = [], 0
        for row in self._episodes:
            end = begin + row["length"]
            of_table = {"dataset_from_index": begin, "dataset_to_index": end}
            of_table |= {"data/chunk_index": 0, "data/file_index": 0, "stats/action/mean": [0.0]}
            rows.append({**row, **of_table})
            begin = end
        for key, episodes in self._videos.items():
            pictures, begin = [], 0
            for number, more_pictures, _ in episodes:
                rows[number] |= {
                    f"videos/{key}/{name}": 0 for name in ("chunk_index", "file_index")
                }
                rows[number][f"videos/{key}/from_timestamp"] = begin / self.fps
                begin += len(more_pictures)
                pictures += more_pictures
            path = self.root / info["video_path"].format(video_key=key, **place)
            encode(path, pictures, self.fps, **episodes[0][2])
        folder = self.root / "meta/episodes/chunk-000"
        folder.mkdir(parents=True)
        keys = list(dict.fromkeys(key for row in rows for key in row))
        columns = {key: [row.get(key) for row in rows] for key in keys}
        parquet.write_table(pa.table(columns), folder / "file-000.parquet")
        tasks = {"task_index": list(range(len(self._tasks))), "__index_level_0__": self._tasks}
        # pandas takes the texts for the index.
        name = "__index_level_0__"
        text = {"field_name": name, "name": None, "pandas_type": "unicode", "numpy_type": "object"}
        index = {"index_columns": [name], "column_indexes": [], "columns": [text]}
        table = pa.table(tasks).replace_schema_metadata({"pandas": json.dumps(index)})
        parquet.write_table(table, self.root / "meta/tasks.parquet")


def _column(values):
    if isinstance(values, list):  # pictures
        return pa.array([{"bytes": value, "path": None} for value in values])
    return pa.array(list(values) if values.ndim > 1 else values)


def write(root, version="v2.1", lengths=(20, 12), fps=30, codec="libx264", options=None):
    """A dataset with a state, an action, a reward and a camera."""
    files = Files(root, version, fps)
    for number, length in enumerate(lengths):
        pictures = [picture(at + 100 * number) for at in range(length)]
        video = {CAMERA: (pictures, {"codec": codec, "options": options})}
        files.add(frames_of(length, number, fps), video, task=("pick", "place")[number % 2])
    return files.finish()


def rewritten(root, change):
    """Writes the table of the first episode again."""
    path = root / "data/chunk-000/episode_000000.parquet"
    columns = parquet.read_table(path).to_pydict()
    change(columns)
    parquet.write_table(pa.table(columns), path)
