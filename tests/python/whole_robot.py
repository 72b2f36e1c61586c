"""Messages of a robot with every kind of input."""

import numpy as np
from bags import MS, T0, cloud, compressed, empty, header, made, transforms, vector, wrench


def everything(seconds=4, seed=1):
    """A robot with every kind of input: (topic, receive stamp, message). Delays are 2 to 6 ms."""
    from PIL import Image as Picture

    random = np.random.default_rng(seed)
    messages = []

    def publish(topic, rate_hz, make):
        period = round(1e9 / rate_hz)
        for k in range(round(seconds * rate_hz)):
            ns = T0 + k * period + int(random.integers(0, MS // 2))
            message = make(ns, k * period / 1e9)
            messages.append((topic, ns + int(random.integers(2 * MS, 6 * MS)), message))

    def numbers(count, t):
        return np.sin(t + np.arange(count, dtype=np.float64))

    def picture(mode, size=(64, 48)):
        if mode == "I;16":
            return Picture.fromarray(random.integers(300, 5000, size[::-1], dtype=np.uint16))
        shape = size[::-1] + ((3,) if mode == "RGB" else ())
        return Picture.fromarray(random.integers(0, 256, shape, dtype=np.uint8))

    def raw(ns, encoding, dtype, channels=1, frame="optical"):
        data = random.integers(300, 5000, (48, 64, channels)).astype(dtype)
        bytes_per_line = 64 * channels * data.itemsize
        return empty(
            "sensor_msgs/msg/Image",
            header=header(ns, frame),
            height=48,
            width=64,
            encoding=encoding,
            step=bytes_per_line,
            data=data.reshape(-1).view(np.uint8),
        )

    def depth_file(ns):
        message = compressed(ns, picture("I;16"), "16UC1; compressedDepth png", format="png")
        message.data = np.concatenate([np.zeros(12, np.uint8), message.data])
        return message

    def pose(t):
        x, y, z = numbers(3, t)
        turn = vector("Quaternion", 0, 0, np.sin(t / 2), np.cos(t / 2))
        return made("geometry_msgs/msg/Pose", position=vector("Point", x, y, z), orientation=turn)

    def twist(t):
        parts = {"linear": vector("Vector3", *numbers(3, t)), "angular": vector("Vector3", 0, 0, t)}
        return made("geometry_msgs/msg/Twist", **parts)

    def with_header(kind, ns, frame="base_link", **fields):
        return empty(kind, header=header(ns, frame), **fields)

    def joints(ns, t, names, velocity=True):
        count = len(names)
        fields = {"position": numbers(count, t), "velocity": numbers(count, t + 1)}
        if not velocity:
            fields["velocity"] = np.zeros(0)
        return with_header("sensor_msgs/msg/JointState", ns, name=names, **fields)

    def imu(ns, t, orientation=True):
        covariance = np.zeros(9)
        covariance[0] = 0.0 if orientation else -1.0
        return with_header(
            "sensor_msgs/msg/Imu",
            ns,
            "imu",
            orientation=vector("Quaternion", 0, 0, 0, 1 if orientation else 0),
            orientation_covariance=covariance,
            angular_velocity=vector("Vector3", *numbers(3, t)),
            linear_acceleration=vector("Vector3", 0, 0, 9.8),
        )

    def scan(ns):
        return with_header(
            "sensor_msgs/msg/LaserScan",
            ns,
            "lidar",
            angle_min=-1.5,
            angle_max=1.5,
            angle_increment=0.01,
            time_increment=1e-4,
            range_min=0.1,
            range_max=30.0,
            ranges=random.uniform(1, 8, 300).astype(np.float32),
        )

    def plan(ns, t):
        duration = "builtin_interfaces/msg/Duration"
        points = [
            empty(
                "trajectory_msgs/msg/JointTrajectoryPoint",
                positions=numbers(2, t + k),
                time_from_start=made(duration, sec=0, nanosec=50 * MS * k),
            )
            for k in range(12)
        ]
        names = ["arm_1", "arm_2"]
        kind = "trajectory_msgs/msg/JointTrajectory"
        return with_header(kind, ns, joint_names=names, points=points)

    camera = {"width": 64, "height": 48, "distortion_model": "plumb_bob", "d": np.full(5, 0.01)}
    k = np.array([60.0, 0, 32, 0, 60, 24, 0, 0, 1])
    camera |= {"k": k, "p": np.array([60.0, 0, 32, 0, 0, 60, 24, 0, 0, 0, 1, 0])}
    publish("/camera/image_raw", 20, lambda ns, t: raw(ns, "bgr8", np.uint8, 3))
    publish(
        "/camera/camera_info",
        20,
        lambda ns, t: with_header("sensor_msgs/msg/CameraInfo", ns, "optical", **camera),
    )
    publish("/gray/image_raw", 20, lambda ns, t: raw(ns, "8UC1", np.uint8))
    publish("/depth/image_raw", 20, lambda ns, t: raw(ns, "16UC1", np.uint16))
    publish("/depth/metres", 20, lambda ns, t: raw(ns, "32FC1", np.float32))
    publish(
        "/camera/jpeg",
        20,
        lambda ns, t: compressed(ns, picture("RGB"), "bgr8; jpeg compressed bgr8", format="jpeg"),
    )
    publish(
        "/camera/png",
        10,
        lambda ns, t: compressed(ns, picture("L"), "mono8; png compressed", format="png"),
    )
    publish("/depth/compressed", 10, lambda ns, t: depth_file(ns))
    publish(
        "/points", 10, lambda ns, t: cloud(ns, random.uniform([-9, -9, -0.5], [9, 9, 2], (500, 3)))
    )
    publish("/scan", 10, lambda ns, t: scan(ns))
    publish("/joint_states", 100, lambda ns, t: joints(ns, t, ["arm_1", "arm_2", "arm_3"]))
    publish("/joint_states", 50, lambda ns, t: joints(ns, t, ["grip"], velocity=False))
    publish("/imu", 200, imu)
    publish("/gyro", 200, lambda ns, t: imu(ns, t, orientation=False))
    publish(
        "/mag",
        50,
        lambda ns, t: with_header(
            "sensor_msgs/msg/MagneticField", ns, magnetic_field=vector("Vector3", 1, 2, 3)
        ),
    )
    publish("/wrench", 100, lambda ns, t: wrench(ns, 1, 2, t))
    publish(
        "/pose", 50, lambda ns, t: with_header("geometry_msgs/msg/PoseStamped", ns, pose=pose(t))
    )
    publish(
        "/amcl",
        10,
        lambda ns, t: with_header(
            "geometry_msgs/msg/PoseWithCovarianceStamped",
            ns,
            "map",
            pose=empty("geometry_msgs/msg/PoseWithCovariance", pose=pose(t)),
        ),
    )
    publish(
        "/twist",
        50,
        lambda ns, t: with_header("geometry_msgs/msg/TwistStamped", ns, twist=twist(t)),
    )
    publish(
        "/odom",
        50,
        lambda ns, t: with_header(
            "nav_msgs/msg/Odometry",
            ns,
            "odom",
            child_frame_id="base_link",
            pose=empty("geometry_msgs/msg/PoseWithCovariance", pose=pose(t)),
            twist=empty("geometry_msgs/msg/TwistWithCovariance", twist=twist(t)),
        ),
    )
    publish("/plan", 10, plan)
    publish("/cmd_vel", 20, lambda ns, t: twist(t))
    publish("/array", 50, lambda ns, t: empty("std_msgs/msg/Float64MultiArray", data=numbers(7, t)))
    publish(
        "/range",
        20,
        lambda ns, t: with_header(
            "sensor_msgs/msg/Range", ns, "lidar", range=1.0 + t, max_range=float("inf")
        ),
    )
    publish(
        "/battery",
        5,
        lambda ns, t: with_header(
            "sensor_msgs/msg/BatteryState", ns, voltage=24.0 + t, charge=float("nan")
        ),
    )
    publish("/words", 10, lambda ns, t: made("std_msgs/msg/String", data=f"at {t}"))
    publish("/tf", 50, lambda ns, t: transforms((ns, "odom", "base_link", t)))
    static = transforms(
        (T0, "base_link", "lidar", 0.5),
        (T0, "base_link", "optical", 0.1),
        (T0, "base_link", "imu", 0),
    )
    messages.append(("/tf_static", T0 + MS, static))
    messages.append(
        ("/goal", T0 + 5 * MS, with_header("geometry_msgs/msg/PoseStamped", T0, pose=pose(0)))
    )
    return sorted(messages, key=lambda entry: entry[1])
