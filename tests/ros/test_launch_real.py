"""robocache.launch.py under the real `launch` and `launch_ros`. Skipped without them: PyPI has neither.

test_launch_stand_ins.py has the rest. Last run with launch 3.4.3 and launch_ros 0.26.6, at 835be135.
"""

import sys

import pytest
from fusion import WRENCH, subscribe_tensors, write_config
from managed import DEACTIVATE, Managed

pytest.importorskip("launch_ros.actions", reason="no launch_ros: only stand-ins were launched")

#: A user's launch file: the node is configured when its process has started, and then activated.
USERS = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import EmitEvent, IncludeLaunchDescription, RegisterEventHandler
from launch.event_handlers import OnProcessStart
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.event_handlers import OnStateTransition
from launch_ros.events.lifecycle import ChangeState
from lifecycle_msgs.msg import Transition

def change(number):
    return [EmitEvent(event=ChangeState(lifecycle_node_matcher=bool, transition_id=number))]

path, *given = sys.argv[1:]
arguments = [argument.split(":=") for argument in given]
included = IncludeLaunchDescription(
    PythonLaunchDescriptionSource(path), launch_arguments=arguments
)
started = OnProcessStart(on_start=change(Transition.TRANSITION_CONFIGURE))
configured = OnStateTransition(
    start_state="configuring", goal_state="inactive",
    entities=change(Transition.TRANSITION_ACTIVATE),
)
# Without a terminal, a signal reaches this process alone, which then ends the node.
service = LaunchService(noninteractive=True)
handlers = [RegisterEventHandler(started), RegisterEventHandler(configured)]
service.include_launch_description(LaunchDescription([*handlers, included]))
sys.exit(service.run())
"""


@pytest.fixture
def launch(start, install, tmp_path):
    """`launch(**arguments)`: a process in which the user's file launches the node."""
    config_file = write_config(tmp_path, {"rate_hz": 50, "streams": {"wrench": WRENCH}})
    (tmp_path / "users.py").write_text(USERS)
    file = install / "share" / "robocache_ros" / "launch" / "robocache.launch.py"

    def launched(**arguments):
        given = {"config_file": config_file, **arguments}
        words = [f"{name}:={value}" for name, value in given.items()]
        return start(sys.executable, tmp_path / "users.py", file, *words)

    return launched


def test_a_launch_file_configures_and_activates_the_managed_node(ros, launch):
    launched = launch(managed="true", namespace="left")
    tensors = subscribe_tensors(ros, "/left/fused_tensor")
    node = Managed(ros, "left/fusion_node", launched)
    node.until(lambda: tensors, "a tensor")
    assert node.state() == (3, "active")
    node.must(DEACTIVATE)
    assert launched.stop() == 0
    assert "shutting down" in launched.output and "[ERROR]" not in launched.output


def test_a_node_that_is_not_managed_ticks_at_once(ros, launch):
    launched = launch(rate_hz=20)
    tensors = subscribe_tensors(ros, "/fused_tensor")
    ros.spin_until(lambda: len(tensors) > 2, "tensors", detail=lambda: launched.output)
    stamp = tensors[-1].header.stamp
    assert stamp.sec * 10**9 + stamp.nanosec == tensors[-1].tick * 50_000_000
    assert launched.stop() == 0
