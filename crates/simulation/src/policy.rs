//! The policy: answers tensors by chunks of actions.

use crate::net::{CHUNKS, MS, Net, S};
use crate::node::Answerable;
use robocache_core::command::SentChunk;
use robocache_link::CHUNK_TYPE;
use robocache_ops::random::Random;
use robocache_runtime::OfferedQos;

/// Rows of a chunk, and the time between them, as configured.
const ROWS: usize = 20;
const ROW_NS: i64 = 50 * MS as i64;

/// A policy that answers one tensor after the other, and whose chunks are numbered from 1 at each start.
pub(crate) struct Policy {
    /// Its publisher; `None` while it is ended.
    publisher: Option<usize>,
    answering: bool,
    chunks: u64,
    draw: Random,
}

impl Policy {
    /// A policy that has not begun.
    pub(crate) fn new(seed: u64) -> Self {
        let draw = Random::new(seed ^ 0x0B01);
        Policy { publisher: None, answering: false, chunks: 0, draw }
    }

    /// Begins, perhaps again.
    pub(crate) fn begin(&mut self, net: &mut Net) {
        let offers = OfferedQos { reliable: true, transient_local: false };
        let publisher = net.advertise(CHUNKS, CHUNK_TYPE, offers, 10, false, 0);
        (self.publisher, self.answering, self.chunks) = (Some(publisher), false, 0);
    }

    /// Ends. Returns false if it had ended already.
    pub(crate) fn end(&mut self, net: &mut Net) -> bool {
        let publisher = self.publisher.take();
        publisher.into_iter().for_each(|publisher| net.end_publisher(publisher));
        publisher.is_some()
    }

    /// Takes a tensor, unless it still answers another one. Returns after how long it answers [ns].
    pub(crate) fn take(&mut self) -> Option<u64> {
        if self.publisher.is_none() || std::mem::replace(&mut self.answering, true) {
            return None;
        }
        let slow = if self.draw.below(10) == 0 { 700 * MS } else { 0 };
        Some(20 * MS + self.draw.below(150 * MS) + slow)
    }

    /// Answers a tensor.
    pub(crate) fn answer(&mut self, tensor: Answerable, net: &mut Net) {
        self.answering = false;
        let Some(publisher) = self.publisher else { return };
        self.chunks += 1;
        let names = ["a", "b"].map(str::to_owned);
        let turn = self.draw.unit() * 4.0;
        let value = |row: usize, joint: usize| {
            let at = tensor.stamp.offset(row as i64 * ROW_NS).nanos() % (3600 * S as i64);
            ((at as f64 / 1e9 + turn + joint as f64).sin() * 2.0) as f32
        };
        let values: Vec<f32> = (0..ROWS).flat_map(|row| [value(row, 0), value(row, 1)]).collect();
        let chunk = SentChunk {
            run: tensor.run,
            epoch: tensor.epoch,
            stamp: tensor.stamp,
            tick: tensor.tick,
            sequence: self.chunks,
            group: "arm",
            names: &names,
            values: &values,
            reference: &[],
        };
        net.publish(publisher, chunk.to_cdr(Vec::new()));
    }
}
