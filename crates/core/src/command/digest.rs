//! The digest of the commands of a tick.

use super::group::{CommandGroup, Made};
use twox_hash::XxHash3_64;

/// Hashes the commands of all groups at a tick: for each group a byte, 1 if it sends a command, and then its values
/// (little-endian). XXH3, 64 bits, seed 0.
#[derive(Debug, Default)]
pub struct CommandDigest {
    bytes: Vec<u8>,
}

impl CommandDigest {
    /// Memory for the commands of these groups.
    pub fn of<'a>(groups: impl Iterator<Item = &'a CommandGroup>) -> Self {
        let len = groups.map(|group| 1 + 8 * group.spec().joints.len()).sum();
        CommandDigest { bytes: Vec::with_capacity(len) }
    }

    /// Adds what a group made at the tick.
    pub fn add(&mut self, made: Made, group: &CommandGroup) {
        self.bytes.push(u8::from(made.sends));
        if made.sends {
            let values = group.command().iter();
            self.bytes.extend(values.flat_map(|value| value.to_le_bytes()));
        }
    }

    /// The digest of what was added since the last call.
    pub fn take(&mut self) -> u64 {
        let digest = XxHash3_64::oneshot(&self.bytes);
        self.bytes.clear();
        digest
    }
}
