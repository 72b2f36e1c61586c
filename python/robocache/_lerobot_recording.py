"""An episode of a LeRobot dataset as a recording: its features as topics, its frames as messages.

The native replay takes a recording as it takes a bag.
"""

import hashlib
import json
import re

import numpy as np

from . import _frame_stamps, _ros_messages
from ._lerobot_tables import picture_size
from .lerobot_dataset import STAMPS, stamp_of_files

#: Of what messages are made of. It changes if the same files give other messages.
FORMAT = 1
#: Messages and bytes of a batch, and frames whose vectors are serialized at once.
_MESSAGES, _BYTES, _BLOCK = 64, 2_000_000, 256

_TYPES = {
    "vector": _ros_messages.JOINT_STATE,
    "video": _ros_messages.IMAGE,
    "image": _ros_messages.COMPRESSED_IMAGE,
}
_SUFFIX = ".position"
#: What a JointState may have, as in `crates/core/src/input/joints.rs`.
_MAX_JOINTS = 4096


class Topics:
    """The topics of a dataset.

    Attributes:
        features: the features that are topics, in their order.
        names: their topics.
        renamed: the names of features that are not those of their topics, by topic.
        left_out: a dict by name of other features: why.
    """

    def __init__(self, dataset):
        self.features, self.names, self.renamed = [], [], {}
        self.left_out = dict(dataset.left_out)
        for feature in dataset.features.values():
            if len(feature.names) > _MAX_JOINTS:
                self.left_out[feature.name] = f"{len(feature.names)} numbers, at most {_MAX_JOINTS}"
            elif feature.name != STAMPS:
                self.features.append(feature)
        for feature in self.features:
            plain = "/" + feature.name.replace(".", "/")
            name = _allowed(plain)
            while name in self.names:
                name += "_"
            self.names.append(name)
            if name != plain:
                self.renamed[name] = feature.name

    def types(self):
        return [_TYPES[feature.kind] for feature in self.features]


def joint_names(feature):
    """The joints of a vector. The channel of a joint is `NAME.position`, so that ending is left out."""
    names = feature.names
    if all(name.endswith(_SUFFIX) and len(name) > len(_SUFFIX) for name in names):
        return [name.removesuffix(_SUFFIX) for name in names]
    return list(names)


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
        of_episode = [episode.number, episode.length, stamp_of_files(episode)]
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
        batch, size, damage = [], 0, None
        for at, received in enumerate(stamp_ns.tolist()):
            try:
                for topics, source in sources:
                    found = next(source, None)
                    if found is None:
                        raise ValueError(
                            f"{self.path}: expected {self._episode.length} frames, found {at}"
                        )
                    for topic, message in zip(topics, found, strict=True):
                        batch.append((topic, received, message))
                        size += len(message)
            except (ValueError, OSError) as error:
                damage = error
                break
            if len(batch) >= _MESSAGES or size >= _BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
        if damage is not None:
            raise damage

    def _instants(self):
        """The stamps of the frames [ns], and their instants in the episode [s]."""
        dataset, episode = self._dataset, self._episode
        has_stamps = STAMPS in dataset.columns
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
            kind: [at for at in chosen if self._topics.features[at].kind == kind] for kind in _TYPES
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
            for feature, picture in zip(features, pictures, strict=True):
                size = picture_size(picture)
                if size != feature.shape:
                    raise ValueError(
                        f"{self.path}: expected pictures of {_by(feature.shape)} in {feature.name!r} as in "
                        f"meta/info.json, found {'neither PNG nor JPEG' if size is None else _by(size)}"
                    )
            yield [_ros_messages.compressed_image(stamp, picture) for picture in pictures]

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


def _by(size):
    return f"{size[0]} x {size[1]}"


def _allowed(topic):
    """A topic with only what ROS allows: words of letters, digits and _, which begin with no digit."""
    words = [re.sub(r"[^A-Za-z0-9_]", "_", word) for word in topic.split("/") if word]
    return "".join(f"/{'_' if word[0].isdigit() else ''}{word}" for word in words) or "/_"
