"""`robocache.Pipeline`: the tensors of `robocache replay`, in the program's process.

What the command writes for the same messages is the reference, byte for byte.
"""

import gc
import os
import sys
import threading

import numpy as np
import pytest
import waiting
import yaml
from bags import MS, T0, cloud, image, serialized, wrench, write_bag
from mcap.reader import make_reader
from wrench_robot import CONFIG, PERIOD

import robocache


@pytest.fixture(name="bag")
def bag_fixture(tmp_path):
    """One second of a wrench at 200 Hz and a camera at 20 Hz: (path, messages)."""
    draws = np.random.default_rng(7)
    messages = []
    for k in range(200):
        ns = T0 + k * 5 * MS
        messages.append(("/wrench", ns + 2 * MS, wrench(ns, *draws.normal(size=3))))
    for k in range(20):
        ns = T0 + k * 50 * MS
        pixels = draws.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        messages.append(("/camera", ns + 3 * MS, image(ns, pixels)))
    messages.sort(key=lambda entry: entry[1])
    path = tmp_path / "bag"
    write_bag(path, messages)
    return path, messages


@pytest.fixture(name="written")
def written_fixture(bag, tmp_path):
    """The tensors that the command writes of the bag: their bytes, in order."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "robocache", "replay", bag[0], "--config", config]
    command += ["--out", tmp_path / "out", "--backend", "cpu"]
    done = waiting.run(command)
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "bag.mcap").open("rb") as file:
        messages = make_reader(file).iter_messages(topics=["/fused_tensor"])
        return [message.data for _, _, message in messages]


def pushed(pipeline, messages):
    """Pushes the messages, and takes every tick when its instant has come."""
    tensors = []
    last = pipeline.number_at(messages[0][1] - 1)
    for topic, received, message in messages:
        newest = pipeline.number_at(received - 1)
        tensors += [pipeline.tick(number) for number in range(last + 1, newest + 1)]
        last = max(last, newest)
        assert pipeline.push(topic, serialized(message), received)
    tensors += [
        pipeline.tick(number) for number in range(last + 1, pipeline.number_at(messages[-1][1]) + 1)
    ]
    return tensors


def same_tensor(a, b):
    """Checks that two tensors have equal parts of equal types."""
    for part in ("run", "epoch", "tick", "stamp_ns", "frame_id", "digest"):
        assert getattr(a, part) == getattr(b, part), part
    assert list(a.segments) == list(b.segments) and bytes(a.data) == bytes(b.data)
    for name, segment in a.segments.items():
        for part in ("array", "valid", "target_ns", "age_ns", "count", "inputs_valid"):
            mine, other = getattr(segment, part), getattr(b[name], part)
            assert mine.dtype == other.dtype and mine.shape == other.shape, (name, part)
            assert not mine.flags.writeable
            np.testing.assert_array_equal(mine, other)


def test_ticks_are_the_bytes_of_the_command(bag, written):
    pipeline = robocache.Pipeline(CONFIG, "cpu", digest=True)
    tensors = pushed(pipeline, bag[1])
    assert len(tensors) == len(written) > 90
    for tensor, data in zip(tensors, written, strict=True):
        assert bytes(tensor.message) == data
        assert tensor.digest == robocache.digest_of(tensor) != 0
        same_tensor(tensor, robocache.decode(data))
    assert sum(tensor["wrench"].valid.all() for tensor in tensors) > 80


def test_what_is_dropped_says_why(bag):
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    good = serialized(wrench(T0, 1, 2, 3))
    result = pipeline.push("wrench", good, T0)
    assert result and result == (True, 1, None, None)
    cases = [
        (b"", "malformed"),
        (good[:-8], "malformed"),
        (serialized(wrench(0, 1, 2, 3)), "zero_stamp"),
        (serialized(wrench(T0 + 2000 * MS, 1, 2, 3)), "ahead"),
        (serialized(wrench(T0, np.nan, 2, 3)), "non_finite"),
    ]
    for message, reason in cases:
        result = pipeline.push("wrench", bytearray(message), T0)
        assert not result and result.reason == reason and result.detail
    (counts,) = [of for name, of in pipeline.stats()["inputs"].items() if name.startswith("wrench")]
    assert counts["received"] == 6 and counts["accepted"] == 1
    assert counts["dropped"] == {"malformed": 2, "zero_stamp": 1, "ahead": 1, "non_finite": 1}


def test_an_array_is_the_message_with_its_numbers(bag):
    by_message, by_array = (robocache.Pipeline(CONFIG, "cpu", digest=True) for _ in range(2))
    for topic, received, message in bag[1][:60]:
        stamp = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
        assert by_message.push(topic, serialized(message), received)
        if topic == "/wrench":
            force, torque = message.wrench.force, message.wrench.torque
            array = [force.x, force.y, force.z, torque.x, torque.y, torque.z]
            result = by_array.push_array("wrench", array, stamp, received)
        else:
            array = message.data.reshape(48, 64, 3)
            result = by_array.push_array(
                "camera", array, stamp, received, encoding=message.encoding
            )
        assert result == (True, 1, None, None)
    for number in range(by_message.number_at(T0) - 1, by_message.number_at(T0) + 30):
        a, b = by_message.tick(number), by_array.tick(number)
        assert bytes(a.message) == bytes(b.message)
    assert a["wrench"].valid.all() and a["camera"].valid.all()


def test_an_array_is_checked():
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    six, picture = np.zeros(6), np.zeros((48, 64, 3), np.uint8)
    assert pipeline.push_array("wrench", np.arange(12.0)[::2], T0)  # strided
    assert pipeline.push_array("wrench", np.array([1, 2, 3, 4, 5, 6], np.int16), T0 + 1)
    assert pipeline.push_array("wrench", [np.inf] * 6, T0 + 2).reason == "non_finite"
    assert pipeline.push_array("wrench", six, 0, T0).reason == "zero_stamp"
    assert pipeline.push_array("wrench", six, T0 + 2000 * MS, T0).reason == "ahead"
    for input, array, arguments, error in (
        (
            "wrench",
            np.zeros(5),
            {},
            r"wrench: expected \[6\] numbers: .*found float64 of shape \[5\]",
        ),
        ("wrench", np.zeros(6, complex), {}, "expected real numbers"),
        ("wrench", ["a"] * 6, {}, "expected real numbers"),
        ("wrench", six, {"encoding": "rgb8"}, "expected no encoding"),
        ("camera", six, {}, "expected elements of uint8"),
        ("camera", picture[..., :2], {}, "expected 3 channels of rgb8"),
        ("camera", picture, {"encoding": "rgba8"}, "expected 4 channels of rgba8"),
        ("camera", picture, {"encoding": "jpeg"}, "expected encoding mono8"),
        ("camera", picture[:0], {}, "expected an image"),
    ):
        with pytest.raises(ValueError, match=error):
            pipeline.push_array(input, array, T0, **arguments)
    with pytest.raises(TypeError, match="stamp_ns: expected an integer, found float"):
        pipeline.push_array("wrench", six, 1.5)
    with pytest.raises(KeyError, match="expected one of wrench, camera, found 'x'"):
        pipeline.push_array("x", six, T0)


def test_points_and_depth_are_those_of_messages():
    config = """
