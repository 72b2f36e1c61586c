"""Files of datasets with random damage: each reader gives what is left, or an error that a command can tell.

The damage follows from a number, which a failure names. More by hand: ROBOCACHE_MUTATIONS=5000.
"""

import copy
import json
import os
import random
import shutil
import struct

import numpy as np
import pytest
from dataset_files import CALVIN_MAPPING, RLDS_MAPPING, example, tfrecord, write_calvin, write_rlds
from read_recordings import read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")
pytest.importorskip("pyarrow")
pytest.importorskip("av")
import lerobot_files

from robocache import importing
from robocache.datasets import tfrecord as records_file

MUTATIONS = int(os.environ.get("ROBOCACHE_MUTATIONS", "60"))
#: What the commands tell without a traceback (robocache/node/replay_command.py).
TOLD = (ValueError, RuntimeError, ImportError, OSError)
#: What may be in the place of a part of a JSON file.
STRANGE = (None, True, -1, 0, 2**63, 1e308, "", "x" * 50, "../x", "{", [], {}, [None], {"a": []})


def damaged_bytes(chance, data):
    """Bytes that are changed, cut, repeated or put in."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 4, 16))):
        at = chance.randrange(len(data) + 1)
        end = min(len(data), at + chance.choice((1, 1, 2, 8, 64)))
        what = chance.randrange(5)
        if what == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif what == 1:
            data[at:end] = chance.randbytes(end - at)
        elif what == 2:
            del data[at : chance.choice((end, len(data)))]
        elif what == 3:
            data[at:at] = data[at:end]
        else:
            data[at:end] = chance.choice((b"\xff", b"\0")) * (end - at)
    return bytes(data)


def damaged_json(chance, value):
    """A copy of a JSON value. Some of its parts are missing or strange."""
    value = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 2))):
        places = list(_places(value))
        if places:
            holder, key = chance.choice(places)
            if chance.random() < 0.3:
                del holder[key]
            else:
                others = [found[place] for found, place in places]
                holder[key] = copy.deepcopy(chance.choice((*STRANGE, chance.choice(others))))
    return value


def _places(value):
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in list(keys):
        yield value, key
        yield from _places(value[key])


def damaged_record(chance, data):
    """A TFRecord file with good checksums around records that are damaged."""
    records, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        records.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    which = chance.randrange(len(records))
    # The names of features are at the start, pictures behind them: most of the damage must be to the structure.
    records[which] = damaged_bytes(chance, records[which][:300]) + records[which][300:]
    return tfrecord(records)


def damage(chance, path):
    """Damages a file by its kind."""
    data = path.read_bytes()
    if path.suffix == ".json":
        path.write_text(json.dumps(damaged_json(chance, json.loads(data))))
    elif path.suffix == ".jsonl":
        lines = [json.loads(line) for line in data.splitlines()]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in damaged_json(chance, lines)))
    elif ".tfrecord" in path.name and chance.random() < 0.7:
        path.write_bytes(damaged_record(chance, data))
    else:
        path.write_bytes(damaged_bytes(chance, data))


def survives(root, good, endings, mapping=None):
    """Damages a file of a copy of a dataset, reads all of it, and so on."""
    errors = 0
    for number in range(MUTATIONS):
        chance = random.Random(number)
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(good, root)
        files = sorted(p for p in root.rglob("*") if p.is_file() and p.name.endswith(endings))
        path = chance.choice(files)
        damage(chance, path)
        try:
            for recording in importing.recordings(importing.opened(root, mapping)):
                read(recording)
        except TOLD:
            errors += 1
        except Exception as error:
            pytest.fail(f"damage {number}, {path.name}: {type(error).__name__}: {error}")
    assert errors > MUTATIONS / 10, "the damage reaches nothing"


def test_rlds(tmp_path):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(RLDS_MAPPING)
    good = write_rlds(tmp_path / "good")
    survives(tmp_path / "damaged", good, ("json", "-of-00001"), mapping)


def test_calvin(tmp_path):
    mapping = tmp_path / "mapping.yaml"
    mapping.write_text(CALVIN_MAPPING)
    good = write_calvin(tmp_path / "good" / "training").parent
    survives(tmp_path / "damaged", good, ("npy", "npz"), mapping)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot(tmp_path, version):
    """Its JSON: Parquet and videos are read by PyArrow and PyAV."""
    good = lerobot_files.write(tmp_path / "good", version, lengths=(4, 3))
    survives(tmp_path / "damaged", good, ("json", "jsonl"))


def test_features_are_read_or_refused():
    """Damage of an Example, as its file would have it under a good checksum."""
    good = example({"a": [b"xyz"], "b": np.arange(3), "c": np.ones(2, np.float32)})
    refused = 0
    for number in range(20 * MUTATIONS):
        data = damaged_bytes(random.Random(number), good)
        try:
            records_file.features("here", data, {"a", "b", "c"})
        except ValueError:
            refused += 1
    assert refused > MUTATIONS
