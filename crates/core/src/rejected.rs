//! Why a message was not taken.

use crate::cdr::CdrError;
use robocache_ops::voxelize::VoxelizeError;

/// Most names of a message that an error lists: a message may declare thousands. If there are more, the
/// error says so.
pub const NAMES_LOGGED: usize = 32;
/// Most bytes of such a name that an error shows.
pub(crate) const NAME_LOGGED: usize = 64;

/// Why a message, or a part of it, was not taken. It is dropped and counted under
/// [`Rejected::reason`].
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{detail}")]
pub struct Rejected {
    /// Reason that it is counted under.
    pub reason: DropReason,
    /// Detail for the log: what was expected and what was found.
    pub detail: String,
    /// The frame that no transform has named, if that is why.
    pub unknown_frame: Option<String>,
}

impl Rejected {
    /// A drop that is counted as `reason`.
    pub fn new(reason: DropReason, detail: impl Into<String>) -> Self {
        Rejected { reason, detail: detail.into(), unknown_frame: None }
    }
}

impl From<CdrError> for Rejected {
    fn from(error: CdrError) -> Self {
        Rejected::new(DropReason::Malformed, error.to_string())
    }
}

impl From<VoxelizeError> for Rejected {
    fn from(error: VoxelizeError) -> Self {
        let reason = match error {
            VoxelizeError::Fields { .. } | VoxelizeError::Shapes { .. } => DropReason::MissingField,
            VoxelizeError::Sweep { .. } => DropReason::Unsupported,
            VoxelizeError::TooManyPoints(_) | VoxelizeError::Value { .. } => DropReason::OutOfRange,
        };
        Rejected::new(reason, error.to_string())
    }
}

/// Why a message did not become a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum DropReason {
    /// Shorter than it declares, or not the CDR of its type.
    Malformed,
    /// The header's stamp is zero under `timeline: header`, and no simulator's clock has read zero.
    ZeroStamp,
    /// The header's stamp has a nanosecond part of a second or more, or negative seconds.
    BadStamp,
    /// An encoding, data type or layout that is not supported.
    Unsupported,
    /// A joint or point field of the configuration is not in the message.
    MissingField,
    /// `frame_id` is not the configured one.
    WrongFrame,
    /// NaN or infinity in a field that the row takes.
    NonFinite,
    /// A value that the row's element type cannot hold.
    OutOfRange,
    /// An image or a cloud larger than the stream's [`Bounds`](crate::sample::Bounds).
    TooLarge,
    /// An image without the part that its stream crops, or of another size than its `CameraInfo` says.
    WrongSize,
    /// Stamped more than 1 s ahead of the node's clock: the sensor uses another clock.
    Ahead,
    /// Older than everything in a full ring.
    Late,
    /// Published or stamped before the clock jumped back, or before its first reading.
    Cleared,
    /// An image that must be undistorted, before the first `CameraInfo` of its camera.
    NoCameraInfo,
    /// No chain of transforms leads from its frame to the one that it is wanted in.
    NoTransform,
    /// Pushed out of a full queue because the encode worker was too slow; the oldest goes first.
    Overload,
}

impl DropReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [DropReason; 16] = [
        DropReason::Malformed,
        DropReason::ZeroStamp,
        DropReason::BadStamp,
        DropReason::Unsupported,
        DropReason::MissingField,
        DropReason::WrongFrame,
        DropReason::NonFinite,
        DropReason::OutOfRange,
        DropReason::TooLarge,
        DropReason::WrongSize,
        DropReason::Ahead,
        DropReason::Late,
        DropReason::Cleared,
        DropReason::NoCameraInfo,
        DropReason::NoTransform,
        DropReason::Overload,
    ];

    /// The name in diagnostics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::ZeroStamp => "zero_stamp",
            DropReason::BadStamp => "bad_stamp",
            DropReason::Unsupported => "unsupported",
            DropReason::MissingField => "missing_field",
            DropReason::WrongFrame => "wrong_frame",
            DropReason::NonFinite => "non_finite",
            DropReason::OutOfRange => "out_of_range",
            DropReason::TooLarge => "too_large",
            DropReason::WrongSize => "wrong_size",
            DropReason::Ahead => "ahead",
            DropReason::Late => "late",
            DropReason::Cleared => "cleared",
            DropReason::NoCameraInfo => "no_camera_info",
            DropReason::NoTransform => "no_transform",
            DropReason::Overload => "overload",
        }
    }
}

/// The first names of a message, for an error.
pub fn names_found<'a>(names: impl ExactSizeIterator<Item = &'a [u8]>) -> String {
    let more = if names.len() > NAMES_LOGGED { ", ..." } else { "" };
    let shorten = |name: &'a [u8]| String::from_utf8_lossy(&name[..name.len().min(NAME_LOGGED)]);
    let shown: Vec<_> = names.take(NAMES_LOGGED).map(shorten).collect();
    format!("{}{more}", shown.join(", "))
}
