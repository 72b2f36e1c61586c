//! Sends chunks of actions, in a policy.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use iceoryx2::node::Node;
use iceoryx2::prelude::PortFactory as _;
use robocache_core::command::{MOST_REFUSED, MOST_ROWS, ReceivedStatus, RefusedChunk, SentChunk};
use robocache_ops::time::Stamp;

use super::super::SharedError;
use super::super::info::InfoReader;
use super::super::service::{Engine, names, node};
use super::{ActionService, MessageHeader, Receiver, STATUSES_WAITING, Sender, Way, send};

/// Sends chunks of one group to a node, and knows what becomes of them. One thread at a time uses it.
#[derive(Debug)]
pub struct ActionWriter {
    service: String,
    group: String,
    joints: Vec<String>,
    /// Tells this writer from others.
    writer: u64,
    sequence: u64,
    sender: Sender,
    receiver: Receiver,
    /// The newest status of the group.
    status: Option<ReceivedStatus>,
    /// Other groups of the node.
    others: BTreeSet<String>,
    /// The newest chunks of this writer that were refused, the oldest first.
    refused: VecDeque<RefusedChunk>,
    /// Memory for the next message.
    message: Vec<u8>,
    chunks: ActionService,
    _statuses: ActionService,
    info: InfoReader,
    node: Node<Engine>,
}

/// A tensor that a chunk answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Its run.
    pub run: u64,
    /// Number of its epoch.
    pub epoch: u64,
    /// Instant of its tick.
    pub stamp: Stamp,
    /// Number of its tick.
    pub tick: i64,
}

impl ActionWriter {
    /// A writer for a group of these joints, with all of its memory. A node need not be there yet.
    ///
    /// # Errors
    /// [`SharedError`], also if there is no room for the memory.
    pub fn new(service: &str, group: &str, joints: &[String]) -> Result<Self, SharedError> {
        let node = node(service)?;
        // What killed writers have left would count as writers.
        node.try_cleanup_dead_nodes();
        let chunks = Way::Chunks.make(&node, service)?;
        let statuses = Way::Statuses.make(&node, service)?;
        let sender = Way::Chunks.sender(&chunks, service, SentChunk::most_bytes(group, joints))?;
        let receiver = Way::Statuses.receiver(&statuses, service)?;
        Ok(ActionWriter {
            service: service.to_owned(),
            group: group.to_owned(),
            joints: joints.to_vec(),
            writer: draw(),
            sequence: 0,
            sender,
            receiver,
            status: None,
            others: BTreeSet::new(),
            refused: VecDeque::with_capacity(MOST_REFUSED),
            message: Vec::new(),
            chunks,
            _statuses: statuses,
            info: InfoReader::default(),
            node,
        })
    }

    /// Sends a chunk that answers a tensor: rows of the joints, and for relative joints the value of each. Returns its
    /// number. Without a node it is gone.
    ///
    /// # Errors
    /// [`SharedError::Rows`], or the engine failed. It was not sent.
    pub fn send(
        &mut self,
        answered: Answered,
        values: &[f32],
        reference: &[f32],
    ) -> Result<u64, SharedError> {
        let rows = values.len().checked_div(self.joints.len()).unwrap_or(0);
        if rows > MOST_ROWS {
            return Err(SharedError::Rows { most: MOST_ROWS, found: rows });
        }
        // Refusals are in one status alone, so those that wait are read often.
        self.follow()?;
        self.sequence += 1;
        let Answered { run, epoch, stamp, tick } = answered;
        let chunk = SentChunk {
            run,
            epoch,
            stamp,
            tick,
            sequence: self.sequence,
            group: &self.group,
            names: &self.joints,
            values,
            reference,
        };
        self.message = chunk.to_cdr(std::mem::take(&mut self.message));
        let header = MessageHeader { sender: self.writer, number: self.sequence };
        send(&self.sender, &self.service, header, &self.message)?;
        Ok(self.sequence)
    }

    /// The newest status of the group; `None` before the first. `newest` is `None` also if it is a chunk of another writer.
    /// `refused` has the newest chunks of this writer alone.
    ///
    /// # Errors
    /// The engine failed.
    pub fn status(&mut self) -> Result<Option<ReceivedStatus>, SharedError> {
        self.follow()?;
        let newest = |status: &ReceivedStatus| status.newest.filter(|it| it.writer == self.writer);
        Ok(self.status.as_ref().map(|status| ReceivedStatus {
            newest: newest(status),
            refused: self.refused.iter().copied().collect(),
            ..status.clone()
        }))
    }

    /// Meaning of a run's tensors, and how the node uses chunks that answer them: a serialized
    /// `robocache_ros/msg/FusedTensorInfo`. `None` if none of this run has come: the node looks for new readers once a
    /// second.
    ///
    /// # Errors
    /// The engine failed.
    pub fn info(&mut self, run: u64) -> Result<Option<&[u8]>, SharedError> {
        self.info.newest(&self.node, &self.service, Some(run))
    }

    /// True if a node takes chunks under this name.
    pub fn has_node(&self) -> bool {
        self.chunks.dynamic_config().number_of_subscribers() > 0
    }

    /// The groups of the node, sorted, as far as a status of each has come: for a user who has mistaken one.
    ///
    /// # Errors
    /// The engine failed.
    pub fn groups(&mut self) -> Result<Vec<String>, SharedError> {
        self.follow()?;
        let own = self.status.as_ref().map(|status| status.group.clone());
        let mut groups: Vec<String> = self.others.iter().cloned().chain(own).collect();
        groups.sort();
        Ok(groups)
    }

    /// The names under which nodes of this user share tensors, sorted: for a user who has mistaken one.
    ///
    /// # Errors
    /// The engine failed.
    pub fn services(&self) -> Result<Vec<String>, SharedError> {
        names(&self.node)
    }

    /// Reads the statuses that wait.
    fn follow(&mut self) -> Result<(), SharedError> {
        let failed = SharedError::failed(&self.service, "receive a status");
        for _ in 0..STATUSES_WAITING {
            let Some(sample) = self.receiver.receive().map_err(|why| failed(&why))? else { break };
            let read = ReceivedStatus::read(sample.payload()).map_err(|why| failed(&why))?;
            let status = read.ok_or_else(|| failed(&"it is of another version"))?;
            if status.group != self.group {
                self.others.insert(status.group);
                continue;
            }
            let of_this = status.refused.iter().filter(|refused| refused.writer == self.writer);
            for refused in of_this {
                if self.refused.len() == MOST_REFUSED {
                    self.refused.pop_front();
                }
                self.refused.push_back(*refused);
            }
            self.status = Some(status);
        }
        Ok(())
    }
}

/// Draws a number that no other writer has.
fn draw() -> u64 {
    // The state of each hasher is drawn by the system.
    RandomState::new().hash_one(std::process::id()).max(1)
}
