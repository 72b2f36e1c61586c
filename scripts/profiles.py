"""The middleware's profile for processes of tests, demo and benchmark.

config/fastdds.xml serves a process with six large cameras, and Fast DDS takes all of its segment at
the start. Containers often have only 64 MB of shared memory, and these processes need less.
"""

import os
import re
import tempfile
from pathlib import Path

#: Name the profile's file. Fast DDS 2 reads the first, Fast DDS 3 the second.
VARIABLES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
PROFILE = Path(__file__).resolve().parent.parent / "config" / "fastdds.xml"
#: Holds two of every large message of the synthetic robot.
SEGMENT_BYTES = 16 << 20


def text(segment_bytes=SEGMENT_BYTES):
    """robocache's profile with a segment of another size [bytes]."""
    size = f"<segment_size>{segment_bytes}</segment_size>"
    changed, count = re.subn(r"<segment_size>\d+</segment_size>", size, PROFILE.read_text())
    assert count == 1, f"{PROFILE}: expected one segment_size, found {count}"
    return changed


def path():
    """The file of the profile. It stays, because processes that outlive this one may read it."""
    content = text()
    file = Path(tempfile.gettempdir()) / f"robocache_profile_{os.getuid()}.xml"
    if not file.exists() or file.read_text() != content:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as new:
            new.write(content)
        os.replace(new.name, file)  # in one step: another process may read it now
    return file
