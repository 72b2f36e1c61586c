"""Every sensor of a robot at the same instants: fused tensors, the pipeline and its operations.

    tensor = robocache.decode(message_bytes)    # the CDR bytes of robocache_ros/msg/FusedTensor
    joints = tensor.segments["joints"]          # or tensor["joints"]
    if joints.valid.all():
        act(joints.float32())                   # [steps, ...]; of f32 a view of message_bytes

`robocache.decode` and `robocache.from_msg` need only NumPy. `robocache.ros` needs rclpy and the package
`robocache_ros`.

The other names are of the package's compiled part. A workspace that was built for messages alone has none.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from .tensor import NO_AGE, FusedTensor, Segment, decode, digest_of, from_msg

if TYPE_CHECKING:  # the names of _LAZY, for type checkers
    from . import contract as contract
    from .cache import EpisodeCache as EpisodeCache
    from .contract import Contract as Contract
    from .contract import ContractError as ContractError
    from .encoders import Voxels as Voxels
    from .encoders import encode_image as encode_image
    from .encoders import voxelize as voxelize
    from .installation import check_installation as check_installation
    from .installation import is_cuda_available as is_cuda_available
    from .installation import print_installation_info as print_installation_info
    from .installation import self_test as self_test
    from .operations import Resampled as Resampled
    from .operations import Stream as Stream
    from .operations import fuse as fuse
    from .operations import resample as resample
    from .pipeline import Pipeline as Pipeline
    from .pipeline import PushResult as PushResult
    from .replaying import replay as replay
    from .replaying import replay_to as replay_to
    from .sampler import WindowSampler as WindowSampler
    from .trajectories import fuse_multimodal as fuse_multimodal
    from .trajectories import resample_trajectories as resample_trajectories
    from .trajectories import voxelize_occupancy as voxelize_occupancy
    from .trajectories import voxelize_pointcloud as voxelize_pointcloud

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


def __getattr__(name: str) -> Any:
    if name == "contract":  # a module: `robocache.contract.load`
        return _import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = {name for name in globals() if not name.startswith("_") or name.endswith("__")}
    hidden = {"annotations", "TYPE_CHECKING", "Any"}
    return sorted({*own, *_LAZY, "contract"} - hidden)
