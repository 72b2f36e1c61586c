//! A thread that calls the GPU for one ring, so that an encode worker can leave it behind.
//!
//! A call of the driver may take any time, and a GPU that hangs never returns. So the encode worker
//! makes none. It takes the ring's [`GpuEncoder`] from the thread, copies the message into the
//! encoder's own memory or lets the encoder hold it, and gives the encoder back. The thread encodes,
//! and the worker waits for as long as it wants to. If the worker goes on without the row, nothing that the GPU may still read or
//! write belongs to the worker alone: neither the message nor a slot.
//!
//! After a failure the GPU is left ([`Gpu::leave`]). What the driver may still use then stays where
//! it is until the process ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::backend::BackendError;
use crate::sample::PlacedSample;
use robocache_ops::device::{HostBuffer, MessagePool};
use robocache_ops::sync::lock;
use robocache_ops::voxelize::PointDrops;

/// When the backend ends, an encode under way may take this long before it is left behind.
const LAST_ENCODE: Duration = Duration::from_secs(1);
/// And this long to free its memory, which waits for all that others have started on the GPU.
const LAST_FREE: Duration = Duration::from_secs(10);

/// Encodes samples of one ring on a GPU that may be slow, fail or hang.
pub trait GpuEncoder: Send {
    /// Memory for messages whose samples it holds and does not copy; `None` if it copies all.
    fn messages(&self) -> Option<Arc<MessagePool>> {
        None
    }

    /// Copies a sample's bytes into memory of its own, or holds its message. A compressed image has been read. Makes no
    /// call of the driver. Returns false if it does not take the sample: it is too large for that memory, or cannot
    /// become a row. A core then encodes it, or says why not.
    fn stage(&mut self, placed: &PlacedSample<'_>) -> bool;

    /// Encodes the staged sample and waits for the row. It may take any time.
    ///
    /// # Errors
    /// [`BackendError::Sample`] if the sample cannot become a row, and [`BackendError::ForCore`] if a core must encode
    /// it. Any other error is a failure of the GPU.
    fn run(&mut self) -> Result<PointDrops, BackendError>;

    /// The memory of the row, which the caller may exchange for other memory of the same size;
    /// `None` if the GPU may still write into it.
    fn row(&mut self) -> Option<&mut HostBuffer>;
}

/// A GPU that several rings use, and whether it was left.
pub struct Gpu {
    left: OnceLock<String>,
    abandon: Box<dyn Fn() + Send + Sync>,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
}

impl Gpu {
    /// A GPU in use. If it is left, `abandon` is called once: the driver gets no other call.
    pub fn new(abandon: impl Fn() + Send + Sync + 'static) -> Self {
        Gpu::timed(abandon, Instant::now)
    }

    /// As [`Gpu::new`], but all times are by this clock: how long encodes take, and how long threads wait for them.
    pub fn timed(
        abandon: impl Fn() + Send + Sync + 'static,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> Self {
        Gpu { left: OnceLock::new(), abandon: Box::new(abandon), clock: Box::new(clock) }
    }

    /// The instant by its clock.
    pub fn now(&self) -> Instant {
        (self.clock)()
    }

    /// The time since an instant.
    pub fn since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }

    /// Why the GPU was left; `None` while it is in use.
    pub fn left(&self) -> Option<&str> {
        self.left.get().map(String::as_str)
    }

    /// Leaves the GPU for the rest of the process, and logs the first reason.
    pub fn leave(&self, reason: impl FnOnce() -> String) {
        let mut first = false;
        let reason = self.left.get_or_init(|| {
            first = true;
            reason()
        });
        if first {
            (self.abandon)();
            tracing::warn!(
                "the GPU was left: {reason}; from now on cores encode all images and clouds, and no \
                 message is lost"
            );
        }
    }
}

