"""Files and folders that get their names when they are complete and on the disk."""

import errno
import os
import secrets


def write(path, text):
    """Writes a file that is there whole or not at all, also if several threads, processes or containers write it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    partial.write_text(text, encoding="utf-8")
    complete(partial, path)


def complete(partial, path):
    """Syncs a file, or a folder with all that is in it, to the disk, and gives it its name."""
    if partial.is_dir():
        for folder, _, files in os.walk(partial):
            for name in files:
                _sync(os.path.join(folder, name))
            _sync(folder)
    else:
        _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def _sync(path):
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        # Some file systems, such as those of FUSE, cannot sync a folder.
        if not (os.path.isdir(path) and error.errno in (errno.EINVAL, errno.ENOTSUP)):
            raise
    finally:
        os.close(file)
