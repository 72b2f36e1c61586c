"""The form of Isaac ROS 4 (`output_type: isaac_tensor_list`), element by element against the FusedTensor of the same tick."""

import itertools

import numpy as np
from fusion import MS, T0, WRENCH, nanoseconds, start_fusion, streams, wrench
from isaac_ros_tensor_list_interfaces.msg import TensorList
from PIL import Image as Pillow
from test_clouds import cloud_message
from test_images import image_message

CONFIG = {
    "base_frame": "body",
    "streams": streams(
        wrench={**WRENCH, "history": {"steps": 3, "step_ms": 10}},
        camera={
            "type": "sensor_msgs/msg/Image",
            "dtype": "u8",
            "image": {"resize": {"width": 24, "height": 16, "fit": "stretch"}},
        },
        cloud={
            "type": "sensor_msgs/msg/PointCloud2",
            "cloud": {
                "origin_m": [-1.0, -1.0, -1.0],
                "size_m": 0.25,
                "shape": [8, 8, 8],
                "channels": [{"reduce": "count"}],
                "output": "sparse",
                "max_voxels": 20,
            },
        },
    ),
}
#: Isaac's data_type to NumPy's.
TYPES = {2: "u1", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<f4"}
PER_STEP = {"valid": 2, "target_ns": 7, "age_ns": 7, "count": 6, "inputs_valid": 6}


#: The node that publishes lists.
SECOND = "/isaac"


def tensors_of(message):
    """The arrays of a TensorList by name; checks what must hold for each."""
    found = {}
    for tensor in message.tensors:
        shape = list(tensor.shape.dims)
        assert tensor.shape.rank == len(shape) and tensor.name not in found
        array = np.frombuffer(bytes(tensor.data), TYPES[tensor.data_type]).reshape(shape)
        assert list(tensor.strides) == list(array.strides)
        found[tensor.name] = array, tensor.data_type
    return found


def test_a_list_has_the_bits_of_the_fused_tensor(ros, start, tmp_path):
    config = {**CONFIG, "streams": {k: {**v} for k, v in CONFIG["streams"].items()}}
    fusion = start_fusion(ros, start, tmp_path, config).warm_up()
    lists = {}
    ros.node.create_subscription(
        TensorList, "isaac", lambda message: lists.update({stamp_of(message): message}), 100
    )
    parameters = {
        "config_file": tmp_path / "config.yaml",
        "use_sim_time": "true",
        "diagnostics_period_s": 0.1,
        "output_type": "isaac_tensor_list",
    }
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    start("fusion_node", "--ros-args", *given, "-r", "__node:=isaac", "-r", "fused_tensor:=isaac")
    publishers = [*fusion.publishers.values(), fusion._clock]
    fusion.until(
        lambda: (
            all(publisher.get_subscription_count() == 2 for publisher in publishers)
            and fusion.is_found(SECOND)
        ),
        "the second node subscribes and knows the publishers",
    )
    random = np.random.default_rng(7)

    # Ticks until a list comes, which shows that the second node knows this client.
    before = itertools.count(T0, 10 * MS)
    fusion.until(
        lambda: fusion.set_clock(next(before)) or ros.spin_for(0.2, until=lambda: lists), "a list"
    )
    start_ns = next(before)
    for k in range(10):
        ns = start_ns + k * 10 * MS
        fusion.send("wrench", wrench(ns, k, -k, 0.5))
        if k % 3 == 0:
            picture = Pillow.fromarray(random.integers(0, 256, (32, 40, 3), np.uint8))
            fusion.send("/camera", image_message(ns, picture, "rgb8", 0))
            points = {axis: random.uniform(-1, 1, 15) for axis in "xyz"}
            layout = [(axis, "f4", 4 * at) for at, axis in enumerate("xyz")]
            fusion.send("/cloud", cloud_message(ns, points, layout, False))
        # Before the clock, which both nodes have, is set.
        fusion.settle(SECOND)
        plain = fusion.tick(ns)
        fusion.until(
            lambda: fusion.set_clock(ns) or ros.spin_for(1.0, until=lambda: ns in lists),
            f"the list of the tick at {ns}",
        )
        listed = lists[ns]
        fused, found = fusion.tensors[fusion.tick_of(ns)], tensors_of(listed)
        assert listed.header.frame_id == "body"
        assert found.pop("robocache.tick")[0].tolist() == [fused.tick]
        assert found.pop("robocache.digest")[1] == 8
        for name, segment in plain.items():
            array, kind = found.pop(name)
            assert kind == {"float32": 9, "uint8": 2, "int32": 5}[str(segment.array.dtype)]
            assert array.shape == segment.array.shape
            assert array.tobytes() == segment.array.tobytes()
            for field, expected in PER_STEP.items():
                values, kind = found.pop(f"{name}.{field}")
                assert kind == expected and values.tolist() == getattr(segment, field)
        assert not found


def stamp_of(message):
    return nanoseconds(message.header.stamp)


def test_halves_are_refused_at_the_start(start, tmp_path):
    from fusion import write_config

    config = {"rate_hz": 100, "output": {"dtype": "bf16"}, "streams": streams(wrench=WRENCH)}
    given = ["-p", f"config_file:={write_config(tmp_path, config)}"]
    node = start(
        "fusion_node", "--ros-args", *given, "-p", "output_type:=isaac_tensor_list", expected_code=1
    )
    node.wait()
    assert "expected elements of f32, u8 or i32, found bf16 in the segment 'wrench'" in node.output


def test_an_unknown_type_is_refused(start, tmp_path):
    given = ["-p", "config_file:=c.yaml", "-p", "output_type:=tensor_list"]
    node = start("fusion_node", "--ros-args", *given, expected_code=1)
    node.wait()
    assert "output_type: expected fused_tensor or isaac_tensor_list" in node.output
