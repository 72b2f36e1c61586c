"""The mappings of known datasets fit files with the fields of their public descriptions.

Sources: `features.json` of BridgeData V2, of DROID and of the sets of Open X-Embodiment; the documentation of RoboMimic v0.1
(image observations), LIBERO and CALVIN.
"""

import numpy as np
import pytest
import yaml
from dataset_files import (
    encoded,
    group,
    image,
    picture,
    tensor,
    write_calvin,
    write_hdf5,
    write_rlds,
)
from read_recordings import read

pytest.importorskip(
    "robocache._native", reason="the package's compiled part is not built: scripts/develop.sh"
)
pytest.importorskip("google_crc32c")
pytest.importorskip("google.protobuf")
pytest.importorskip("h5py")
from robocache.datasets import importing, mapping_file

LENGTH = 3
TEXT = {"text": {}, "pythonClassName": "tensorflow_datasets...Text"}
#: By dataset the fields of its steps: the shape of an image or a vector, or None for a text.
RLDS = {
    "bridge": {
        **{f"observation/image_{at}": (256, 256, 3) for at in range(4)},
        "observation/state": (7,),
        "action": (7,),
        "language_instruction": None,
        "language_embedding": (512,),
    },
    "bridge_oxe": {
        "observation/image": (480, 640, 3),
        "observation/state": (7,),
        "observation/natural_language_instruction": None,
        "action/world_vector": (3,),
        "action/rotation_delta": (3,),
        "action/open_gripper": (),
        "action/terminate_episode": (),
    },
    "rt1": {
        "observation/image": (256, 320, 3),
        "observation/base_pose_tool_reached": (7,),
        "observation/gripper_closed": (1,),
        "observation/natural_language_instruction": None,
        "action/world_vector": (3,),
        "action/rotation_delta": (3,),
        "action/gripper_closedness_action": (1,),
        "action/base_displacement_vector": (2,),
        "action/base_displacement_vertical_rotation": (1,),
        "action/terminate_episode": (3,),
    },
    "droid": {
        "observation/exterior_image_1_left": (180, 320, 3),
        "observation/exterior_image_2_left": (180, 320, 3),
        "observation/wrist_image_left": (180, 320, 3),
        "observation/joint_position": (7,),
        "observation/gripper_position": (1,),
        "observation/cartesian_position": (6,),
        "action_dict/joint_velocity": (7,),
        "action_dict/gripper_position": (1,),
        "action": (7,),
        "language_instruction": None,
        "language_instruction_2": None,
        "language_instruction_3": None,
    },
    "language_table": {
        "observation/rgb": (360, 640, 3),
        "observation/effector_translation": (2,),
        "observation/effector_target_translation": (2,),
        "observation/instruction": "codes",
        "action": (2,),
        "reward": (),
    },
}
#: What its rows are to be: the elements that are no plain numbers.
ELEMENTS = {
    "bridge": {"state": ("angular", "roll pitch yaw"), "action": ("held", "gripper")},
    "bridge_oxe": {"state": ("angular", "roll pitch yaw")},
    "rt1": {"base_pose": ("quaternions", "qx qy qz qw")},
    "droid": {"pose": ("angular", "roll pitch yaw")},
    "language_table": {},
    "robomimic": {"eef_quat": ("quaternions", "x y z w"), "action": ("held", "gripper")},
    "libero": {"action": ("held", "gripper")},
    "calvin": {"state": ("angular", "roll pitch yaw"), "action": ("held", "gripper")},
}
HDF5 = {
    "robomimic": {
        "obs/agentview_image": (84, 84, 3),
        "obs/robot0_eye_in_hand_image": (84, 84, 3),
        "obs/robot0_eef_pos": (3,),
        "obs/robot0_eef_quat": (4,),
        "obs/robot0_gripper_qpos": (2,),
        "obs/object": (10,),
        "actions": (7,),
        "dones": (),
        "rewards": (),
        "states": (32,),
    },
    "libero": {
        "obs/agentview_rgb": (128, 128, 3),
        "obs/eye_in_hand_rgb": (128, 128, 3),
        "obs/joint_states": (7,),
        "obs/gripper_states": (2,),
        "obs/ee_pos": (3,),
        "obs/ee_ori": (3,),
        "obs/ee_states": (6,),
        "actions": (7,),
        "dones": (),
        "rewards": (),
    },
}


