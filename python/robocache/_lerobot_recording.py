"""An episode of a LeRobot dataset as a recording: its features as topics, its frames as messages.

The native replay takes a recording as it takes a bag.
"""

import hashlib
import json

import numpy as np

from . import _frame_stamps, _ros_messages
from ._dataset import batches, joint_names, picture_messages, stamp_of
from ._frame_stamps import STAMPS

#: Of what messages are made of. It changes if the same files give other messages.
FORMAT = 1
#: Frames whose vectors are serialized at once.
_BLOCK = 256


class Recording:
    """An episode, as the native replay reads it.

    Each iteration of `messages` opens the files for itself, so several threads may read at once.

    Attributes:
        name, task: of the episode.
        path: the folder of the dataset, `#` and the name: errors name it.
        made_of: a text that changes if the content may differ.
        topics: a list of (topic, ROS type, number of messages).
    """

    def __init__(self, dataset, topics, episode, *, tolerance_s, threads=1):
        self._dataset, self._topics, self._episode = dataset, topics, episode
        self._tolerance_s, self._threads = tolerance_s, threads
        self.name = episode.name
        self.task = _task(dataset, episode)
        self.path = f"{dataset.root}#{episode.name}"
        pairs = zip(topics.names, topics.types(), strict=True)
        self.topics = [(name, kind, episode.length) for name, kind in pairs]
        features = [[*vars(feature).values()] for feature in topics.features]
        files = [episode.table, *(video.path for video in episode.videos.values())]
        of_episode = [episode.number, episode.length, stamp_of(files)]
        of_video = [[key, each.begin_s] for key, each in episode.videos.items()]
        of_dataset = [FORMAT, dataset.fps, tolerance_s, features]
        text = json.dumps([of_dataset, of_episode, of_video])
        self.made_of = hashlib.sha256(text.encode()).hexdigest()

    @property
    def span_ns(self):
        """The first and the last stamp. If the table is damaged, `messages` says so."""
        try:
            stamp_ns = self._instants()[0]
        except (ValueError, OSError):
            ends = np.array([0, max(0, self._episode.length - 1)])
            stamp_ns = _frame_stamps.at_ticks(ends, self._dataset.fps)
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

    def _instants(self):
        """The stamps of the frames [ns], and their instants in the episode [s]."""
        dataset, episode = self._dataset, self._episode
        has_stamps = dataset.has_stamps
        names = ["timestamp", "frame_index", *([STAMPS] if has_stamps else [])]
        columns = dataset.numbers(episode, names)
        seconds = columns["timestamp"].astype(np.float64)
        frames = columns["frame_index"].astype(np.int64)
        if not len(frames):
            raise ValueError(f"{self.path}: expected a frame or more, found none")
        # NaN is not even, and its rounding is no stamp.
        if not np.isfinite(seconds).all():
            raise ValueError(f"{self.path}: expected finite timestamps, found others")
        if _frame_stamps.is_even(seconds, frames, dataset.fps).all():
            # A frame is at a tick: the period of ticks is a whole number of nanoseconds.
            stamp_ns = _frame_stamps.at_ticks(frames, dataset.fps)
            seconds = _frame_stamps.exact_ns(frames, dataset.fps) / 1e9
        else:
            stamp_ns = _frame_stamps.rounded_ns(seconds) + _frame_stamps.period_ns(dataset.fps)
        if has_stamps:
            stamp_ns = columns[STAMPS].astype(np.int64)
        back = np.flatnonzero(np.diff(stamp_ns) <= 0)
        if len(back):
            raise ValueError(
                f"{self.path}: expected increasing stamps, found {stamp_ns[back[0] + 1]} ns after "
                f"{stamp_ns[back[0]]} ns at frame {back[0] + 1}"
            )
        return stamp_ns, seconds

    def _sources(self, wanted, stamp_ns, seconds):
        """Iterators over the frames of wanted topics, each with its topics: for a frame one message of each."""
        chosen = [at for at, is_wanted in enumerate(wanted) if is_wanted]
        of_kind = {
            kind: [at for at in chosen if self._topics.features[at].kind == kind]
            for kind in ("vector", "image", "video")
        }
        stamps = [stamp.tobytes() for stamp in _ros_messages.stamps(stamp_ns)]
        sources = []
        if of_kind["vector"]:
            sources.append((of_kind["vector"], self._vectors(of_kind["vector"], stamp_ns)))
        if of_kind["image"]:
            sources.append((of_kind["image"], self._pictures(of_kind["image"], stamps)))
        for at in of_kind["video"]:
            sources.append(([at], self._video(self._topics.features[at], stamps, seconds)))
        return sources

    def _vectors(self, chosen, stamp_ns):
        features = [self._topics.features[at] for at in chosen]
        columns = self._dataset.numbers(self._episode, [feature.name for feature in features])
        for first in range(0, len(stamp_ns), _BLOCK):
            rows = slice(first, first + _BLOCK)
            yield from zip(
                *(
                    _ros_messages.joint_states(
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
        from ._lerobot_frames import frames

        video = self._episode.videos.get(feature.name)
        if video is None:
            raise ValueError(
                f"{self.path}: expected a video of {feature.name!r}, found none in meta/episodes"
            )
        images = _ros_messages.Images(*feature.shape)
        pixels = frames(
            video.path,
            (video.begin_s + seconds).tolist(),
            feature.shape,
            tolerance_s=self._tolerance_s,
            threads=self._threads,
        )
        for stamp, image in zip(stamps, pixels, strict=False):
            yield [images.message(stamp, np.ascontiguousarray(image))]


def _task(dataset, episode):
    """The task of an episode. If its table is damaged, `messages` says so."""
    try:
        return dataset.task(episode)
    except (ValueError, OSError):
        return None
