"""A dataset with the public features of BridgeData V2, written by TensorFlow Datasets."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import tensorflow_datasets as tfds

CAMERAS = ("image_0", "image_1", "image_2", "image_3")


def picture(random, at, size=256):
    """A scene that moves, with the noise of a sensor."""
    y, x = np.mgrid[0:size, 0:size] / 24
    waves = [np.sin(x + at / 9), np.cos(y - at / 15), np.sin(x + y + at / 6)]
    noise = random.normal(scale=2, size=(size, size, 3))
    return np.clip(127.5 + 90 * np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)


class BridgeDataset(tfds.core.GeneratorBasedBuilder):
    """Random episodes. `lengths` has the steps of each; the last one is of the split `val`."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, lengths=(6, 4, 9, 5), **given):
        self._lengths = lengths
        super().__init__(**given)

    def _info(self):
        image = tfds.features.Image(shape=(256, 256, 3), dtype=np.uint8, encoding_format="jpeg")
        flag, number = tfds.features.Scalar(np.bool_), tfds.features.Scalar(np.float32)
        steps = {
            "observation": {
                **dict.fromkeys(CAMERAS, image),
                "state": tfds.features.Tensor(shape=(7,), dtype=np.float32),
            },
            "action": tfds.features.Tensor(shape=(7,), dtype=np.float32),
            "discount": number,
            "reward": number,
            **dict.fromkeys(("is_first", "is_last", "is_terminal"), flag),
            "language_instruction": tfds.features.Text(),
            "language_embedding": tfds.features.Tensor(shape=(512,), dtype=np.float32),
        }
        about = {
            "file_path": tfds.features.Text(),
            "has_language": flag,
            "episode_id": tfds.features.Scalar(np.int32),
            **{f"has_{camera}": flag for camera in CAMERAS},
        }
        features = {"steps": tfds.features.Dataset(steps), "episode_metadata": about}
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, _manager):
        last = len(self._lengths) - 1
        return {"train": self._generate_examples(0, last), "val": self._generate_examples(last)}

    def _generate_examples(self, first, end=None):
        for number in range(len(self._lengths))[first:end]:
            random, length = np.random.default_rng(number), self._lengths[number]
            steps = [
                {
                    "observation": {
                        **{camera: picture(random, at + 7 * k) for k, camera in enumerate(CAMERAS)},
                        "state": random.normal(size=7).astype(np.float32),
                    },
                    "action": random.normal(size=7).astype(np.float32),
                    "discount": 1.0,
                    "reward": float(at == length - 1),
                    "is_first": at == 0,
                    "is_last": at == length - 1,
                    "is_terminal": at == length - 1,
                    "language_instruction": f"put {number} into the pot",
                    "language_embedding": random.normal(size=512).astype(np.float32),
                }
                for at in range(length)
            ]
            about = {"file_path": f"{number}.npy", "has_language": True, "episode_id": number}
            about |= {f"has_{camera}": True for camera in CAMERAS}
            yield str(number), {"steps": steps, "episode_metadata": about}


def write(folder, lengths):
    """Writes the dataset. Returns its folder."""
    builder = BridgeDataset(lengths=lengths, data_dir=str(folder))
    builder.download_and_prepare()
    return builder.data_path
