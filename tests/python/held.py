"""Programs that wait where a test wants them: at a file that is a pipe, until the test writes into it."""

import contextlib
import errno
import os
import subprocess
from pathlib import Path

import waiting


class Held:
    """A file that is held back: a program that opens it waits. `give` gives it the text.

    If the file exists, its text is given. The metadata of a bag is such a file: `robocache` opens it first.
    """

    def __init__(self, path, text=""):
        self.path, self._writer = Path(path), None
        self._text = self.path.read_text() if self.path.exists() else text
        self.path.unlink(missing_ok=True)
        os.mkfifo(self.path)

    def is_awaited(self):
        """True as soon as a program has opened the file. From then on, it waits for the text."""
        if self._writer is None:
            try:
                self._writer = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno != errno.ENXIO:  # no reader
                    raise
        return self._writer is not None

    def wait(self, process):
        """Waits until the process has opened the file."""

        def awaited():
            found = self.is_awaited()
            assert found or process.poll() is None, "the program ended before"
            return found

        waiting.until(awaited, f"the program opens {self.path}")

    def give(self):
        """Gives the text to the program that waits, if there is one. From now on, the file is an ordinary one."""
        ordinary = self.path.with_name(f"{self.path.name}.given")
        ordinary.write_text(self._text)
        ordinary.replace(self.path)
        if self._writer is not None:
            os.write(self._writer, self._text.encode())
            os.close(self._writer)


@contextlib.contextmanager
def started(command, **options):
    """A process with its `subprocess.Popen`. It is killed at the end of the `with` block."""
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def listens(process, number):
    """True if a handler of the process catches the signal, so it no longer ends the process."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (caught,) = [int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:")]
    return bool(caught >> (number - 1) & 1)


def sleeps(process):
    """True if the main thread of the process waits."""
    # proc(5): the state follows the name, which may contain spaces and parentheses.
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def cpu_s(process):
    """Processor time of a process so far [s]."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def names_of_threads(process="self"):
    """The names of all threads of a process, by its number."""
    names = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        # It may end at any time.
        with contextlib.suppress(OSError):
            names.append((thread / "comm").read_text().strip())
    return names