/// The thread of one ring.
pub(super) struct GpuThread {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

/// Meeting place of the worker and the thread.
struct Desk {
    gpu: Arc<Gpu>,
    state: Mutex<GpuThreadState>,
    changed: Condvar,
    /// True if a row waits that may be used.
    ready: AtomicBool,
}

struct GpuThreadState {
    place: EncoderPlace,
    /// True if the thread must end.
    closing: bool,
}

/// Place of the encoder.
enum EncoderPlace {
    /// On the desk, with nothing to do.
    Idle(Box<dyn GpuEncoder>),
    /// With the worker.
    Taken,
    /// On the desk, with a sample to encode.
    Staged { encoder: Box<dyn GpuEncoder>, since: Instant },
    /// With the thread.
    Running { since: Instant },
    /// On the desk, with a row.
    Done(Done),
    /// Nowhere: the thread has ended, or the GPU was left.
    Gone,
}

/// The outcome of a sample.
pub(super) struct Done {
    /// The encoder, for [`GpuThread::give_back`].
    pub encoder: Box<dyn GpuEncoder>,
    /// The counts of the row's points, or why the sample gave no row: `Sample` or `ForCore`.
    pub drops: Result<PointDrops, BackendError>,
    /// From hand-over to the row.
    pub took: Duration,
}

/// A sample for whose row no worker has waited.
pub(super) struct Unused {
    /// From hand-over to the row.
    pub took: Duration,
    /// True if there was no row, because a core must encode the sample.
    pub left_to_core: bool,
}

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing: it can take a sample.
    Nothing,
    /// It has had a sample since this instant.
    Encoding(Instant),
    /// It has ended.
    Gone,
}

impl GpuThread {
    /// Starts a thread.
    ///
    /// # Errors
    /// [`BackendError::Failed`] if the system starts none.
    pub(super) fn start(
        gpu: &Arc<Gpu>,
        encoder: Box<dyn GpuEncoder>,
    ) -> Result<Self, BackendError> {
        let state = GpuThreadState { place: EncoderPlace::Idle(encoder), closing: false };
        let desk = Arc::new(Desk {
            gpu: Arc::clone(gpu),
            state: Mutex::new(state),
            changed: Condvar::new(),
            ready: AtomicBool::new(false),
        });
        let body = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("gpu".into()).spawn(move || {
            robocache_ops::device::own_thread();
            body.serve();
        });
        let thread = thread.map_err(|error| BackendError::Failed {
            backend: super::NAME_WITH_GPU,
            operation: "start a thread for the GPU",
            detail: error.to_string(),
        })?;
        Ok(GpuThread { desk, thread: Some(thread) })
    }

    /// True if a row waits for [`GpuThread::wait`].
    pub(super) fn ready(&self) -> &AtomicBool {
        &self.desk.ready
    }

    /// True if the thread is done with a sample, whether or not there is a row. For tests.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        matches!(lock(&self.desk.state).place, EncoderPlace::Done(_))
    }

    /// Drops a finished row for which no worker waits. Returns what is known of it, and what the thread does
    /// now. Both are read under one lock. So a row that finishes later is not taken for the row of the next sample.
    pub(super) fn poll(&self) -> (Option<Unused>, Doing) {
        let mut state = lock(&self.desk.state);
        let unused = self.desk.take_done(&mut state).map(|done| {
            state.place = EncoderPlace::Idle(done.encoder);
            let left_to_core = matches!(done.drops, Err(BackendError::ForCore));
            Unused { took: done.took, left_to_core }
        });
        let doing = match state.place {
            EncoderPlace::Idle(_) => Doing::Nothing,
            EncoderPlace::Staged { since, .. } | EncoderPlace::Running { since } => {
                Doing::Encoding(since)
            }
            // A worker that panicked has kept it. (`take_done` leaves no row here.)
            EncoderPlace::Done(_) | EncoderPlace::Taken | EncoderPlace::Gone => Doing::Gone,
        };
        (unused, doing)
    }

    /// Gives the thread a sample that came at `since`. Returns false if it cannot take one now, or
    /// if its encoder does not take this one.
    pub(super) fn hand_over(&self, placed: &PlacedSample<'_>, since: Instant) -> bool {
        let mut encoder = {
            let mut state = lock(&self.desk.state);
            match std::mem::replace(&mut state.place, EncoderPlace::Taken) {
                EncoderPlace::Idle(encoder) => encoder,
                other => {
                    state.place = other;
                    return false;
                }
            }
        };
        // Outside of the lock: it copies megabytes.
        let staged = encoder.stage(placed);
        let mut state = lock(&self.desk.state);
        state.place = match staged {
            true => EncoderPlace::Staged { encoder, since },
            false => EncoderPlace::Idle(encoder),
        };
        self.desk.changed.notify_all();
        staged
    }

    /// Waits for the row until an instant. `None` if it was not there by then, or if the GPU failed.
    pub(super) fn wait(&self, until: Instant) -> Option<Done> {
        let mut state = lock(&self.desk.state);
        loop {
            if let Some(done) = self.desk.take_done(&mut state) {
                return Some(done);
            }
            if !matches!(state.place, EncoderPlace::Staged { .. } | EncoderPlace::Running { .. }) {
                return None;
            }
            let left = until.saturating_duration_since(self.desk.gpu.now());
            if left.is_zero() {
                return None;
            }
            state = self.desk.wait(state, left);
        }
    }

    /// Returns the encoder of a row that was waited for.
    pub(super) fn give_back(&self, encoder: Box<dyn GpuEncoder>) {
        lock(&self.desk.state).place = EncoderPlace::Idle(encoder);
        self.desk.changed.notify_all();
    }

    /// Asks the thread to end.
    pub(super) fn close(&self) {
        lock(&self.desk.state).closing = true;
        self.desk.changed.notify_all();
    }
}

