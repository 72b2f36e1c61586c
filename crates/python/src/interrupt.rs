//! Work on a thread, which an interrupt of Python ends.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::failed;

/// Time between two looks for an interrupt.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Works on a thread. An interrupt does not wait for it: what it reads may be many bags.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = sync_channel(1);
    let body = move || {
        // After an interrupt, no thread waits for it.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("asked".into()).spawn(body)?;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(PATIENCE);
            (receiver, received)
        });
        match received {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}

/// The exception of a thread that ended by a panic.
pub(crate) fn panicked() -> PyErr {
    failed("a failure of the program (a panic)")
}
