"""The command `robocache` of the package: the same command line as the node's package has, and
`to-lerobot`, which writes its files by libraries of Python."""

import signal
import sys

from . import _native


def main():
    """Runs the command line and returns its exit code."""
    if sys.argv[1:2] == ["to-lerobot"]:
        from .lerobot import main as to_lerobot

        return to_lerobot(sys.argv[2:])
    # Python would only note an interrupt, and the command would run on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["robocache", *sys.argv[1:]])
