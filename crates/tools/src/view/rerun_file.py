"""Writes a Rerun recording of tensors: `robocache view --rerun FILE.rrd` runs this file.

    python3 rerun_file.py SCENE_FOLDER FILE.rrd

`scene.json` in the folder lists the content, and names a file for each array. It needs rerun-sdk and
NumPy, and nothing of robocache.
"""

import json
import sys
from pathlib import Path


def times(rr, stamps_ns):
    """Instants as a column."""
    import numpy as np

    stamps = np.array(stamps_ns, dtype="datetime64[ns]")
    return [rr.TimeColumn("time", timestamp=stamps)]


def write(folder, output):
    """Writes the recording."""
    import numpy as np
    import rerun as rr

    scene = json.loads((folder / "scene.json").read_text(encoding="utf-8"))
    recording = rr.RecordingStream(scene["application"], recording_id=scene["recording"])
    recording.save(output)

    def array(name, kind, shape):
        return np.fromfile(folder / name, dtype=kind).reshape(shape)

    def at(stamp_ns):
        recording.set_time("time", timestamp=np.datetime64(stamp_ns, "ns"))

    for entity in scene["entities"]:
        path, kind = entity["path"], entity["kind"]
        if kind == "scalars":
            values = array(entity["file"], "<f8", -1)
            if len(values) == 0:
                continue
            if "marker" in entity:
                marker, color = entity["marker"]
                style = rr.SeriesPoints(colors=[color], markers=[marker], marker_sizes=[3.0])
                recording.log(path, style, static=True)
            columns = rr.Scalars.columns(scalars=values)
            indexes = times(rr, entity["times_ns"])
            recording.send_columns(path, indexes=indexes, columns=columns)
            if gaps := entity.get("gaps_ns"):
                # A line has a gap behind each.
                columns = rr.Clear.columns(is_recursive=[False] * len(gaps))
                recording.send_columns(path, indexes=times(rr, gaps), columns=columns)
            continue
        for stamp_ns, item in zip(entity["times_ns"], entity.get("items", [])):
            at(stamp_ns)
            if kind == "texts":
                recording.log(path, rr.TextLog(item))
            elif kind == "image":
                pixels = array(item, "u1", (entity["height"], entity["width"], 3))
                recording.log(path, rr.Image(pixels))
            elif kind == "depth":
                depth = array(item, "<f4", (entity["height"], entity["width"]))
                recording.log(path, rr.DepthImage(depth, meter=1.0))
            elif kind == "voxels":
                voxels = array(item, "<f4", (-1, 4))
                half = np.full((len(voxels), 3), entity["size_m"] / 2, np.float32)
                value = voxels[:, 3]
                spread = float(np.ptp(value)) if len(value) else 0.0
                share = (value - value.min()) / spread if spread else np.zeros(len(value))
                colors = np.stack([255 * share, 80 + 140 * share, 255 * (1 - share)], axis=1)
                boxes = rr.Boxes3D(
                    centers=voxels[:, :3],
                    half_sizes=half,
                    colors=colors.astype(np.uint8),
                    fill_mode="solid",
                )
                recording.log(path, boxes)
    recording.flush()


def main():
    try:
        import rerun
    except ImportError as error:
        sys.exit(f"--rerun needs rerun-sdk: install it with `pip install rerun-sdk` ({error})")
    needed = (
        "RecordingStream",
        "TimeColumn",
        "Scalars",
        "Clear",
        "SeriesPoints",
        "TextLog",
        "Boxes3D",
        "DepthImage",
        "Image",
    )
    if missing := [name for name in needed if not hasattr(rerun, name)]:
        version = getattr(rerun, "__version__", "unknown")
        sys.exit(
            f"--rerun needs rerun-sdk 0.23 or newer, found {version} without {', '.join(missing)}"
        )
    write(Path(sys.argv[1]), sys.argv[2])


if __name__ == "__main__":
    main()
