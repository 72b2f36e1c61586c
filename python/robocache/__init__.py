"""Every sensor of a robot at the same instants: fused tensors, the pipeline and its operations.

    tensor = robocache.decode(message_bytes)    # the CDR bytes of robocache_ros/msg/FusedTensor
    joints = tensor.segments["joints"]          # or tensor["joints"]
    if joints.valid.all():
        act(joints.float32())                   # [steps, ...]; of f32 a view of message_bytes

`robocache.from_msg` needs only NumPy. `robocache.ros` needs rclpy and the package `robocache_ros`. All else needs the
package's compiled part. A workspace that was built for messages alone has no Python package: install the wheel.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

from .message.tensor import NO_AGE, FusedTensor, Segment, decode, digest_of, from_msg

if TYPE_CHECKING:  # the names of _LAZY, for type checkers
    from . import contract as contract
    from .arrays.encoders import Voxels as Voxels
    from .arrays.encoders import encode_image as encode_image
    from .arrays.encoders import voxelize as voxelize
    from .arrays.installation import check_installation as check_installation
    from .arrays.installation import is_cuda_available as is_cuda_available
    from .arrays.installation import print_installation_info as print_installation_info
    from .arrays.installation import self_test as self_test
    from .arrays.operations import Resampled as Resampled
    from .arrays.operations import Stream as Stream
    from .arrays.operations import fuse as fuse
    from .arrays.operations import resample as resample
    from .arrays.trajectories import fuse_multimodal as fuse_multimodal
    from .arrays.trajectories import resample_trajectories as resample_trajectories
    from .arrays.trajectories import voxelize_occupancy as voxelize_occupancy
    from .arrays.trajectories import voxelize_pointcloud as voxelize_pointcloud
    from .contract import Contract as Contract
    from .contract import ContractError as ContractError
    from .node.pipeline import Pipeline as Pipeline
    from .node.pipeline import PushResult as PushResult
    from .node.replaying import replay as replay
    from .node.replaying import replay_to as replay_to
    from .training.cache import EpisodeCache as EpisodeCache
    from .training.sampler import WindowSampler as WindowSampler

__version__ = "0.1.0"

#: Names that are loaded when they are first used, and their modules: to decode a tensor takes none of them.
_LAZY = {
    "Contract": "contract",
    "ContractError": "contract",
    "EpisodeCache": "training.cache",
    "Resampled": "arrays.operations",
    "Stream": "arrays.operations",
    "Voxels": "arrays.encoders",
    "WindowSampler": "training.sampler",
    "check_installation": "arrays.installation",
    "encode_image": "arrays.encoders",
    "fuse": "arrays.operations",
    "fuse_multimodal": "arrays.trajectories",
    "is_cuda_available": "arrays.installation",
    "print_installation_info": "arrays.installation",
    "resample": "arrays.operations",
    "resample_trajectories": "arrays.trajectories",
    "self_test": "arrays.installation",
    "voxelize": "arrays.encoders",
    "voxelize_occupancy": "arrays.trajectories",
    "voxelize_pointcloud": "arrays.trajectories",
    "Pipeline": "node.pipeline",
    "PushResult": "node.pipeline",
    "replay": "node.replaying",
    "replay_to": "node.replaying",
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
