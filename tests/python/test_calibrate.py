"""`robocache calibrate`: offsets of bags with a known motion, against scipy's correlation."""

import json

import configuration
import numpy as np
import pytest
import waiting
from bags import MS, T0, compressed, empty, header, image, made, vector, write_bag
from PIL import Image as Picture
from scipy.signal import correlate

SECONDS = 40


def calibrate(*arguments, expect=0):
    command = [configuration.program(), "calibrate", *arguments]
    done = waiting.run(command)
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def path(seed=4):
    """A position that moves and rests irregularly, as a function of time [s]."""
    random = np.random.default_rng(seed)
    time = np.arange(0, SECONDS + 1, 1e-3)
    speed = np.zeros_like(time)
    at = 0.0
    while at < SECONDS:
        length = random.uniform(0.25, 1.2)
        inside = (time >= at) & (time < at + length)
        sign = random.choice([-1, 1])
        speed[inside] = (
            sign * random.uniform(0.3, 1) * np.sin(np.pi * (time[inside] - at) / length) ** 2
        )
        at += length + random.uniform(0.1, 0.8)
    place = np.cumsum(speed) * 1e-3
    return lambda t: np.interp(t, time, place)


def recording(place, skew_ms, camera_hz=30, jpeg=False, seed=1):
    """Joints at 200 Hz, an IMU, and a camera whose stamps are `skew_ms` ahead: (topic, receive stamp, message)."""
    random = np.random.default_rng(seed)
    texture = random.integers(0, 256, (48, 512)).astype(float)
    columns = np.arange(64.0)
    messages = []
    for k in range(200 * SECONDS):
        t = k / 200
        ns = T0 + round(t * 1e9)
        fields = {"name": ["a", "b"], "position": np.array([place(t), -0.5 * place(t)])}
        joints = empty("sensor_msgs/msg/JointState", header=header(ns), **fields)
        messages.append(("/joints", ns + MS, joints))
        rate = (place(t + 1e-3) - place(t - 1e-3)) / 2e-3
        turn = vector("Vector3", 0, 0, rate + random.normal(0, 0.02))
        messages.append(
            (
                "/imu",
                ns + MS,
                empty("sensor_msgs/msg/Imu", header=header(ns), angular_velocity=turn),
            )
        )
    for k in range(camera_hz * SECONDS):
        if random.random() < 0.03:
            continue
        t = (k + random.uniform(-0.1, 0.1)) / camera_hz + 0.02
        shift = 256 + 60 * place(t)
        rows = [np.interp(columns + shift, np.arange(512.0), line) for line in texture]
        pixels = np.clip(np.array(rows) + random.normal(0, 3, (48, 64)), 0, 255).astype(np.uint8)
        ns = T0 + round((t + skew_ms / 1e3) * 1e9)
        if jpeg:
            message = compressed(
                ns, Picture.fromarray(pixels), "mono8; jpeg compressed", format="jpeg"
            )
        else:
            message = image(ns, np.repeat(pixels[:, :, None], 3, 2))
        messages.append(("/camera", T0 + round(t * 1e9) + 40 * MS, message))
    return sorted(messages, key=lambda entry: entry[1])


def by_scipy(messages):
    """The offset of the camera [ms] by an independent script: speeds at 1 kHz, without their mean."""

    def stamps(topic):
        of = [message.header.stamp for name, _, message in messages if name == topic]
        return np.array([stamp.sec * 10**9 + stamp.nanosec - T0 for stamp in of]) / 1e9

    joints = stamps("/joints")
    places = np.array([m.position for name, _, m in messages if name == "/joints"])
    camera = stamps("/camera")
    images = np.array([m.data.astype(float) for name, _, m in messages if name == "/camera"])
    time = np.arange(1, SECONDS - 1, 1e-3)
    both = []
    for at, speed in [
        (joints, np.linalg.norm(np.diff(places, axis=0), axis=1)),
        (camera, np.abs(np.diff(images, axis=0)).mean(1)),
    ]:
        speed = np.interp(time, (at[1:] + at[:-1]) / 2, speed / np.diff(at))
        both.append(np.sqrt(np.convolve(speed, np.ones(33) / 33, "same")))
    reference, motion = (values - values.mean() for values in both)
    curve = correlate(reference, motion)
    return np.argmax(curve) - (len(time) - 1)


