"""Commands the faults of node_faults.c by their files, and stops a process for real."""

import os
import signal
import time

from rclpy.duration import Duration
from waiting import until


def put(file, content):
    """Writes a number or a name into the file of a fault, at once as a whole. Its fault is then on."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(str(content))
    fresh.rename(file)


def arrive(publisher):
    """Waits until all messages of a reliable publisher have reached the queues of their subscriptions."""
    until(lambda: publisher.wait_for_all_acked(Duration(seconds=1)), "all acknowledgements")


def fence(fusion, part="tick"):
    """Waits for a report that began after this call: it has all that the node has done before."""

    def reports():
        return sum(told == part for told, _ in fusion.said)

    before = reports()
    # The next one may have begun already.
    fusion.until(lambda: reports() >= before + 2, "two more reports")


class Hold:
    """Holds the takes of a topic: its messages stay in the middleware's queue."""

    def __init__(self, file):
        self.file = file
        self._held = file.with_name(f"{file.name}.held")

    def begin(self, fusion, stream, topic, send):
        """Holds from now on. Calls `send` until a take waits: its message, and all that follow, stay in the queue."""
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
        # The numbers of what was taken are exact from now on.
        fence(fusion)

    def end(self, publisher):
        """Ends it when all that this publisher has sent is in the queue, or was dropped there."""
        arrive(publisher)
        self.file.unlink()


class Boot:
    """The node's time since the boot, which stands unless the test says that the node has stood still."""

    def __init__(self, file):
        self.file, self._seconds = file, 0

    def stand_still(self, seconds=2):
        """The node has stood still for this long [s], although it has not."""
        self._seconds += seconds
        put(self.file, self._seconds)


def stop_for(ros, pid, seconds):
    """Stops a process for this long, for real, and handles messages meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        stopped_at = time.monotonic()
        ros.spin_for(seconds)
        time.sleep(max(0, stopped_at + seconds - time.monotonic()))
    finally:
        os.kill(pid, signal.SIGCONT)
