"""The text of streams that the configurations of several tests have."""


def configuration(*streams, rate_hz=100, top=""):
    """A configuration of streams. `top` has further keys, a line each."""
    return f"rate_hz: {rate_hz}\n{top}streams:\n" + "".join(streams)


WRENCH = """\
  wrench:
    type: geometry_msgs/WrenchStamped
    topic: wrench
    max_age_ms: 50
    strategy: linear
    lag_ms: 20
"""


def camera(width, height, name="camera", layout="hwc", more=""):
    """Images as the policy takes them; `more` has further keys of the stream, a line each."""
    size = f"width: {width}, height: {height}"
    return f"""\
  {name}:
    type: sensor_msgs/Image
    topic: /camera
    max_age_ms: 100
    strategy: hold
    dtype: u8
    image: {{resize: {{{size}, fit: stretch, filter: pil_bilinear}}, layout: {layout}}}
{more}"""


def counts(name, where, dtype, max_age_ms=100, max_voxels=None, more=""):
    """Points per voxel, dense or (`max_voxels`) sparse. `where` has the topic or the inputs."""
    sparse = "" if max_voxels is None else f", output: sparse, max_voxels: {max_voxels}"
    return f"""\
  {name}:
    type: sensor_msgs/PointCloud2
    {where}
    max_age_ms: {max_age_ms}
    dtype: {dtype}
    cloud: {{origin_m: [0, 0, 0], size_m: 0.5, shape: [8, 6, 4], channels: [{{reduce: count}}]{sparse}}}
{more}"""