@pytest.mark.parametrize(
    ("skew_ms", "hz", "jpeg"), [(35, 30, False), (-80, 15, False), (0, 30, True)]
)
def test_the_offset_of_a_camera_is_found_as_scipy_finds_it(tmp_path, skew_ms, hz, jpeg):
    messages = recording(path(), skew_ms, camera_hz=hz, jpeg=jpeg)
    bag = write_bag(tmp_path / "bag", messages)
    found = json.loads(calibrate(bag, "--reference", "/joints", "--stream", "/camera", "--json"))
    assert abs(found["offset_ms"] + skew_ms) < 2, found
    assert found["uncertainty_ms"] < 7 and not found["drifts"]
    assert found["motion"] == ["speed of the joints", "change of the image"]
    if not jpeg:
        assert abs(found["offset_ms"] - by_scipy(messages)) < 3
    turned = json.loads(calibrate(bag, "--reference", "/camera", "--stream", "/imu", "--json"))
    assert abs(turned["offset_ms"] - skew_ms) < 2, turned
    streams = (bag, "--reference", "/imu", "--stream", "/camera")
    words, found = calibrate(*streams), json.loads(calibrate(*streams, "--json"))
    # An interval that has zero is no reason to call the stamps early or late.
    has_zero = abs(found["offset_ms"]) <= found["uncertainty_ms"]
    assert has_zero == (skew_ms == 0) and "(95 %)" in words
    assert ("    stamp_offset_ms: " in words) != has_zero
    assert ("leave stamp_offset_ms of /camera as it is" in words) == has_zero
    assert ("too late" in words) == (skew_ms > 0) and ("too early" in words) == (skew_ms < 0)


def test_streams_of_a_configuration_and_offsets_that_it_has(tmp_path):
    bag = write_bag(tmp_path / "bag", recording(path(7), 35))
    config = tmp_path / "robot.yaml"
    config.write_text(
        "rate_hz: 30\nstreams:\n  arm: {type: sensor_msgs/JointState, topic: /joints, joints: [a], max_age_ms: 50}\n"
        "  eye:\n    type: sensor_msgs/Image\n    topic: /camera\n    max_age_ms: 100\n    stamp_offset_ms: -30\n"
        "    image: {resize: {width: 8, height: 8}}\n"
    )
    options = ("--reference", "arm", "--stream", "eye", "--config", config, "--json")
    found = json.loads(calibrate(bag, *options))
    assert abs(found["offset_ms"] + 5) < 2 and abs(found["stamp_offset_ms"] + 35) < 2


def test_a_name_that_means_several_inputs_is_an_error(tmp_path):
    bag = write_bag(tmp_path / "bag", recording(path(7), 35))
    config = tmp_path / "robot.yaml"
    config.write_text(
        "rate_hz: 30\nbase_frame: base\nstreams:\n  scan:\n    type: sensor_msgs/PointCloud2\n    max_age_ms: 50\n"
        "    cloud: {origin_m: [0, 0, 0], size_m: 1, shape: [2, 2, 2], channels: [{reduce: count}]}\n    inputs:\n"
        "      - {topic: /left}\n      - {topic: /right}\n"
        "  eye: {type: sensor_msgs/Image, topic: /camera, max_age_ms: 100, image: {resize: {width: 8, height: 8}}}\n"
        "  late:\n    {type: sensor_msgs/Image, topic: /camera, max_age_ms: 100, stamp_offset_ms: -30, image: {resize: {width: 8, height: 8}}}\n"
    )
    options = ("--stream", "eye", "--config", config, "--json")
    said = calibrate(bag, "--reference", "scan", *options, expect=1)
    assert "scan: expected one input, found the stream's /left, /right: name one" in said
    found = json.loads(calibrate(bag, "--reference", "/joints", *options))
    assert abs(found["offset_ms"] + 35) < 2
    options = ("--reference", "/joints", "--config", config)
    said = calibrate(bag, "--stream", "/camera", *options, expect=1)
    assert "/camera: expected one offset, found that of eye and another one of late" in said
    found = json.loads(calibrate(bag, "--stream", "late", *options, "--json"))
    assert abs(found["stamp_offset_ms"] + 35) < 2


def test_what_cannot_be_told_is_an_error_that_says_why(tmp_path):
    messages = recording(path(), 0)
    for k in range(100):
        messages.append(("/words", T0 + k * MS, made("std_msgs/msg/String", data="a")))
    still = [("/still", at, message) for topic, at, message in messages if topic == "/joints"]
    for _, _, message in still:
        message.position = np.ones(2)
    other = recording(path(9), 0, seed=5)
    messages += still + [("/elsewhere", at, m) for topic, at, m in other if topic == "/camera"]
    bag = write_bag(tmp_path / "bag", sorted(messages, key=lambda entry: entry[1]))
    for stream, why in [
        ("/nothing", "expected a topic of the bag, one of /camera, /elsewhere"),
        ("/words", "no number is in every message"),
        ("/still", "does not move"),
        ("/elsewhere", "expected two streams that see the same motion"),
    ]:
        said = calibrate(bag, "--reference", "/imu", "--stream", stream, expect=1)
        assert why in said, (stream, said)
