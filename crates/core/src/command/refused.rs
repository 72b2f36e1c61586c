//! Why a chunk is refused.

use std::fmt::{self, Display};

/// Reason for which a chunk is refused whole. [`Refusal::word`] tells it to the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    Malformed,
    /// No group has its name.
    Group,
    /// Its names are not those of the group, in this order.
    Names,
    /// It has more rows than the group has offsets, or another number of values than rows times names.
    Shape,
    /// It has no rows.
    NoRows,
    /// A value is NaN or infinite, or leaves the range of numbers when it is taken back.
    NonFinite,
    /// The group has relative channels, and the chunk has no reference for them.
    Reference,
    /// It answers a tensor of another run.
    Run,
    /// It answers a tensor of another epoch.
    Epoch,
    /// It answers a tick that the node has not served.
    NotServed,
    /// It answers a tick before that of the newest chunk.
    Older,
    /// It answers a tick from more than ten seconds ago.
    TooOld,
    /// Its sequence does not rise.
    Sequence,
    /// The group belongs to another writer.
    Writer,
    /// Commands are disabled.
    Disabled,
}

impl Refusal {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Refusal; 15] = [
        Refusal::Malformed,
        Refusal::Group,
        Refusal::Names,
        Refusal::Shape,
        Refusal::NoRows,
        Refusal::NonFinite,
        Refusal::Reference,
        Refusal::Run,
        Refusal::Epoch,
        Refusal::NotServed,
        Refusal::Older,
        Refusal::TooOld,
        Refusal::Sequence,
        Refusal::Writer,
        Refusal::Disabled,
    ];

    /// The reason in a word, as messages and counters have it.
    pub const fn word(self) -> &'static str {
        match self {
            Refusal::Malformed => "malformed",
            Refusal::Group => "group",
            Refusal::Names => "names",
            Refusal::Shape => "shape",
            Refusal::NoRows => "no_rows",
            Refusal::NonFinite => "non_finite",
            Refusal::Reference => "reference",
            Refusal::Run => "run",
            Refusal::Epoch => "epoch",
            Refusal::NotServed => "not_served",
            Refusal::Older => "older",
            Refusal::TooOld => "too_old",
            Refusal::Sequence => "sequence",
            Refusal::Writer => "writer",
            Refusal::Disabled => "disabled",
        }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
