//! Tensors in Python's hands, and their memory, which later ticks use again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use robocache_core::message::TensorMessage;
use robocache_ops::device::DeviceOutput;

use crate::dlpack::Memory;
use crate::freeing::Elsewhere;
use crate::process::Process;

/// At most this many unused messages are kept for the next tensors.
const SPARE: usize = 16;

/// Messages for tensors. Python's views keep a message out of it.
pub struct Messages {
    spare: Mutex<Vec<TensorMessage>>,
    process: Process,
}

impl Default for Messages {
    fn default() -> Self {
        Messages { spare: Mutex::default(), process: Process::this() }
    }
}

impl Messages {
    /// The lock is held only while a message moves, never over a call of the driver: so no thread waits long for it.
    fn lock(&self) -> MutexGuard<'_, Vec<TensorMessage>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the message that was used last, of those that nothing on a GPU reads any more, or `None`.
    pub fn take(&self) -> Option<TensorMessage> {
        let free = |message: &TensorMessage| message.on_device().is_none_or(DeviceOutput::is_free);
        let mut in_use = Vec::new();
        let found = loop {
            // A statement of its own, so that the lock is released before the driver is asked.
            let message = self.lock().pop();
            match message {
                Some(message) if !free(&message) => in_use.push(message),
                found => break found,
            }
        };
        if !in_use.is_empty() {
            self.lock().extend(in_use.into_iter().rev());
        }
        found
    }

    /// Puts a message back, or frees it if there are enough. A forked process frees it too, because a missing thread
    /// may hold the lock.
    pub fn put(&self, message: TensorMessage) {
        let message = match self.process.is_this() {
            true => self.put_in(message),
            false => Some(message),
        };
        if let Some(message) = message
            && message.on_device().is_some()
        {
            // It would wait for the GPU.
            drop(Elsewhere::new(message));
        }
    }

    /// Puts a message back; returns it if there are enough.
    fn put_in(&self, message: TensorMessage) -> Option<TensorMessage> {
        let mut spare = self.lock();
        if spare.len() >= SPARE {
            return Some(message);
        }
        spare.push(message);
        None
    }
}

/// A message in Python's hands. A drop gives it back.
pub(crate) struct HeldTensor {
    /// `None` only while it is dropped.
    message: Option<TensorMessage>,
    messages: Arc<Messages>,
    /// True if a library has the message's memory on a GPU, and may have written there: nothing forbids it.
    handed_over: AtomicBool,
}

impl HeldTensor {
    /// A message that came from there, or is new.
    pub(crate) fn new(message: TensorMessage, messages: &Arc<Messages>) -> Self {
        let messages = Arc::clone(messages);
        HeldTensor { message: Some(message), messages, handed_over: AtomicBool::new(false) }
    }

    /// The message.
    pub(crate) fn message(&self) -> &TensorMessage {
        match &self.message {
            Some(message) => message,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl Drop for HeldTensor {
    fn drop(&mut self) {
        if let Some(mut message) = self.message.take() {
            if *self.handed_over.get_mut() {
                message.forget_rows();
            }
            message.on_device().into_iter().for_each(DeviceOutput::let_go);
            self.messages.put(message);
        }
    }
}

/// The data of the message. Later ticks take it as it is, so it must not be written.
impl Memory for HeldTensor {
    fn is_read_only(&self) -> bool {
        true
    }

    fn address(&self) -> usize {
        let message = self.message();
        message.on_device().map_or(message.data().as_ptr() as usize, |data| data.address() as usize)
    }

    fn hand_over(&self, stream: u64) -> PyResult<()> {
        let Some(data) = self.message().on_device() else { return Ok(()) };
        self.handed_over.store(true, Ordering::Relaxed);
        // SAFETY: DLPack's consumer names a stream of the device that it uses. The documentation of `output="cuda"`
        // requires that the stream stays until its work is done.
        unsafe { data.read_on(stream) }.map_err(|error| PyBufferError::new_err(error.to_string()))
    }
}
