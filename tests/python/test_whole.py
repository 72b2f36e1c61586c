"""Files that are there whole or not at all."""

import os

import pytest

from robocache.node import whole


def test_a_file_is_replaced_when_the_new_one_is_on_the_disk(tmp_path, monkeypatch):
    path = tmp_path / "done.json"
    path.write_text("older")
    fsync, synced = os.fsync, []

    def recorded(file):
        fsync(file)
        synced.append((os.fstat(file).st_ino, path.read_text()))

    monkeypatch.setattr(os, "fsync", recorded)
    whole.write(path, "newer")
    assert synced == [(path.stat().st_ino, "older"), (tmp_path.stat().st_ino, "newer")]

    def full(file):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        whole.write(path, "newest")
    assert path.read_text() == "newer"


def test_writers_with_the_same_number_do_not_meet(tmp_path, monkeypatch):
    """Threads have it, and so have processes of two containers on one volume."""
    partial = []
    monkeypatch.setattr(whole, "complete", lambda file, path: partial.append(file))
    whole.write(tmp_path / "done.json", "one")
    whole.write(tmp_path / "done.json", "two")
    assert [file.read_text() for file in partial] == ["one", "two"]
    assert all(file.name.startswith("done.json.") for file in partial)