rate_hz: 10
streams:
  cloud:
    type: sensor_msgs/PointCloud2
    topic: cloud
    max_age_ms: 200
    cloud:
      origin_m: [-1, -1, -1]
      size_m: 0.5
      shape: [4, 4, 4]
      channels: [{reduce: count}, {reduce: max, field: intensity}, {reduce: mean, field: z}]
  depth:
    type: sensor_msgs/Image
    topic: depth
    max_age_ms: 200
    image: {depth: {max_m: 5.0}, resize: {width: 8, height: 6, fit: stretch}}
"""
    by_message, by_array = (robocache.Pipeline(config, "cpu", digest=True) for _ in range(2))
    draws = np.random.default_rng(3)
    points = draws.uniform(-1, 1, (50, 3)).astype(np.float32)
    assert by_message.push("cloud", serialized(cloud(T0, points)), T0)
    columns = np.column_stack([points, np.arange(50, dtype=np.float32)])
    names = ["x", "y", "z", "intensity"]
    assert by_array.push_array("cloud", columns, T0, fields=names)
    pixels = draws.integers(1, 4000, (24, 32), dtype=np.uint16)
    message = image(T0, np.zeros((24, 32, 3), np.uint8))
    message.encoding, message.step = "16UC1", 64
    message.data = pixels.view(np.uint8).reshape(-1)
    assert by_message.push("depth", serialized(message), T0)
    assert by_array.push_array("depth", pixels, T0)
    number = by_message.number_at(T0) + 1
    a, b = by_message.tick(number), by_array.tick(number)
    assert bytes(a.message) == bytes(b.message)
    assert a["cloud"].valid.all() and a["depth"].valid.all() and a["cloud"].array.any()

    result = by_array.push_array("cloud", columns[:, :3], T0 + 1)
    assert result.reason == "missing_field" and "intensity" in result.detail
    with pytest.raises(ValueError, match=r"expected points \[N, 3\]"):
        by_array.push_array("cloud", columns, T0)
    with pytest.raises(ValueError, match="expected elements of uint16 or float32"):
        by_array.push_array("depth", pixels.astype(">u2"), T0)
    with pytest.raises(ValueError, match="expected encoding 32FC1"):
        by_array.push_array("depth", pixels.astype(np.float32), T0, encoding="16UC1")


def test_a_view_keeps_its_memory():
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    number = pipeline.number_at(T0)
    arrays = []
    for k in range(40):
        pipeline.push_array("wrench", np.full(6, float(k)), T0 + k * PERIOD)
        arrays.append(pipeline.tick(number + k + 2)["wrench"].array)
    gc.collect()
    for k, array in enumerate(arrays):
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, np.full((1, 6), float(k), np.float32))
    addresses = {array.ctypes.data for array in arrays}
    del array, arrays
    gc.collect()
    again = [pipeline.tick(number + 50)["wrench"].array for _ in range(3)]
    # Memory without a view is used again, and not for two tensors at a time.
    assert len({view.ctypes.data for view in again} & addresses) == 3


def test_a_required_stream_holds_a_tick_back():
    config = yaml.safe_load(CONFIG)
    config["streams"]["wrench"]["required"] = True
    pipeline = robocache.Pipeline(config, "cpu")
    assert pipeline.tick(pipeline.number_at(T0)) is None
    pipeline.push_array("wrench", np.ones(6), T0)
    assert pipeline.tick_at(T0 + 20 * MS)["wrench"].valid.all()
    stats = pipeline.stats()
    assert stats["held_back_by"] == {"wrench": 1, "camera": 0}
    assert (stats["ticks"], stats["held_back"]) == (1, 1)
    assert pipeline.begin_epoch() == 1
    assert pipeline.tick_at(T0 + 20 * MS) is None
    assert pipeline.push_array("wrench", np.ones(6), T0)
    tensor = pipeline.tick_at(T0 + 20 * MS)
    assert (tensor.run, tensor.epoch) == (0, 1), "no node made it"


def test_the_layout_and_the_grid():
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    wrench_of, camera = pipeline.layout
    assert (wrench_of["name"], wrench_of["shape"], wrench_of["dtype"]) == ("wrench", [1, 6], "f32")
    assert len(wrench_of["channels"]) == 6 and camera["shape"] == [1, 12, 16, 3]
    assert pipeline.period_ns == PERIOD and pipeline.backend == "cpu"
    number = pipeline.number_at(T0)
    assert pipeline.stamp_of(number) <= T0 < pipeline.stamp_of(number + 1)
    tensor = pipeline.tick_at(T0)
    assert (tensor.tick, tensor.stamp_ns) == (number, pipeline.stamp_of(number))
    assert "wrench" in repr(pipeline)


def test_a_configuration_is_a_path_a_text_or_a_dict(tmp_path):
    path = tmp_path / "robot.yaml"
    path.write_text(CONFIG)
    layouts = [
        robocache.Pipeline(config, "cpu").layout
        for config in (path, str(path), CONFIG, yaml.safe_load(CONFIG))
    ]
    assert layouts.count(layouts[0]) == 4
    path.write_text("rate_hz: fast\n")
    with pytest.raises(ValueError, match=r"robot\.yaml:1: rate_hz: expected"):
        robocache.Pipeline(path)
    with pytest.raises(FileNotFoundError):
        robocache.Pipeline(tmp_path / "none.yaml")
    with pytest.raises(TypeError, match="expected a path, a text or a dict, found int"):
        robocache.Pipeline(3)
    for bad in ({"rate_hz": float("nan")}, {"rate_hz": object()}):
        with pytest.raises(ValueError, match="config: expected numbers"):
            robocache.Pipeline(bad)
    path.write_bytes(b"rate_hz: \xff\n")
    with pytest.raises(ValueError, match="expected UTF-8"):
        robocache.Pipeline(path)


def test_wrong_arguments_are_exceptions():
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    for call, kind, error in (
        (lambda: pipeline.push("none", b"", 0), KeyError, "expected one of .*camera.*, found none"),
        (lambda: pipeline.push(0, b"", 0), TypeError, "input: expected a str, found int"),
        (lambda: pipeline.push("wrench", "text", 0), TypeError, "expected the bytes of a message"),
        (lambda: pipeline.push("wrench", b"", 1.0), TypeError, "receive_ns: expected an integer"),
        (lambda: pipeline.push("wrench", b"", 2**63), ValueError, "an integer of 64 bits"),
        (lambda: pipeline.tick(None), TypeError, "number: expected an integer, found NoneType"),
        (lambda: robocache.Pipeline(CONFIG, "tpu"), ValueError, "backend: expected auto, cpu or"),
        (lambda: robocache.Pipeline(CONFIG, device=-1), ValueError, "device: expected the number"),
        (
            lambda: robocache.Pipeline(CONFIG, device=True),
            ValueError,
            "device: expected the number",
        ),
    ):
        with pytest.raises(kind, match=error):
            call()
    assert pipeline.tick(2**63 - 1) is not None and pipeline.tick(-(2**63)) is not None


def test_threads_push_while_another_ticks():
    pipeline = robocache.Pipeline(CONFIG, "cpu", digest=True)
    rows = 300
    messages = [serialized(wrench(T0 + k * MS, k, k, k)) for k in range(4 * rows)]

    def push(part):
        for k in range(part * rows, (part + 1) * rows):
            assert pipeline.push("wrench", messages[k], T0 + 4 * rows * MS)

    threads = [threading.Thread(target=push, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    ticks = 0
    while any(thread.is_alive() for thread in threads) or ticks < 10:
        tensor = pipeline.tick_at(T0 + 4 * rows * MS)
        assert tensor.digest == robocache.digest_of(tensor)
        ticks += 1
    for thread in threads:
        thread.join()
    (counts,) = [of for name, of in pipeline.stats()["inputs"].items() if name.startswith("wrench")]
    assert counts["received"] == 4 * rows


def test_a_forked_process_is_told_to_make_its_own():
    pipeline = robocache.Pipeline(CONFIG, "cpu")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            pipeline.tick(0)
            answer = "no error"
        except RuntimeError as error:
            answer = str(error)
        os.write(write, answer.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        answer = file.read()
    assert os.waitpid(child, 0)[1] == 0
    assert "make it after the fork" in answer
    assert pipeline.tick(0) is not None
