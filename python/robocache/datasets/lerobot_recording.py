"""An episode of a LeRobot dataset as a recording: its features as topics, its frames as arrays.

The native replay takes a recording as it takes a bag.
"""

import hashlib
import json

import numpy as np

from . import frame_stamps, lerobot_rows
from .dataset import batches, sized_pictures, stamp_of, vectors

#: Of what arrays are made of. It changes if the same files give other arrays.
FORMAT = 2
#: How the pixels of a video are made.
_BY_TAGS = "video; matrix and range by its tags, without a tag BT.601 of limited range"
#: Frames whose vectors are made at once.
_BLOCK = 256


class Recording:
    """An episode, as the native replay reads it.

    Each iteration of `arrays` opens the files for itself, so several threads may read at once.

    Attributes:
        name: of the episode.
        task: that of the dataset's metadata; of several that of the first frame. `about` has those of all frames.
        path: the folder of the dataset, `#` and the name: errors name it.
        made_of: a text that changes if the content may differ.
        topics: those of `Topics.of_length`.
        decoded: a dict by topic of how its pixels are made.
        spacing: that of `frame_stamps.other_spacing`, when the stamps were read.
    """

    def __init__(self, dataset, topics, episode, *, tolerance_s, threads=1):
        self._dataset, self._topics, self._episode = dataset, topics, episode
        self._tolerance_s, self._threads = tolerance_s, threads
        self.spacing = None
        self.name = episode.name
        self.task = self._first_task()
        self.path = f"{dataset.root}#{episode.name}"
        self.topics = topics.of_length(episode.length)
        videos = {
            topic: feature
            for topic, feature in zip(topics.names, topics.features, strict=True)
            if feature.kind == "video"
        }
        self.decoded = dict.fromkeys(videos, _BY_TAGS)
        self._videos = []  # the features of those that were read
        features = [
            [*vars(feature).values(), dataset.gates.get(feature.name)]
            for feature in topics.features
        ]
        files = [episode.table, *(video.path for video in episode.videos.values())]
        of_episode = [episode.number, episode.length, _tasks(dataset, episode), stamp_of(files)]
        of_video = [[key, each.begin_s] for key, each in episode.videos.items()]
        of_dataset = [FORMAT, dataset.fps, tolerance_s, features, _scaler() if videos else None]
        text = json.dumps([of_dataset, of_episode, of_video])
        self.made_of = hashlib.sha256(text.encode()).hexdigest()

    def _first_task(self):
        """If the table is damaged, `arrays` says so."""
        if len(self._episode.tasks) <= 1:
            return self._episode.tasks[0] if self._episode.tasks else None
        try:
            return self._tasks()[0]["task"]
        except (ValueError, OSError):
            return None

    def _instants(self):
        """As `lerobot_rows.instants`."""
        stamp_ns, seconds = lerobot_rows.instants(self._dataset, self._episode)
        self.spacing = frame_stamps.other_spacing(stamp_ns, self._dataset.fps)
        return stamp_ns, seconds

    def _tasks(self):
        """As `lerobot_rows.tasks`."""
        stamp_ns, _ = self._instants()
        return lerobot_rows.tasks(self._dataset, self._episode, stamp_ns)

    @property
    def span_ns(self):
        """The first and the last stamp. If the table is damaged, `arrays` says so."""
        try:
            stamp_ns, _ = self._instants()
        except (ValueError, OSError):
            ends = np.array([0, max(0, self._episode.length - 1)])
            stamp_ns = frame_stamps.at_ticks(ends, self._dataset.fps)
        return int(stamp_ns[0]), int(stamp_ns[-1])

    def arrays(self, wanted):
        """Yields the arrays of wanted topics in the order of their stamps: lists of (topic's index, stamp [ns], bytes).

        Args:
            wanted: for each topic whether it is read at all.

        Raises ValueError or OSError if the episode is damaged from there on.
        """
        stamp_ns, seconds = self._instants()
        sources = self._sources(wanted, stamp_ns, seconds)
        yield from batches(self.path, stamp_ns, sources)

    def about(self):
        """What the frames say of the episode: `task`; `tasks` if it changes; the `colours` of its
        videos, by feature.

        Raises ValueError or OSError if the episode is damaged.
        """
        tasks = self._tasks()
        said = {"task": tasks[0]["task"] if tasks else None}
        if len(tasks) > 1:
            said["tasks"] = tasks
        if self._videos:
            said["colours"] = {name: self._colours(name) for name in self._videos}
        return said

    def _colours(self, name):
        from .lerobot_frames import colours_at

        video = self._episode.videos[name]
        return colours_at(video.path, video.begin_s)

    def _sources(self, wanted, stamp_ns, seconds):
        """Iterators over the frames of wanted topics, each with its topics: for a frame one array of each, or None where
        it is not valid."""
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        of_kind = {
            kind: [at for at in chosen if self._topics.features[at].kind == kind]
            for kind in ("vector", "image", "video")
        }
        frame_stamps.expect_range(stamp_ns)
        sources = []
        if of_kind["vector"]:
            sources.append((of_kind["vector"], self._vectors(of_kind["vector"], len(stamp_ns))))
        if of_kind["image"]:
            sources.append((of_kind["image"], self._pictures(of_kind["image"])))
        for at in of_kind["video"]:
            sources.append(([at], self._video(self._topics.features[at], seconds)))
        self._videos = [self._topics.features[at].name for at in of_kind["video"]]
        if not self._dataset.gates:
            return sources
        return [(topics, self._valid(topics, frames)) for topics, frames in sources]

    def _valid(self, topics, frames):
        """The arrays of frames, with None in place of those that the dataset says are not valid."""
        names = [self._topics.features[topic].name for topic in topics]
        valid = [lerobot_rows.valid(self._dataset, self._episode, name) for name in names]
        for at, arrays in enumerate(frames):
            yield [
                array if of is None or of[at] else None
                for array, of in zip(arrays, valid, strict=True)
            ]

    def _vectors(self, chosen, length):
        names = [self._topics.features[at].name for at in chosen]
        columns = self._dataset.numbers(self._episode, names)
        for first in range(0, length, _BLOCK):
            rows = slice(first, min(first + _BLOCK, length))
            yield from zip(*(vectors(columns[name][rows]) for name in names), strict=True)

    def _pictures(self, chosen):
        features = [self._topics.features[at] for at in chosen]
        rows = self._dataset.pictures(self._episode, [feature.name for feature in features])
        for pictures in rows:
            pairs = list(zip(features, pictures, strict=True))
            yield sized_pictures(self.path, pairs, "meta/info.json")

    def _video(self, feature, seconds):
        from .lerobot_frames import frames

        video = self._episode.videos.get(feature.name)
        if video is None:
            raise ValueError(
                f"{self.path}: expected a video of {feature.name!r}, found none in meta/episodes"
            )
        if video.damage is not None:
            raise ValueError(video.damage)
        pixels = frames(
            video.path,
            (video.begin_s + seconds).tolist(),
            feature.shape,
            tolerance_s=self._tolerance_s,
            threads=self._threads,
        )
        for image in pixels:
            yield [image.tobytes()]


def _tasks(dataset, episode):
    """The tasks of an episode with their numbers, so that another text or number is another content."""
    try:
        numbers = dataset.task_numbers
    except (ValueError, OSError):  # `about` says so
        numbers = {}
    return [[task, numbers.get(task)] for task in episode.tasks]


def _scaler():
    """The version of the library that makes RGB: another one may round otherwise."""
    import av

    return av.library_versions.get("libswscale")
