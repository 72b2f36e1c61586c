"""The command `robocache` of the package, also `python -m robocache`: the same command line as the node's package has,
and `import`, `to-lerobot` and `watch`, which may need other packages."""

import signal
import sys

from . import _native


def main():
    """Runs the command line and returns its exit code."""
    if sys.argv[1:2] == ["to-lerobot"]:
        from .lerobot.cli import main as to_lerobot

        return to_lerobot(sys.argv[2:])
    if sys.argv[1:2] == ["import"]:
        from .datasets.importing import main as import_dataset

        return import_dataset(sys.argv[2:])
    if sys.argv[1:2] == ["watch"]:
        from .watching.cli import main as watch

        return watch(sys.argv[2:])
    # Python would only note an interrupt, and the command would run on.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["robocache", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
