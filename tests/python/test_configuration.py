"""The Python tools read the same configuration as `robocache check`."""

import configuration
import pytest
from conftest import REPOSITORY

JOINTS = """
rate_hz: 30
streams:
  joints:
    type: sensor_msgs/JointState
    max_age_ms: 50
    fields: [position, velocity]
    groups: {arm: [a, b], gripper: [c]}
    inputs:
      - {topic: /arm, qos: {reliability: reliable}}
      - {topic: /gripper, stamp_offset_ms: -2, timeline: receive}
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "test.yaml"
        path.write_text(text)
        return path

    return write


def test_the_reference_configuration():
    config = configuration.load(REPOSITORY / "config" / "robocache.yaml")
    assert (config.rate_hz, config.period_ns) == (100, 10_000_000)
    assert config.base_frame == "base_link"
    assert {stream.lag_ns for stream in config.streams} == {20_000_000}
    assert config.output_topic == "fused_tensor"
    streams = {stream.name: stream for stream in config.streams}
    kinds = ["image", "image", "voxels", "vector", "vector", "vector"]
    assert [stream.kind for stream in config.streams] == kinds
    assert streams["joints"].joints == [f"joint_{at}" for at in range(14)]
    assert streams["joints"].fields == ["position", "velocity"]
    assert streams["camera_wrist"].encoder["resizes"][0]["fit"] == "pad_center"  # its default
    assert streams["imu"].inputs[0].package == "sensor_msgs"
    assert streams["imu"].message == "Imu"


def test_several_inputs(write):
    config = configuration.load(write(JOINTS))
    (joints,) = config.streams
    assert config.period_ns == 33_333_333
    assert joints.topics == ["/arm", "/gripper"]
    assert joints.joints == ["a", "b", "c"]
    arm, gripper = joints.inputs
    assert (arm.reliability, gripper.reliability) == ("reliable", "auto")
    assert (arm.stamp_offset_ns, gripper.stamp_offset_ns) == (0, -2_000_000)
    assert (arm.timeline, gripper.timeline) == ("header", "receive")
    assert (gripper.name, gripper.frame_id, gripper.depth) == ("joints[1]", None, 256)


def test_every_problem_of_a_file_is_in_the_error(write):
    path = write(JOINTS.replace("rate_hz: 30", "rate_hz: 0").replace("max_age_ms", "max_agems"))
    with pytest.raises(configuration.ConfigurationError) as error:
        configuration.load(path)
    assert f"{path}:2: rate_hz: " in str(error.value)
    assert f"{path}:6: streams.joints.max_agems: " in str(error.value)


@pytest.fixture
def nothing(monkeypatch, tmp_path):
    """A machine without any robocache."""
    monkeypatch.delenv("ROBOCACHE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(configuration, "INSTALLED", tmp_path / "install" / "robocache")
    built = [tmp_path / "target" / profile / "robocache" for profile in ("debug", "release")]
    monkeypatch.setattr(configuration, "BUILT", built)


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_if_the_program_is_missing_the_error_says_how_to_build_it(nothing, write):
    with pytest.raises(configuration.ConfigurationError, match="run `make build`"):
        configuration.load(write(JOINTS))


def test_the_named_program_has_priority(nothing, monkeypatch, tmp_path):
    debug, release = configuration.BUILT
    program(release, "")
    assert configuration.program() == str(release)
    program(configuration.INSTALLED, "")
    assert configuration.program() == str(configuration.INSTALLED)
    on_path = program(tmp_path / "bin" / "robocache", "")
    assert configuration.program() == on_path
    monkeypatch.setenv("ROBOCACHE", "/opt/robocache")
    assert configuration.program() == "/opt/robocache"


def test_a_program_that_fails_is_named(nothing, monkeypatch, tmp_path, write):
    failing = program(tmp_path / "failing", "exit 3")
    monkeypatch.setenv("ROBOCACHE", failing)
    with pytest.raises(configuration.ConfigurationError, match="failing: exit code 3"):
        configuration.load(write(JOINTS))
    monkeypatch.setenv("ROBOCACHE", program(tmp_path / "old", "echo '{}'"))
    with pytest.raises(configuration.ConfigurationError, match="old: its report has no 'rate_hz'"):
        configuration.load(write(JOINTS))
    monkeypatch.setenv("ROBOCACHE", str(tmp_path / "missing"))
    with pytest.raises(configuration.ConfigurationError, match="cannot start .*missing"):
        configuration.load(write(JOINTS))