def rlds(root, name):
    """Writes an episode with these fields."""
    tree, values = {}, {}
    for field, shape in RLDS[name].items():
        *groups, last = field.split("/")
        place = tree
        for each in groups:
            place = place.setdefault(each, {})
        if shape is None:
            # Of several instructions, the first may be empty.
            text = b"" if (name, field) == ("droid", "language_instruction") else b"pick it"
            place[last], values[field] = (TEXT,), [text] * LENGTH
        elif shape == "codes":
            place[last] = (tensor((512,), "int32"),)
            values[field] = np.zeros((LENGTH, 512), np.int32)
            values[field][:, :7] = list(b"pick it")
        elif len(shape) == 3:
            pictures = [encoded(picture(at, *shape[:2]), "jpeg") for at in range(LENGTH)]
            place[last], values[field] = (image(shape, encoding="jpeg"),), pictures
        else:
            place[last] = (tensor(shape, "float32"),)
            values[field] = np.zeros((LENGTH, *shape), np.float32)

    def grouped(tree):
        nodes = {}
        for name, node in tree.items():
            nodes[name] = node[0] if isinstance(node, tuple) else grouped(node)
        return group(**nodes)

    return write_rlds(root, (LENGTH,), grouped(tree), lambda *_: values, {"train": [[0]]})


def hdf5(root, name):
    def values(*_):
        return {
            field: np.zeros((LENGTH, *shape), np.uint8 if len(shape) == 3 else np.float64)
            for field, shape in HDF5[name].items()
        }

    task = "pick it" if name == "libero" else None
    write_hdf5(root / "demo.hdf5", (LENGTH,), task, change=values)
    return root


def calvin(root, _name):
    def values(*_):
        return {
            "actions": np.zeros(7),
            "rel_actions": np.zeros(7),
            "robot_obs": np.zeros(15),
            "scene_obs": np.zeros(24),
            "rgb_static": np.zeros((200, 200, 3), np.uint8),
            "rgb_gripper": np.zeros((84, 84, 3), np.uint8),
            "rgb_tactile": np.zeros((160, 120, 6), np.uint8),
            "depth_static": np.zeros((200, 200), np.float32),
            "depth_gripper": np.zeros((84, 84), np.float32),
            "depth_tactile": np.zeros((160, 120, 2), np.float32),
        }

    write_calvin(root / "training", [(0, LENGTH - 1)], [(0, LENGTH - 1, "pick it")], values)
    return root


WRITERS = {**dict.fromkeys(RLDS, rlds), **dict.fromkeys(HDF5, hdf5), "calvin": calvin}


@pytest.mark.parametrize("name", WRITERS)
def test_a_known_mapping_fits_its_dataset(tmp_path, name):
    assert set(WRITERS) == set(mapping_file.known())
    root = WRITERS[name](tmp_path / "dataset", name)
    dataset = importing.opened(root, name)
    content = yaml.safe_load(importing.generated(dataset))
    for stream, (key, names) in ELEMENTS[name].items():
        expected = [names.split()] if key == "quaternions" else names.split()
        assert content["streams"][stream][key] == expected
    (recording,) = importing.recordings(dataset)
    found = read(recording)
    assert set(found) == {f"/{stream}" for stream in mapping_file.read(name).streams}
    # The images of HDF5 and CALVIN are black here, which no mapping of them says to be none.
    assert all(len(messages) == LENGTH for messages in found.values())
    assert recording.task == ("Lift" if name == "robomimic" else "pick it")
