"""Commands the faults of node_faults.c by their files, and stops a process for real."""

import os
import signal
import time

from processes import SHARED_MEMORY, locked_shared_memory
from rclpy.duration import Duration


def put(file, content):
    """Writes a number or a name into the file of a fault, at once as a whole. Its fault is then on."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(str(content))
    fresh.rename(file)


def arrive(ros, publisher):
    """Waits until all messages of a reliable publisher have reached the queues of their subscriptions.

    With Fast DDS, an acknowledgement may take three seconds.
    """
    ros.spin_until(lambda: publisher.wait_for_all_acked(Duration()), "all acknowledgements")


class Hold:
    """Holds the takes of a topic: its messages stay in the middleware's queue."""

    def __init__(self, file):
        self.file = file
        self._held = file.with_name(f"{file.name}.held")

    def begin(self, fusion, stream, topic, send):
        """Holds from now on. Calls `send` until a take waits. Returns how many messages are in the queue."""
        put(self.file, topic)
        while not self._held.exists():
            before = fusion.value(stream, "received")
            send()
            fusion.until(
                lambda before=before: (
                    self._held.exists() or fusion.value(stream, "received") > before
                ),
                "a take waits, or the message was taken before",
            )
        return fusion.sent[topic] - int(self._held.read_text())

    def end(self, fusion, topic):
        """Ends it when all that was sent on the topic is in the queue, or was dropped there."""
        arrive(fusion.ros, fusion.publishers[topic])
        self.release()

    def release(self):
        """Ends it, if it holds. A node that is held does not end."""
        self.file.unlink(missing_ok=True)


class Boot:
    """The node's time since the boot, which stands unless the test says that the node has stood still."""

    def __init__(self, file):
        self.file, self._seconds = file, 0

    def stand_still(self, seconds=2):
        """The node has stood still for this long [s], although it has not."""
        self._seconds += seconds
        put(self.file, self._seconds)


def lose_ports(pid):
    """Removes the names of the ports through which a process receives, as publishers do that cut it off.

    Processes that have opened a port still use it. Those that start later make one of their own under the name.
    """
    names = {name for name in locked_shared_memory(pid) if "_port" in name}
    for name in names:
        (SHARED_MEMORY / name).unlink(missing_ok=True)
        (SHARED_MEMORY / f"sem.{name}_mutex").unlink(missing_ok=True)
    return names


def stop_for(ros, pid, seconds):
    """Stops a process for this long, for real, and handles messages meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        stopped_at = time.monotonic()
        ros.spin_for(seconds)
        time.sleep(max(0, stopped_at + seconds - time.monotonic()))
    finally:
        os.kill(pid, signal.SIGCONT)
