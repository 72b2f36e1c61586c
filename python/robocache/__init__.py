"""Every sensor of a robot at the same instants: fused tensors, the pipeline and its operations.

    tensor = robocache.decode(message_bytes)    # the CDR bytes of robocache_ros/msg/FusedTensor
    joints = tensor.segments["joints"]          # or tensor["joints"]
    if joints.valid.all():
        act(joints.float32())                   # [steps, ...]; of f32 a view of message_bytes

`robocache.decode` and `robocache.from_msg` need only NumPy. `robocache.ros` needs rclpy and the package
`robocache_ros`.

The other names are of the package's compiled part. A workspace that was built for messages alone has none.
"""

import importlib

from .tensor import NO_AGE, FusedTensor, Segment, decode, digest_of, from_msg

__version__ = "0.1.0"

#: Names that are loaded when they are first used, and their modules: to decode a tensor takes none of them.
_LAZY = {
    "Contract": "contract",
    "ContractError": "contract",
    "EpisodeCache": "cache",
    "Resampled": "operations",
    "Stream": "operations",
    "Voxels": "encoders",
    "WindowSampler": "sampler",
    "check_installation": "installation",
    "encode_image": "encoders",
    "fuse": "operations",
    "fuse_multimodal": "trajectories",
    "is_cuda_available": "installation",
    "print_installation_info": "installation",
    "resample": "operations",
    "resample_trajectories": "trajectories",
    "self_test": "installation",
    "voxelize": "encoders",
    "voxelize_occupancy": "trajectories",
    "voxelize_pointcloud": "trajectories",
    "Pipeline": "pipeline",
    "PushResult": "pipeline",
    "replay": "replaying",
    "replay_to": "replaying",
}

__all__ = ["NO_AGE", "FusedTensor", "Segment", "decode", "digest_of", "from_msg", *_LAZY]


def __getattr__(name):
    if name == "contract":  # a module: `robocache.contract.load`
        return importlib.import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *_LAZY, "contract"})
