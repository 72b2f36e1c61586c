//! Words that say what a segment holds: in tensors, stores, contracts and reports. A word that no program asks for is only
//! in its encoder.

/// Numbers.
pub const VECTOR: &str = "vector";
/// Images of light.
pub const IMAGE: &str = "image";
/// Distances.
pub const DEPTH: &str = "depth";
/// Voxels of a dense grid.
pub const VOXELS: &str = "voxels";
/// Features of the listed voxels of a sparse grid.
pub const SPARSE_VOXELS: &str = "sparse_voxels";
/// Places of the listed voxels of a sparse grid.
pub const VOXEL_COORDINATES: &str = "voxel_coordinates";

/// The kinds whose values do not depend on the type of the message. A scan and a cloud have other points. A contract holds
/// the kind alone, so encoders do not say it.
pub const TYPELESS: [&str; 3] = [VECTOR, IMAGE, DEPTH];
