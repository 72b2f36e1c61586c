"""Episodes of a store of tensors become episodes of a LeRobot dataset."""

import math

import numpy as np
import pyarrow as pa

from .files import table_of
from .stats import Pixels, Rows
from .tensors import BLOCK
from .video import PngEncoder, opened

#: The most bytes of numbers that are read at once, and of rows that wait for a row group.
_HELD = 64 << 20


class Exporter:
    """Writes episodes of a store. It holds a bounded part of an episode in memory.

    Args:
        writer: a `DatasetWriter` of the columns.
        frames: a `Frames`.
        columns: of the dataset.
        encoder: a function of (path, shape) that returns an `Encoder`.
        pool: threads that read and encode images, a column each.
        folder: where an episode's videos are until they are complete.
    """

    def __init__(self, writer, frames, columns, encoder, pool, folder):
        self._writer, self._frames, self._pool = writer, frames, pool
        self._features = {column.key: column.feature for column in columns}
        self._columns = {
            kind: [column for column in columns if column.kind == kind]
            for kind in ("number", "image", "video")
        }
        self._encoder, self._folder = encoder, folder

    def write(self, first, end, task):
        """Writes ticks `first..end` as an episode."""
        counted = self._writer.begin(end - first, task)
        pixels = self._add_videos(first, end)
        statistics, of_pictures = self._add_rows(first, end, counted)
        pixels |= of_pictures
        statistics |= {key: of.result() for key, of in pixels.items()}
        self._writer.end(statistics, {key: of.counts for key, of in pixels.items()})

    def _add_videos(self, first, end):
        """Encodes the videos. Returns the `Pixels` of their images."""
        videos = [
            _Video(
                column,
                self._folder / f"{column.key}.mp4",
                column.valid(self._frames, first, end),
                self._encoder,
            )
            for column in self._columns["video"]
        ]
        for start, stop in _spans(first, end, BLOCK):
            self._each(videos, lambda video: video.add(self._frames, start, stop, start - first))
        for video in videos:
            video.close()
            with opened(video.path) as (stream, packets):
                self._writer.add_video(video.key, stream, packets)
            video.path.unlink()
        return {video.key: video.pixels for video in videos}

    def _add_rows(self, first, end, counted):
        """Writes the rows. Returns the statistics of their numbers, and the `Pixels` of their images."""
        numbers = _Numbers(self._frames, self._columns["number"], first, end)
        pictures = [
            _Pictures(column, column.valid(self._frames, first, end))
            for column in self._columns["image"]
        ]
        waiting = []
        for start, stop in numbers.spans:
            of_span = numbers.read(start, stop)
            numbers.count(start, of_span)
            for at, until in _spans(start, stop, BLOCK if pictures else stop - start):
                values = {key: array[at - first : until - first] for key, array in counted.items()}
                values |= {key: of[at - start : until - start] for key, of in of_span.items()}
                values |= self._each(
                    pictures, lambda each: each.read(self._frames, at, until, at - first)
                )
                waiting.append(table_of(self._writer.schema, self._features, values))
                if sum(rows.nbytes for rows in waiting) > _HELD:
                    self._writer.write(pa.concat_tables(waiting))
                    waiting = []
        if waiting:
            self._writer.write(pa.concat_tables(waiting))
        return numbers.result(), {each.key: each.pixels for each in pictures}

    def _each(self, columns, call):
        """What `call` returns for each of these columns, by key. They run at once."""
        results = self._pool.map(call, columns)
        return dict(zip([column.key for column in columns], results, strict=True))


class _Numbers:
    """The columns of an episode that are no images, and their statistics: those of its valid values. If a column has none,
    they are those of all, and their `count` is 0.

    Attributes:
        spans: parts of the episode that are read at once.
    """

    def __init__(self, frames, columns, first, end):
        self._frames, self._columns, self._first = frames, columns, first
        bytes_of_tick = sum(
            np.dtype(column.feature["dtype"]).itemsize * math.prod(column.feature["shape"])
            for column in columns
        )
        self.spans = list(_spans(first, end, max(1, _HELD // bytes_of_tick)))
        self._only = None
        self._statistics = {column.key: Rows() for column in columns}
        self._valid = {column.key: column.valid(frames, first, end) for column in columns}
        self._without = {key for key, valid in self._valid.items() if not valid.any()}
        for span in self.spans:
            for key, values in self._counting(span[0], self.read(*span)):
                self._statistics[key].measure(values)

    def read(self, start, stop):
        """The values of these ticks: a dict of column to array."""
        if self._only is None:
            found = {column.key: column.read(self._frames, start, stop) for column in self._columns}
            if len(self.spans) > 1:
                return found
            self._only = found
        return self._only

    def count(self, start, values):
        """Counts the values of a span for the quantiles."""
        for key, block in self._counting(start, values):
            self._statistics[key].count(block)

    def result(self):
        """The statistics, when all spans are counted."""
        found = {key: statistics.result() for key, statistics in self._statistics.items()}
        for key in self._without:
            found[key]["count"] = np.array([0])
        return found

    def _counting(self, start, values):
        """Yields (key, values): the values of a span that count."""
        for key, block in values.items():
            use = self._valid[key][start - self._first :][: len(block)]
            yield key, block if key in self._without or use.all() else block[use]


class _Video:
    """A column of an episode that becomes a video."""

    def __init__(self, column, path, valid, encoder):
        self.key, self.path, self._read = column.key, path, column.read
        self.pixels = Pixels(valid)
        self._encoder = encoder(path, column.feature["shape"])

    def add(self, frames, start, stop, number):
        images = self._read(frames, start, stop)
        self.pixels.add(number, images)
        self._encoder.add(images)

    def close(self):
        self._encoder.close()


class _Pictures:
    """A column of an episode that becomes PNG files in the rows."""

    def __init__(self, column, valid):
        self.key, self._read = column.key, column.read
        self.pixels = Pixels(valid)
        self._encoder = PngEncoder(column.feature["shape"])

    def read(self, frames, start, stop, number):
        images = self._read(frames, start, stop)
        self.pixels.add(number, images)
        files = self._encoder.add(images)
        return [f"frame-{at:06}.png" for at in range(number, number + len(files))], files


def _spans(first, end, most):
    """Parts of `first..end`. Each has at most `most` ticks."""
    for start in range(first, end, most):
        yield start, min(start + most, end)
