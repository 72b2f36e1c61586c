//! Tensors in Python's hands, and their memory, which later ticks use again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use robocache::device::DeviceOutput;
use robocache::pipeline::TensorMessage;

use crate::dlpack::Memory;
use crate::freeing::Elsewhere;

/// Messages that nobody uses and that are kept for the next tensors.
const SPARE: usize = 16;

/// Messages for tensors. Python's views keep a message out of it.
#[derive(Default)]
pub struct Messages(Mutex<Vec<TensorMessage>>);

impl Messages {
    /// Takes out the message that was used last, of those that nothing on a GPU reads any more; `None` if there is none.
    pub fn take(&self) -> Option<TensorMessage> {
        let mut spare = self.0.lock().ok()?;
        let free = |message: &TensorMessage| message.on_device().is_none_or(DeviceOutput::is_free);
        let at = spare.iter().rposition(free)?;
        Some(spare.remove(at))
    }

    /// Puts a message back. It waits for nobody, because in a forked process a thread that is not there may have the
    /// lock: then the memory is freed.
    pub fn put(&self, message: TensorMessage) {
        if let Ok(mut spare) = self.0.try_lock()
            && spare.len() < SPARE
        {
            spare.push(message);
        } else if message.on_device().is_some() {
            // It would wait for the GPU.
            drop(Elsewhere::new(message));
        }
    }
}

/// A message in Python's hands. A drop gives it back.
pub struct Frame {
    /// `None` only while it is dropped.
    message: Option<TensorMessage>,
    messages: Arc<Messages>,
    /// Whether a library has its memory on a GPU, and may have written there: nothing forbids it.
    handed_over: AtomicBool,
}

impl Frame {
    /// A message that came from there, or is new.
    pub fn new(message: TensorMessage, messages: &Arc<Messages>) -> Self {
        let messages = Arc::clone(messages);
        Frame { message: Some(message), messages, handed_over: AtomicBool::new(false) }
    }

    /// The message.
    pub fn message(&self) -> &TensorMessage {
        match &self.message {
            Some(message) => message,
            None => unreachable!("it is there until it is dropped"),
        }
    }
}

impl Drop for Frame {
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

/// The data of the message.
impl Memory for Frame {
    fn address(&self) -> usize {
        let message = self.message();
        message.on_device().map_or(message.data().as_ptr() as usize, |data| data.address() as usize)
    }

    fn hand_over(&self, stream: u64) -> PyResult<()> {
        let Some(data) = self.message().on_device() else { return Ok(()) };
        self.handed_over.store(true, Ordering::Relaxed);
        // SAFETY: DLPack's consumer names a stream of the device that it uses. That the stream stays until what is on
        // it is done is told in the documentation of `output="cuda"`.
        unsafe { data.read_on(stream) }.map_err(|error| PyBufferError::new_err(error.to_string()))
    }
}
