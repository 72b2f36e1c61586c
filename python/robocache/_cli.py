"""The command `robocache` of the package: the same command line as the node's package has."""

import signal
import sys

from . import _native


def main():
    """Runs the command line and returns its exit code."""
    # Python would only note an interrupt, and the command would run on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["robocache", *sys.argv[1:]])
