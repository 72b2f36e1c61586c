"""What the policy sees, published for RViz and Foxglove."""

import numpy as np
from fusion import MS, T0, nanoseconds, segments, stamped, start_fusion, streams
from sensor_msgs.msg import Image
from test_clouds import CLOUD, cloud_message
from visualization_msgs.msg import Marker, MarkerArray

SIZE = 16
CAMERA = {
    "type": "sensor_msgs/msg/Image",
    "dtype": "f32",
    "history": {"steps": 2, "step_ms": 10},
    "max_age_ms": 50,
    "image": {
        "resize": {"width": SIZE, "height": SIZE},
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
    },
}
VISUALIZE = ["-p", "visualize_hz:=20.0"]
RED = (255, 0, 0)


def pixels(seed):
    """Random pixels, none of them red."""
    random = np.random.default_rng(seed)
    return random.integers(0, 255, (SIZE, SIZE, 3), np.uint8, endpoint=False)


def image_message(ns, rgb):
    height, width, channels = rgb.shape
    return stamped(
        Image,
        ns,
        width=width,
        height=height,
        encoding="rgb8",
        step=channels * width,
        data=rgb.tobytes(),
    )


def received(ros, kind, topic):
    """A list that fills with the messages of a view."""
    messages = []
    ros.node.create_subscription(kind, topic, messages.append, 10)
    return messages


def stamp_of(message):
    """The stamp of an image, or of the first marker."""
    markers = getattr(message, "markers", None)
    return (markers[0] if markers else message).header.stamp


def served_until_seen(fusion, messages, first_ns, send=lambda ns: None):
    """Ticks until a view of one of them comes, after `send(ns)` before each.

    Returns the view, the segments of its tick, and the instant of the last tick.
    """
    last_ns = first_ns - fusion.period_ns

    def views():
        return [message for message in messages if nanoseconds(stamp_of(message)) >= first_ns]

    def ticked():
        nonlocal last_ns
        last_ns += fusion.period_ns
        send(last_ns)
        fusion.tick(last_ns)
        return fusion.ros.spin_for(0.2, until=views)

    fusion.until(ticked, "a view")
    seen = views()[-1]
    tick = fusion.tick_of(nanoseconds(stamp_of(seen)))
    return seen, segments(fusion.tensors[tick]), last_ns


def test_an_image_is_shown_as_it_was_sent_and_crossed_out_if_it_is_old(ros, start, tmp_path):
    config = {"base_frame": "torso", "streams": streams(camera=CAMERA)}
    config["streams"]["camera"]["fill"] = "last"
    fusion = start_fusion(ros, start, tmp_path, config, *VISUALIZE).warm_up()
    views = received(ros, Image, "fused_tensor/view/camera")
    fusion.until(lambda: ros.node.count_publishers("/fused_tensor/view/camera") == 1, "a view")
    sent = pixels(1)
    seen, tensor, last_ns = served_until_seen(
        fusion, views, T0, lambda ns: fusion.send("/camera", image_message(ns, sent))
    )
    assert tensor["camera"].valid[-1]
    assert nanoseconds(seen.header.stamp) == tensor["camera"].target_ns[-1]
    assert (seen.header.frame_id, seen.encoding) == ("torso", "rgb8")
    assert (seen.width, seen.height, seen.step) == (SIZE, SIZE, 3 * SIZE)
    shown = np.frombuffer(bytes(seen.data), np.uint8).reshape(sent.shape)
    np.testing.assert_array_equal(shown, sent)

    seen, tensor, _ = served_until_seen(fusion, views, last_ns + 500 * MS)
    assert not tensor["camera"].valid[-1]
    shown = np.frombuffer(bytes(seen.data), np.uint8).reshape(sent.shape)
    red = (shown == RED).all(axis=2)
    assert red[0].all() and red[:, 0].all() and red.diagonal().all()
    np.testing.assert_array_equal(shown[~red], sent[~red])
    assert 0 < red.mean() < 0.6


def test_a_grid_is_shown_as_cubes_where_its_points_are(ros, start, tmp_path):
    config = {"base_frame": "torso", "streams": CLOUD}
    fusion = start_fusion(ros, start, tmp_path, config, *VISUALIZE).warm_up()
    views = received(ros, MarkerArray, "fused_tensor/view/cloud")
    random = np.random.default_rng(5)
    points = {
        "x": random.uniform(-3, 3, 200).astype("f4"),
        "y": random.uniform(-3, 3, 200).astype("f4"),
        "z": random.uniform(-1, 1, 200).astype("f4"),
        "intensity": random.uniform(1, 9, 200).astype("f4"),
        "ring": random.integers(1, 9, 200).astype("u2"),
    }
    layout = [("x", "f4", 0), ("y", "f4", 4), ("z", "f4", 8), ("intensity", "f4", 12)]
    layout.append(("ring", "u2", 16))
    seen, tensor, last_ns = served_until_seen(
        fusion,
        views,
        T0,
        lambda ns: fusion.send("/cloud", cloud_message(ns, points, layout, big_endian=False)),
    )
    cubes, edges = seen.markers
    spec = CLOUD["cloud"]["cloud"]
    grid = tensor["cloud"].array[-1]
    z, y, x = np.nonzero(grid.any(axis=0))
    expected = np.array(spec["origin_m"]) + (np.stack([x, y, z], axis=1) + 0.5) * spec["size_m"]
    assert len(expected) > 20
    shown = np.array([(p.x, p.y, p.z) for p in cubes.points])
    np.testing.assert_allclose(shown, expected, atol=1e-12)
    assert cubes.type == Marker.CUBE_LIST and len(cubes.colors) == len(cubes.points)
    assert (cubes.scale.x, cubes.scale.y, cubes.scale.z) == (spec["size_m"],) * 3
    assert cubes.header.frame_id == edges.header.frame_id == "torso"
    assert nanoseconds(cubes.header.stamp) == tensor["cloud"].target_ns[-1]
    # The brighter, the higher the mean intensity, which is the first value of the points.
    mean = grid[2][z, y, x]
    green = np.array([color.g for color in cubes.colors])
    assert np.all(np.diff(green[np.argsort(mean)]) >= -1e-3)
    assert edges.type == Marker.LINE_LIST and len(edges.points) == 24
    assert not any(color == edges.colors[0] for color in cubes.colors)

    seen, tensor, _ = served_until_seen(fusion, views, last_ns + 500 * MS)
    assert not tensor["cloud"].valid[-1]
    assert all((c.r, c.g, c.b) == (1.0, 0.0, 0.0) for c in seen.markers[1].colors)


def test_views_are_off_at_first_and_wait_for_a_subscriber(ros, start, tmp_path):
    config = {"streams": streams(camera=CAMERA)}
    start_fusion(ros, start, tmp_path, config).warm_up()
    names = [name for name, _ in ros.node.get_topic_names_and_types()]
    assert not [name for name in names if "/view/" in name]


def test_a_configuration_without_images_says_that_nothing_is_shown(ros, start, tmp_path):
    wrench = {"type": "geometry_msgs/msg/WrenchStamped"}
    fusion = start_fusion(ros, start, tmp_path, {"streams": streams(w=wrench)}, *VISUALIZE)
    fusion.process.wait_for("visualize_hz: no stream of images or clouds can be shown")
    fusion.warm_up()
