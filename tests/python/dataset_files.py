"""Writes small datasets in the layouts of RLDS, RoboMimic, LIBERO and CALVIN, without their packages.

The messages of `tf.train.Example` are written byte by byte: https://protobuf.dev/programming-guides/encoding.
"""

import io
import json
import struct

import numpy as np
from PIL import Image


def picture(at, height=48, width=64):
    """A picture that differs from its neighbours."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 3 + at, y * 5 + 2 * at, x + y + 3 * at], axis=-1).astype(np.uint8)


def encoded(pixels, kind="png"):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def varint(value):
    value &= (1 << 64) - 1
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def delimited(number, data):
    """A field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values):
    """A serialized `tf.train.Feature` of a list of bytes, of floats or of integers."""
    if isinstance(values, list):
        return delimited(1, b"".join(delimited(1, value) for value in values))
    values = np.asarray(values).reshape(-1)
    if values.dtype.kind == "f":
        return delimited(2, delimited(1, values.astype("<f4").tobytes()))
    return delimited(3, delimited(1, b"".join(varint(int(value)) for value in values)))


def example(features):
    """A serialized `tf.train.Example`."""
    entries = [
        delimited(1, name.encode()) + delimited(2, feature(of)) for name, of in features.items()
    ]
    return delimited(1, b"".join(delimited(1, entry) for entry in entries))


def crc32c(data):
    """The checksum by its definition (RFC 3720, B.4), bit by bit through a table."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _table():
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


TABLE = _table()


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord(records):
    """The bytes of a TFRecord file."""
    found = bytearray()
    for data in records:
        head = struct.pack("<Q", len(data))
        found += head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))
    return bytes(found)


def tensor(shape, dtype, encoding="none"):
    shape = {"dimensions": [str(side) for side in shape]} if shape else {}
    return {"tensor": {"shape": shape, "dtype": dtype, "encoding": encoding}}


def image(shape=(48, 64, 3), dtype="uint8", encoding="png"):
    return {
        "image": {
            "shape": {"dimensions": [str(side) for side in shape]},
            "dtype": dtype,
            "encodingFormat": encoding,
        }
    }


def group(**features):
    return {"featuresDict": {"features": features}}


RLDS_STEPS = group(
    observation=group(image_0=image(), state=tensor((3,), "float32")),
    action=tensor((2,), "float64"),
    reward=tensor((), "float32"),
    is_first=tensor((), "bool"),
    language_instruction={"text": {}, "pythonClassName": "tensorflow_datasets...Text"},
)


def rlds_steps(seed, length):
    """The values of an episode by field."""
    random = np.random.default_rng(seed)
    return {
        "observation/image_0": [encoded(picture(at + 10 * seed)) for at in range(length)],
        "observation/state": random.normal(size=(length, 3)).astype(np.float32),
        "action": random.normal(size=(length, 2)).astype(np.float32),
        "reward": random.normal(size=length).astype(np.float32),
        "is_first": np.arange(length) == 0,
        "language_instruction": [f"do {seed}".encode()] * length,
    }


def write_rlds(
    root,
    lengths=(5, 3, 4),
    steps=RLDS_STEPS,
    change=None,
    splits=None,
    more=None,
    has_image=None,
    paths=None,
):
    """A dataset of two splits: the last episode is of `val`. `change` gets the number and the values of each episode.
    `has_image` is a flag of each episode, `paths` has its `file_path`."""
    root.mkdir(parents=True)
    if splits is None:
        splits = {"train": [[*range(len(lengths) - 1)]], "val": [[len(lengths) - 1]]}
    for split, shards in splits.items():
        for at, episodes in enumerate(shards):
            records = []
            for number in episodes:
                values = rlds_steps(number, lengths[number])
                if change is not None:
                    values = change(number, values)
                own = {f"steps/{name}": each for name, each in values.items()}
                path = "somewhere" if paths is None else paths[number]
                own["episode_metadata/file_path"] = [path.encode()]
                if has_image is not None:
                    own["episode_metadata/has_image"] = np.array([has_image[number]])
                records.append(example(own))
            name = f"demo-{split}.tfrecord-{at:05d}-of-{len(shards):05d}"
            (root / name).write_bytes(tfrecord(records))
    flag = {} if has_image is None else {"has_image": tensor((), "bool")}
    others = {"episode_metadata": group(file_path={"text": {}}, **flag)}
    features = group(steps={"sequence": {"feature": steps, "length": "-1"}}, **others)
    (root / "features.json").write_text(json.dumps(features))
    about = [
        {
            "name": split,
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            "shardLengths": [str(len(episodes)) for episodes in shards],
        }
        for split, shards in splits.items()
    ]
    info = {"name": "demo", "fileFormat": "tfrecord", "splits": about, **(more or {})}
    (root / "dataset_info.json").write_text(json.dumps(info))
    return root


RLDS_MAPPING = """\
rate_hz: 5
task: language_instruction
streams:
  top: observation/image_0
  state: {field: observation/state, names: [a, b, c]}
  action: action
  reward: reward
  first: is_first
