//! Reads tensors from shared memory, without a copy.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use iceoryx2::node::Node;
use iceoryx2::port::listener::Listener;
use robocache_core::config::describe::shared_memory::{HELD, PAGE};
use robocache_ops::device::HostBuffer;

use super::SharedError;
use super::info::InfoReader;
use super::port::{Port, Received, full, message_in, receive, subscribe};
use super::service::{Engine, ServiceKind, TensorHeader, Tensors, names, node, wakes};

/// The longest wait without a look, if a reader was not woken.
const LOOK: Duration = Duration::from_millis(500);

/// Reads the tensors of a node. One thread at a time uses it.
#[derive(Debug)]
pub struct TensorReader {
    service: String,
    listener: Listener<Engine>,
    /// `None` until a node has made the service.
    ports: Option<Ports>,
    info: InfoReader,
    /// Samples whose memory is still in use.
    held: Arc<AtomicUsize>,
    copied: u64,
    missed: u64,
    /// The run and the number of the newest tensor.
    newest: Option<(u64, u64)>,
    node: Node<Engine>,
}

#[derive(Debug)]
struct Ports {
    tensors: Arc<Port>,
    _tensors: Tensors,
}

/// A tensor in shared memory. It is never written while this is alive.
#[derive(Debug)]
pub struct TensorSample {
    bytes: SampleBytes,
    run: u64,
}

#[derive(Debug)]
enum SampleBytes {
    Shared(Shared),
    /// A copy, with the place of the message in it.
    Copied(HostBuffer, usize),
}

#[derive(Debug)]
struct Shared {
    /// The message, in the memory of `sample`.
    bytes: *const [u8],
    /// Taken only by the drop.
    sample: ManuallyDrop<Received>,
    held: Arc<AtomicUsize>,
    /// The memory stays only while its reader is there: the node takes all back that an ended reader had.
    _port: Arc<Port>,
}

// SAFETY: the bytes do not change while the sample is alive. A shared reference reads only them; the sample itself, which
// may move between threads, is used only by the drop.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: dropped here alone, once.
        unsafe { ManuallyDrop::drop(&mut self.sample) };
        self.held.fetch_sub(1, Ordering::AcqRel);
    }
}

impl TensorSample {
    /// The run of the node that made it. All tensors of a run have their parts at the same places.
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The serialized `robocache_ros/msg/FusedTensor`. Its data is aligned to 64 bytes.
    pub fn message(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: see `Shared`.
            SampleBytes::Shared(shared) => unsafe { &*shared.bytes },
            SampleBytes::Copied(buffer, start) => &buffer[*start..],
        }
    }
}

impl TensorReader {
    /// A reader of the service of this name. A node need not have made it yet.
    ///
    /// # Errors
    /// [`SharedError`]
    pub fn new(service: &str) -> Result<Self, SharedError> {
        let node = node(service)?;
        let listener = wakes(&node, service)?.listener_builder().create().map_err(|why| {
            use iceoryx2::port::listener::ListenerCreateError as Error;
            match why {
                Error::ExceedsMaxSupportedListeners => full(service),
                why => SharedError::failed(service, "wait for tensors")(&why),
            }
        })?;
        let mut reader = TensorReader {
            service: service.to_owned(),
            listener,
            ports: None,
            info: InfoReader::default(),
            held: Arc::default(),
            copied: 0,
            missed: 0,
            newest: None,
            node,
        };
        reader.open()?;
        Ok(reader)
    }

    /// True if a node has made the service.
    pub fn is_open(&self) -> bool {
        self.ports.is_some()
    }

    /// The names under which nodes of this user share tensors, sorted: for a user who has mistaken one.
    ///
    /// # Errors
    /// The engine failed.
    pub fn services(&self) -> Result<Vec<String>, SharedError> {
        names(&self.node)
    }

    /// Tensors that a newer one of the same run replaced before this reader took them.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Tensors that were copied, because the caller keeps as many as a reader may ([`HELD`]).
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Meaning of the tensors: a serialized `robocache_ros/msg/FusedTensorInfo`, of the run of the newest tensor.
    /// `None` if none has come: the node looks for new readers once a second.
    ///
    /// # Errors
    /// The engine failed.
    pub fn info(&mut self) -> Result<Option<&[u8]>, SharedError> {
        self.info.newest(&self.node, &self.service, self.newest.map(|(run, _)| run))
    }

    /// The newest tensor that was not taken yet; `None` if there is none.
    ///
    /// # Errors
    /// The engine failed, or the service is of another version.
    pub fn latest(&mut self) -> Result<Option<TensorSample>, SharedError> {
        self.open()?;
        let Some(Ports { tensors, .. }) = &self.ports else { return Ok(None) };
        let Some(sample) = receive(tensors, &self.service)? else { return Ok(None) };
        let Some(bytes) = message_in(&sample) else {
            return Err(SharedError::failed(&self.service, "read a tensor")(
                &"its header is wrong",
            ));
        };
        let TensorHeader { run, number, .. } = *sample.user_header();
        self.missed = match self.newest {
            Some((before, last)) if before == run => {
                self.missed + number.saturating_sub(last).saturating_sub(1)
            }
            _ => self.missed,
        };
        self.newest = Some((run, number));
        if self.held.load(Ordering::Acquire) >= HELD {
            self.copied += 1;
            return Ok(Some(TensorSample { bytes: copy_of(bytes), run }));
        }
        let bytes: *const [u8] = bytes;
        self.held.fetch_add(1, Ordering::AcqRel);
        let sample = ManuallyDrop::new(sample);
        let held = Arc::clone(&self.held);
        let shared = Shared { bytes, sample, held, _port: Arc::clone(tensors) };
        Ok(Some(TensorSample { bytes: SampleBytes::Shared(shared), run }))
    }

    /// Waits for a tensor that was not taken yet. Returns `None` if none came in time, or if a signal came.
    ///
    /// # Errors
    /// As for [`TensorReader::latest`].
    pub fn wait(&mut self, patience: Duration) -> Result<Option<TensorSample>, SharedError> {
        use iceoryx2::port::listener::ListenerWaitError as Error;
        let until = Instant::now().checked_add(patience);
        loop {
            if let Some(tensor) = self.latest()? {
                return Ok(Some(tensor));
            }
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            match self.listener.timed_wait(|_| {}, left.min(LOOK)) {
                Ok(_) => {}
                Err(Error::InterruptSignal) => return Ok(None),
                Err(why) => {
                    return Err(SharedError::failed(&self.service, "wait for a tensor")(&why));
                }
            }
        }
    }

    /// Opens the service, if a node has made it.
    fn open(&mut self) -> Result<(), SharedError> {
        if self.ports.is_some() {
            return Ok(());
        }
        let Some(samples) = ServiceKind::Tensors.open(&self.node, &self.service)? else {
            return Ok(());
        };
        let tensors = subscribe(&samples, &self.service)?;
        let tensors = Arc::new(tensors);
        self.ports = Some(Ports { tensors, _tensors: samples });
        // The node serves later subscribers once a second, so this one comes early.
        self.info.open(&self.node, &self.service)
    }
}

/// A copy with the same alignment.
fn copy_of(bytes: &[u8]) -> SampleBytes {
    let start = bytes.as_ptr() as usize % PAGE;
    let mut buffer = HostBuffer::new(start + bytes.len());
    buffer[start..].copy_from_slice(bytes);
    SampleBytes::Copied(buffer, start)
}
