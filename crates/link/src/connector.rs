//! The thread *connect*: makes a new connection when the node needs one, and ends what it replaces.
//!
//! Both take the middleware a while. Each other thread takes its part of the new connection without a
//! wait. The node also makes here a subscription that asks for another quality of service, and ends the one before.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use robocache_ops::sync::lock;
use robocache_runtime::{Next, Steps, TimeSource};

/// Time from the replacement of a part to its end: messages that it sent last may still be on their way.
const LINGER: Duration = Duration::from_secs(1);
/// An order usually takes the middleware less.
const LONG: Duration = Duration::from_secs(5);

/// Asks the thread *connect* for what takes the middleware a while. Its clones share the thread, which ends
/// with the last of them.
#[derive(Clone)]
pub struct Connector {
    orders: Sender<Order>,
    /// True if a connection is asked for and has not been made.
    pending: Arc<AtomicBool>,
    serving: Serving,
    time: TimeSource,
}

/// The purpose of the order that the thread *connect* serves, and the instant at which it began; `None` after it was said
/// that it takes long.
type Serving = Arc<Mutex<Option<(&'static str, Instant)>>>;

enum Order {
    Connect,
    Make(Box<dyn FnOnce() + Send>),
    /// To end what was replaced at this instant.
    End(Box<dyn Send>, Instant),
}

impl Connector {
    /// Makes the connector, and what its thread serves.
    pub fn new(time: TimeSource) -> (Self, Orders) {
        let (orders, taken) = channel();
        let pending = Arc::new(AtomicBool::new(false));
        let connector = Connector { orders, pending, serving: Serving::default(), time };
        let served = Orders {
            taken,
            pending: Arc::clone(&connector.pending),
            serving: Arc::clone(&connector.serving),
            time: connector.time.clone(),
        };
        (connector, served)
    }

    /// Source of the time at which a part is replaced.
    pub fn time(&self) -> &TimeSource {
        &self.time
    }

    /// Asks for a new connection, unless one is being made. Returns true if it asked.
    pub fn connect(&self) -> bool {
        // The thread ends only with the node.
        !self.pending.swap(true, Ordering::Relaxed) && self.orders.send(Order::Connect).is_ok()
    }

    /// True from when a new connection is asked for until its parts are left to their threads.
    pub(crate) fn is_connecting(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Says what has held the thread *connect* up for five seconds, once for each order.
    pub fn held_up(&self) -> Option<&'static str> {
        let now = self.time.monotonic();
        let order = lock(&self.serving).take_if(|(_, since)| now >= *since + LONG);
        order.map(|(purpose, _)| purpose)
    }

    /// Asks for something that takes the middleware a while to make. It is not made if nobody waits for it any more.
    pub fn make<T: Send + 'static>(&self, make: impl FnOnce() -> T + Send + 'static) -> Handed<T> {
        let handed = Handed::default();
        let wanted = Arc::downgrade(&handed.0);
        let make = move || {
            if let Some(place) = wanted.upgrade() {
                drop(Handed(place).leave(make()));
            }
        };
        let _ = self.orders.send(Order::Make(Box::new(make)));
        handed
    }

    /// Ends what was replaced, a second later and on the thread *connect*.
    pub fn end(&self, replaced: impl Send + 'static) {
        let _ = self.orders.send(Order::End(Box::new(replaced), self.time.monotonic()));
    }
}

/// The newest part of one thread, while the thread has not taken it or does not run. Its clones share it.
pub struct Handed<T>(Arc<Mutex<Option<T>>>);

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
    pub fn take(&self) -> Option<T> {
        // A panic leaves no half change: there is one move.
        self.0.try_lock().ok()?.take()
    }

    /// True if a part waits to be taken. It does not wait for the thread that leaves one.
    pub(crate) fn waits(&self) -> bool {
        self.0.try_lock().is_ok_and(|part| part.is_some())
    }

    /// Takes the part, if there is one. It waits while another thread leaves one.
    pub fn remove(&self) -> Option<T> {
        lock(&self.0).take()
    }

    /// Gives a part back whose thread ends. Returns it if a newer one is here.
    pub fn give_back(&self, part: T) -> Option<T> {
        let mut newest = lock(&self.0);
        if newest.is_some() {
            return Some(part);
        }
        newest.replace(part)
    }

    /// Leaves a part. Returns the previous one, if it was not taken.
    pub fn leave(&self, part: T) -> Option<T> {
        lock(&self.0).replace(part)
    }
}

/// The orders of all connectors, for the thread *connect*.
pub struct Orders {
    taken: Receiver<Order>,
    pending: Arc<AtomicBool>,
    serving: Serving,
    time: TimeSource,
}

/// Does what takes the middleware a while.
fn serve(serving: &Serving, of: (&'static str, Instant), work: impl FnOnce()) {
    *lock(serving) = Some(of);
    work();
    *lock(serving) = None;
}

/// The loop *connect*: serves the orders until all who can give one are gone.
pub struct Connecting<S, C> {
    orders: Orders,
    /// The order at hand.
    order: Option<Order>,
    /// Replaced parts, each with the instant of its end.
    lingering: VecDeque<(Box<dyn Send>, Instant)>,
    stopping: S,
    connect: C,
}

impl<S: Fn() -> bool, C: Fn()> Connecting<S, C> {
    /// Serves these orders. `connect` makes a new connection and leaves its parts. While the node is `stopping`, none is
    /// made, and nothing lingers.
    pub fn new(orders: Orders, stopping: S, connect: C) -> Self {
        Connecting { orders, order: None, lingering: VecDeque::new(), stopping, connect }
    }

    /// Waits for the next order, at most until an instant.
    pub fn wait(&mut self, until: Option<Instant>) {
        let Orders { taken, time, .. } = &self.orders;
        let Some(instant) = until else {
            self.order = taken.recv().ok();
            return;
        };
        match taken.recv_timeout(time.until(instant)) {
            Ok(order) => self.order = Some(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(time.until(instant)),
        }
    }
}

impl<S: Fn() -> bool, C: Fn()> Steps for Connecting<S, C> {
    type Error = Infallible;

    /// Serves an order. Without one, ends what was replaced long enough ago.
    fn step(&mut self) -> Result<Next, Infallible> {
        let Orders { taken, pending, serving, time } = &self.orders;
        let order = self.order.take().map_or_else(|| taken.try_recv(), Ok);
        let now = time.monotonic();
        let stops = (self.stopping)();
        match order {
            Ok(Order::Connect | Order::Make(_)) if stops => {}
            Ok(Order::Connect) => {
                serve(serving, ("make a new connection", now), &self.connect);
                // Who reads this finds the parts of the connection.
                pending.store(false, Ordering::Release);
            }
            Ok(Order::Make(make)) => serve(serving, ("make a subscription", now), make),
            Ok(Order::End(replaced, at)) => self.lingering.push_back((replaced, at + LINGER)),
            Err(none) => match self.lingering.front() {
                Some((_, end)) if now < *end && !stops => return Ok(Next::At(*end)),
                Some(_) => serve(serving, ("end what was replaced", now), || {
                    drop(self.lingering.pop_front());
                }),
                None if none == TryRecvError::Empty => return Ok(Next::Woken),
                None => return Ok(Next::Done),
            },
        }
        Ok(Next::At(now))
    }
}

#[cfg(test)]
mod tests;
