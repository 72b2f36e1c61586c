//! Drops what may take long, without the interpreter's lock.

use std::any::Any;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};

use pyo3::prelude::*;

/// Does something without the interpreter's lock, from where Python drops an object.
pub(crate) fn without_lock<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let mut act = Some(act);
    let done = Python::try_attach(|py| act.take().map(|act| py.detach(act)));
    match (done.flatten(), act) {
        (Some(done), _) => done,
        // The interpreter is ending.
        (None, Some(act)) => act(),
        (None, None) => unreachable!("it was done"),
    }
}

/// A value whose drop releases the interpreter's lock. Only for values in objects of Python.
pub(crate) struct Unlocked<T: Send>(Option<T>);

impl<T: Send> Unlocked<T> {
    /// Keeps a value.
    pub(crate) fn new(value: T) -> Self {
        Unlocked(Some(value))
    }
}

impl<T: Send> Deref for Unlocked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl<T: Send> Drop for Unlocked<T> {
    fn drop(&mut self) {
        without_lock(|| drop(self.0.take()));
    }
}

/// A value that another thread drops. The owner then waits for nothing: a consumer of DLPack, which may
/// do so on any thread, with the interpreter's lock or without.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))] // only a GPU has memory that takes long to free
pub(crate) struct Elsewhere<T: Send + 'static>(Option<T>);

#[cfg_attr(not(feature = "cuda"), allow(dead_code))] // as above
impl<T: Send + 'static> Elsewhere<T> {
    /// Keeps a value.
    pub(crate) fn new(value: T) -> Self {
        Elsewhere(Some(value))
    }
}

impl<T: Send + 'static> Deref for Elsewhere<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Some(value) => value,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl<T: Send + 'static> Drop for Elsewhere<T> {
    fn drop(&mut self) {
        static THREAD: OnceLock<Option<Sender<Box<dyn Any + Send>>>> = OnceLock::new();
        let thread = THREAD.get_or_init(|| {
            let (sender, receiver) = channel::<Box<dyn Any + Send>>();
            let body = move || {
                robocache_ops::device::own_thread();
                receiver.iter().for_each(drop);
            };
            std::thread::Builder::new().name("free".into()).spawn(body).ok().map(|_| sender)
        });
        if let (Some(thread), Some(value)) = (thread, self.0.take()) {
            // In a forked process there is no such thread, and nothing is freed.
            let _ = thread.send(Box::new(value));
        }
    }
}
