//! Notes for the checker, and memory for them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TrySendError};

use robocache_core::spec::InputId;

/// Something that happened. Notes come in the order in which it did.
pub(super) enum Note {
    /// A vector is about to be received.
    Vector { input: InputId, stamp_ns: i64, bytes: Vec<u8> },
    /// An image or a cloud is about to be received.
    Large { input: InputId, stamp_ns: i64, message: Arc<Buffer> },
    /// An image or a cloud had to make room in the queue: it never becomes a row.
    Lost { input: InputId, stamp_ns: i64 },
    /// A tick was served. `settled` says up to which stamps the rings were filled when it began.
    Tick { tick: i64, settled: Vec<i64>, message: Buffer },
    /// The soak is over.
    End,
}

/// Sends a note; says whether it had to wait for the checker.
pub(super) fn tell(notes: &SyncSender<Note>, note: Note) -> bool {
    // A checker that is gone has failed, and says so itself.
    match notes.try_send(note) {
        Err(TrySendError::Full(note)) => {
            let _ = notes.send(note);
            true
        }
        _ => false,
    }
}

/// By input: the stamp up to which its messages are in their ring \[ns\].
#[derive(Debug)]
pub(super) struct Settled(Vec<AtomicI64>);

impl Settled {
    /// Nothing is there.
    pub(super) fn new(inputs: usize) -> Self {
        Settled((0..inputs).map(|_| AtomicI64::new(i64::MIN)).collect())
    }

    /// Notes that a message is in its ring.
    pub(super) fn note(&self, input: InputId, stamp_ns: i64) {
        self.0[input.index()].store(stamp_ns, Ordering::Release);
    }

    /// The stamp of an input's newest row; `None` before the first.
    pub(super) fn newest(&self, input: InputId) -> Option<i64> {
        let stamp_ns = self.0[input.index()].load(Ordering::Acquire);
        (stamp_ns != i64::MIN).then_some(stamp_ns)
    }

    /// All as they are now.
    pub(super) fn read(&self) -> Vec<i64> {
        self.0.iter().map(|stamp_ns| stamp_ns.load(Ordering::Acquire)).collect()
    }
}

/// Memory of a message, which returns to where it came from.
pub(super) struct Buffer {
    /// The message.
    pub bytes: Vec<u8>,
    home: Sender<Vec<u8>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // No thread waits for it once the soak is over.
        let _ = self.home.send(mem::take(&mut self.bytes));
    }
}

/// A message in the hands of the runtime, shared with the checker.
pub(super) struct SharedBuffer(pub Arc<Buffer>);

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Memory for a number of messages, all of it touched.
pub(super) struct Pool {
    spare: Receiver<Vec<u8>>,
    home: Sender<Vec<u8>>,
}

impl Pool {
    /// Memory for `count` messages of `len` bytes.
    pub(super) fn new(count: usize, len: usize) -> Self {
        let (home, spare) = mpsc::channel();
        // The receiver is here, so that this cannot fail.
        (0..count).for_each(|_| drop(home.send(vec![1; len])));
        Pool { spare, home }
    }

    /// A copy of a message, unless all memory is out.
    pub(super) fn copy(&self, message: &[u8]) -> Option<Buffer> {
        let mut bytes = self.spare.try_recv().ok()?;
        bytes.clear();
        bytes.extend_from_slice(message);
        Some(Buffer { bytes, home: self.home.clone() })
    }
}
