"""An episode of a LeRobot dataset as a recording: its features as topics, its frames as messages.

The native replay takes a recording as it takes a bag.
"""

import hashlib
import json

import numpy as np

from . import frame_stamps, lerobot_rows, ros_messages
from .dataset import batches, joint_names, picture_messages, stamp_of

#: Of what messages are made of. It changes if the same files give other messages.
FORMAT = 2
#: How the pixels of a video are made.
_BY_TAGS = "video; matrix and range by its tags, without a tag BT.601 of limited range"
#: Frames whose vectors are serialized at once.
_BLOCK = 256


class Recording:
    """An episode, as the native replay reads it.

    Each iteration of `messages` opens the files for itself, so several threads may read at once.

    Attributes:
        name: of the episode.
        task: that of the dataset's metadata; of several that of the first frame. `about` has those of all frames.
        path: the folder of the dataset, `#` and the name: errors name it.
        made_of: a text that changes if the content may differ.
        topics: a list of (topic, ROS type, number of frames).
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
        pairs = zip(topics.names, topics.types(), strict=True)
        self.topics = [(name, kind, episode.length) for name, kind in pairs]
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
        """If the table is damaged, `messages` says so."""
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
        """The first and the last stamp. If the table is damaged, `messages` says so."""
        try:
            stamp_ns, _ = self._instants()
        except (ValueError, OSError):
            ends = np.array([0, max(0, self._episode.length - 1)])
            stamp_ns = frame_stamps.at_ticks(ends, self._dataset.fps)
        return int(stamp_ns[0]), int(stamp_ns[-1])

    def messages(self, wanted):
        """Yields the messages of wanted topics in the order of their stamps: lists of (topic's index, stamp [ns], bytes).

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
        """Iterators over the frames of wanted topics, each with its topics: for a frame one message of each, or None where
        it is not valid."""
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        of_kind = {
            kind: [at for at in chosen if self._topics.features[at].kind == kind]
            for kind in ("vector", "image", "video")
        }
        stamps = [stamp.tobytes() for stamp in ros_messages.stamps(stamp_ns)]
        sources = []
        if of_kind["vector"]:
            sources.append((of_kind["vector"], self._vectors(of_kind["vector"], stamp_ns)))
        if of_kind["image"]:
            sources.append((of_kind["image"], self._pictures(of_kind["image"], stamps)))
        for at in of_kind["video"]:
            sources.append(([at], self._video(self._topics.features[at], stamps, seconds)))
        self._videos = [self._topics.features[at].name for at in of_kind["video"]]
        if not self._dataset.gates:
            return sources
        return [(topics, self._valid(topics, messages)) for topics, messages in sources]

    def _valid(self, topics, frames):
        """The messages of frames, with None in place of those that the dataset says are not valid."""
        names = [self._topics.features[topic].name for topic in topics]
        valid = [lerobot_rows.valid(self._dataset, self._episode, name) for name in names]
        for at, messages in enumerate(frames):
            yield [
                message if of is None or of[at] else None
                for message, of in zip(messages, valid, strict=True)
            ]

    def _vectors(self, chosen, stamp_ns):
        features = [self._topics.features[at] for at in chosen]
        columns = self._dataset.numbers(self._episode, [feature.name for feature in features])
        for first in range(0, len(stamp_ns), _BLOCK):
            rows = slice(first, first + _BLOCK)
            yield from zip(
                *(
                    ros_messages.joint_states(
                        joint_names(feature), columns[feature.name][rows], stamp_ns[rows]
                    )
                    for feature in features
                ),
                strict=True,
            )

    def _pictures(self, chosen, stamps):
        features = [self._topics.features[at] for at in chosen]
        rows = self._dataset.pictures(self._episode, [feature.name for feature in features])
        for stamp, pictures in zip(stamps, rows, strict=False):
            pairs = list(zip(features, pictures, strict=True))
            yield picture_messages(self.path, pairs, stamp, "meta/info.json")

    def _video(self, feature, stamps, seconds):
        from .lerobot_frames import frames

        video = self._episode.videos.get(feature.name)
        if video is None:
            raise ValueError(
                f"{self.path}: expected a video of {feature.name!r}, found none in meta/episodes"
            )
        images = ros_messages.Images(*feature.shape)
        if video.damage is not None:
            raise ValueError(video.damage)
        pixels = frames(
            video.path,
            (video.begin_s + seconds).tolist(),
            feature.shape,
            tolerance_s=self._tolerance_s,
            threads=self._threads,
        )
        for stamp, image in zip(stamps, pixels, strict=False):
            yield [images.message(stamp, np.ascontiguousarray(image))]


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
