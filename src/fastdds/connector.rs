//! The thread *connect*: makes a new connection when the node needs one, and ends what it replaces.
//!
//! Both take the middleware a while. Each other thread takes its part of the new connection without a
//! wait. The node also ends here a subscription that asked for another quality of service.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use robocache_ops::sync::lock;
use robocache_runtime::TimeSource;

/// What was replaced ends this much later: what it sent last may still be on its way.
const LINGER: Duration = Duration::from_secs(1);

/// Asks the thread *connect* for what takes the middleware a while. Its clones share the thread, which ends
/// with the last of them.
#[derive(Clone)]
pub(crate) struct Connector {
    orders: Sender<Order>,
    /// Whether a connection is asked for and has not been made.
    pending: Arc<AtomicBool>,
    time: TimeSource,
}

enum Order {
    Connect,
    /// To end what was replaced at this instant.
    End(Box<dyn Send>, Instant),
}

impl Connector {
    /// Makes the connector and its thread's work.
    pub(crate) fn new(time: TimeSource) -> (Self, Connecting) {
        let (orders, taken) = channel();
        let pending = Arc::new(AtomicBool::new(false));
        let connecting =
            Connecting { orders: taken, pending: Arc::clone(&pending), time: time.clone() };
        (Connector { orders, pending, time }, connecting)
    }

    /// Source of the time at which a part is replaced.
    pub(crate) fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Asks for a new connection, unless one is being made.
    pub(crate) fn connect(&self) {
        if !self.pending.swap(true, Ordering::Relaxed) {
            // The thread ends only with the node.
            let _ = self.orders.send(Order::Connect);
        }
    }

    /// Ends what was replaced, a second later and on the thread *connect*.
    pub(crate) fn end(&self, replaced: impl Send + 'static) {
        let _ = self.orders.send(Order::End(Box::new(replaced), self.time.monotonic()));
    }
}

/// The newest part of one thread, while the thread has not taken it or does not run. Its clones share it.
pub(crate) struct Handed<T>(Arc<Mutex<Option<T>>>);

impl<T> Clone for Handed<T> {
    fn clone(&self) -> Self {
        Handed(Arc::clone(&self.0))
    }
}

impl<T> Default for Handed<T> {
    fn default() -> Self {
        Handed(Arc::default())
    }
}

impl<T> Handed<T> {
    /// Takes the part, if there is one. It does not wait for the thread that leaves one.
    pub(crate) fn take(&self) -> Option<T> {
        // A panic leaves no half change: there is one move.
        self.0.try_lock().ok()?.take()
    }

    /// Takes the part, if there is one. It waits while another thread leaves one.
    pub(crate) fn remove(&self) -> Option<T> {
        lock(&self.0).take()
    }

    /// Gives a part back whose thread ends. Returns it if a newer one is here.
    pub(crate) fn give_back(&self, part: T) -> Option<T> {
        let mut newest = lock(&self.0);
        if newest.is_some() {
            return Some(part);
        }
        newest.replace(part)
    }

    /// Leaves a part. Returns the previous one, if it was not taken.
    pub(crate) fn leave(&self, part: T) -> Option<T> {
        lock(&self.0).replace(part)
    }
}

/// The work of the thread *connect*.
pub(crate) struct Connecting {
    orders: Receiver<Order>,
    pending: Arc<AtomicBool>,
    time: TimeSource,
}

impl Connecting {
    /// Serves the orders until all who can give one are gone. `connect` makes a new connection and leaves its parts.
    /// While the node is `stopping`, none is made, and nothing lingers.
    pub(crate) fn run(self, stopping: impl Fn() -> bool, connect: impl Fn()) {
        for order in &self.orders {
            match order {
                Order::Connect if stopping() => {}
                Order::Connect => {
                    connect();
                    self.pending.store(false, Ordering::Relaxed);
                }
                Order::End(replaced, at) => {
                    if !stopping() {
                        std::thread::sleep(self.time.until(at + LINGER));
                    }
                    drop(replaced);
                }
            }
        }
    }
}