"""


def demonstration(seed, length):
    """The values of a demonstration by field."""
    random = np.random.default_rng(seed)
    return {
        "obs/agentview_rgb": np.stack([picture(at + 10 * seed) for at in range(length)]),
        "obs/joint_states": random.normal(size=(length, 7)),
        "actions": random.normal(size=(length, 7)),
        "dones": np.arange(length) == length - 1,
    }


def write_hdf5(path, lengths=(5, 3, 4), task="open the drawer", masks=None, change=None):
    """A file in the layout of LIBERO and RoboMimic."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(
            {"env_name": "Lift", "env_kwargs": {"control_freq": 20}}
        )
        if task is not None:
            data.attrs["problem_info"] = json.dumps({"language_instruction": task})
        # Not in the order of their numbers.
        for number in reversed(range(len(lengths))):
            values = demonstration(number, lengths[number])
            if change is not None:
                values = change(number, values)
            own = data.create_group(f"demo_{number}")
            own.attrs["num_samples"] = lengths[number]
            for name, each in values.items():
                own.create_dataset(name, data=each)
        for name, members in (masks or {}).items():
            file.create_dataset(f"mask/{name}", data=np.array(members, "S8"))
    return path


HDF5_MAPPING = """\
rate_hz: 20
task: problem_info/language_instruction
streams:
  top: obs/agentview_rgb
  joints: obs/joint_states
  action: actions
  done: dones
"""


def frame(at):
    """The arrays of a frame of CALVIN."""
    random = np.random.default_rng(at)
    return {
        "rgb_static": picture(at, 40, 40),
        "rgb_tactile": np.zeros((16, 12, 6), np.uint8),
        "depth_static": np.ones((100, 100), np.float32),
        "robot_obs": random.normal(size=15),
        "actions": random.normal(size=7),
    }


def write_calvin(root, spans=((10, 15), (20, 22)), annotations=((11, 13, "push it"),), change=None):
    """A folder of frames."""
    root.mkdir(parents=True)
    for first, last in spans:
        for at in range(first, last + 1):
            values = frame(at) if change is None else change(at, frame(at))
            np.savez_compressed(root / f"episode_{at:07d}.npz", **values)
    np.save(root / "ep_start_end_ids.npy", np.array(spans))
    if annotations is not None:
        (root / "lang_annotations").mkdir()
        texts, where = [text for *_, text in annotations], [(a, b) for a, b, _ in annotations]
        about = {
            "language": {
                "ann": texts,
                "task": texts,
                "emb": np.zeros((len(texts), 1, 4), np.float32),
            },
            "info": {"episodes": [], "indx": where},
        }
        np.save(root / "lang_annotations/auto_lang_ann.npy", about)
    return root


CALVIN_MAPPING = """\
rate_hz: 30
task: lang_annotations/auto_lang_ann.npy
streams:
  static: rgb_static
  state: robot_obs
  action: actions
"""