/// Ends the thread; if the GPU hangs, the thread is left behind.
impl Drop for GpuThread {
    fn drop(&mut self) {
        self.close();
        let began = self.desk.gpu.now();
        let mut state = lock(&self.desk.state);
        while !matches!(state.place, EncoderPlace::Gone) && self.desk.gpu.left().is_none() {
            let encodes = matches!(state.place, EncoderPlace::Running { .. });
            let limit = if encodes { LAST_ENCODE } else { LAST_FREE };
            let left = limit.saturating_sub(self.desk.gpu.since(began));
            if left.is_zero() && encodes {
                let seconds = LAST_ENCODE.as_secs();
                self.desk.gpu.leave(|| format!("at the end it was not done within {seconds} s"));
            } else if left.is_zero() {
                break;
            } else {
                state = self.desk.wait(state, left);
            }
        }
        let ended = matches!(state.place, EncoderPlace::Gone);
        drop(state);
        if ended
            && self.desk.gpu.left().is_none()
            && let Some(thread) = self.thread.take()
        {
            // A panic was caught inside the thread.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn wait<'a>(
        &self,
        state: MutexGuard<'a, GpuThreadState>,
        at_most: Duration,
    ) -> MutexGuard<'a, GpuThreadState> {
        self.changed.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes what is done, if anything is.
    fn take_done(&self, state: &mut GpuThreadState) -> Option<Done> {
        match std::mem::replace(&mut state.place, EncoderPlace::Taken) {
            EncoderPlace::Done(done) => {
                self.ready.store(false, Ordering::Relaxed);
                Some(done)
            }
            other => {
                state.place = other;
                None
            }
        }
    }

    /// The thread: encodes until it is closed, or the GPU fails.
    fn serve(&self) {
        while let Some((mut encoder, since)) = self.next() {
            let outcome = catch_unwind(AssertUnwindSafe(|| encoder.run()));
            let took = self.gpu.since(since);
            let drops = match outcome {
                Ok(Ok(drops)) => Ok(drops),
                Ok(Err(no_row @ (BackendError::Sample(_) | BackendError::ForCore))) => Err(no_row),
                Ok(Err(error)) => return self.fail(encoder, || error.to_string()),
                Err(_) => return self.fail(encoder, || "its thread panicked".to_owned()),
            };
            if self.gpu.left().is_some() {
                return self.fail(encoder, String::new);
            }
            let messages = encoder.messages();
            // Without a row, no core's work is in vain.
            let has_row = drops.is_ok();
            let mut state = lock(&self.state);
            state.place = EncoderPlace::Done(Done { encoder, drops, took });
            self.ready.store(has_row, Ordering::Release);
            self.changed.notify_all();
            drop(state);
            // The row waits for no memory of later messages.
            messages.inspect(|messages| messages.supply());
        }
    }

    /// Waits for a sample; `None` when the thread must end. The encoder is dropped on this thread. If the call hangs,
    /// no other thread waits.
    fn next(&self) -> Option<(Box<dyn GpuEncoder>, Instant)> {
        let mut state = lock(&self.state);
        loop {
            if state.closing || self.gpu.left().is_some() {
                let place = std::mem::replace(&mut state.place, EncoderPlace::Taken);
                drop(state);
                drop(place);
                self.end();
                return None;
            }
            match std::mem::replace(&mut state.place, EncoderPlace::Taken) {
                EncoderPlace::Staged { encoder, since } => {
                    state.place = EncoderPlace::Running { since };
                    return Some((encoder, since));
                }
                other => state.place = other,
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Leaves the GPU.
    fn fail(&self, encoder: Box<dyn GpuEncoder>, reason: impl FnOnce() -> String) {
        self.gpu.leave(reason);
        // Its memory is not freed: the GPU may still read and write it. So it must not be dropped
        // by code that frees.
        std::mem::forget(encoder);
        self.end();
    }

    fn end(&self) {
        lock(&self.state).place = EncoderPlace::Gone;
        self.changed.notify_all();
    }
}
