//! Finds the copies of a message: a topic that several inputs take gives each of them one.

use std::collections::VecDeque;

use robocache_core::spec::InputId;

/// Messages of a topic with several inputs that are remembered, so that its bytes are written once.
pub const REMEMBERED: usize = 64;

/// The latest messages of a topic that several inputs take.
#[derive(Default)]
pub(super) struct Copies(VecDeque<Known>);

struct Known {
    hash: u64,
    len: usize,
    number: u64,
    by: Vec<InputId>,
}

impl Copies {
    /// The number of the message with these bytes: the first such that this input has not taken yet, else
    /// this one's. A publisher may send equal bytes twice.
    pub(super) fn take(&mut self, input: InputId, number: u64, bytes: &[u8]) -> u64 {
        let hash = twox_hash::XxHash3_64::oneshot(bytes);
        let len = bytes.len();
        let is_copy = |known: &&mut Known| {
            (known.hash, known.len) == (hash, len) && !known.by.contains(&input)
        };
        if let Some(known) = self.0.iter_mut().find(is_copy) {
            known.by.push(input);
            return known.number;
        }
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Known { hash, len, number, by: vec![input] });
        number
    }
}

#[cfg(test)]
mod tests;
