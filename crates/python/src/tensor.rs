//! The bytes of a tensor message in memory that is used again when nobody looks at it any more.

use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use robocache::device::HostBuffer;
use robocache::pipeline::TensorMessage;

/// Memory that nobody uses and that is kept for the next tensors.
const SPARE: usize = 8;
/// The packed tensor in a message is aligned to this \[bytes\].
const ALIGNMENT: usize = 64;

/// Memory for tensors. Python's views keep a tensor's memory out of it.
pub struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Takes memory out; `None` if there is none.
    pub fn take(&self) -> Option<T> {
        self.0.lock().ok()?.pop()
    }

    /// Puts memory back. It waits for nobody, because in a forked process a thread that is not there may have the
    /// lock: then the memory is freed.
    pub fn put(&self, memory: T) {
        if let Ok(mut spare) = self.0.try_lock()
            && spare.len() < SPARE
        {
            spare.push(memory);
        }
    }
}

/// A copy of a message's bytes, with the same alignment.
pub struct Copied {
    buffer: HostBuffer,
    start: usize,
    len: usize,
}

impl Copied {
    /// Copies a message into memory of the pool.
    pub fn of(message: &[u8], pool: &Pool<HostBuffer>) -> Self {
        let start = message.as_ptr() as usize % ALIGNMENT;
        let len = message.len();
        let spare = pool.take().filter(|spare| spare.len() >= start + len);
        let mut buffer = spare.unwrap_or_else(|| HostBuffer::new(start + len));
        buffer[start..start + len].copy_from_slice(message);
        Copied { buffer, start, len }
    }

    /// Gives the memory back.
    pub fn give_back(self, pool: &Pool<HostBuffer>) {
        pool.put(self.buffer);
    }
}

/// Where the bytes are, and the pool that gets the memory back.
enum Memory {
    Message(TensorMessage, Arc<Pool<TensorMessage>>),
    Copied(Copied, Arc<Pool<HostBuffer>>),
}

/// The bytes of a `robocache_ros/msg/FusedTensor`. NumPy makes views of them, which keep this alive.
#[pyclass(frozen, module = "robocache._native")]
pub struct TensorBytes {
    /// `None` only while it is dropped.
    memory: Option<Memory>,
}

impl TensorBytes {
    /// The bytes of a message that came from this pool, or is new.
    pub fn of_message(message: TensorMessage, pool: &Arc<Pool<TensorMessage>>) -> Self {
        TensorBytes { memory: Some(Memory::Message(message, Arc::clone(pool))) }
    }

    /// The bytes of a copy in memory of this pool.
    pub fn of_copy(copied: Copied, pool: &Arc<Pool<HostBuffer>>) -> Self {
        TensorBytes { memory: Some(Memory::Copied(copied, Arc::clone(pool))) }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Some(Memory::Message(message, _)) => message.message(),
            Some(Memory::Copied(copied, _)) => {
                &copied.buffer[copied.start..copied.start + copied.len]
            }
            None => &[],
        }
    }
}

#[pymethods]
impl TensorBytes {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    /// What NumPy reads: the bytes, read-only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("shape", (self.bytes().len(),))?;
        interface.set_item("data", (self.bytes().as_ptr() as usize, true))?;
        Ok(interface)
    }
}

impl Drop for TensorBytes {
    fn drop(&mut self) {
        match self.memory.take() {
            Some(Memory::Message(message, pool)) => pool.put(message),
            Some(Memory::Copied(copied, pool)) => copied.give_back(&pool),
            None => {}
        }
    }
}
