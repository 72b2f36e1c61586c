//! The bytes of a tensor message in memory that is used again after its last view is gone.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use robocache_core::message::{Envelope, TensorMessage};
use robocache_ops::device::HostBuffer;
use robocache_ops::packing::ALIGNMENT;
use robocache_ops::pool::Pool;

use crate::dlpack::{DeviceArray, MemoryPlace, TensorElement};
use crate::errors::{failed, wrong};
use crate::held_tensor::{HeldTensor, Messages};
use crate::message::{self, Head, PlacesFound};

/// Tensors whose memory is kept for the next ones. Python's views keep a tensor's memory in use.
pub(crate) const SPARE: usize = 8;

/// A copy of a message's bytes, with the same alignment.
pub struct Copied {
    buffer: HostBuffer,
    start: usize,
    len: usize,
    envelope: Arc<Envelope>,
}

impl Copied {
    /// Copies a message into memory of the pool.
    pub fn of(message: &TensorMessage, pool: &Pool<HostBuffer>) -> Self {
        let envelope = Arc::clone(message.envelope());
        let message = message.message();
        let start = message.as_ptr() as usize % ALIGNMENT;
        let len = message.len();
        let spare = pool.take(|spare| spare.len() >= start + len);
        let mut buffer = spare.unwrap_or_else(|| HostBuffer::new(start + len));
        buffer[start..start + len].copy_from_slice(message);
        Copied { buffer, start, len, envelope }
    }

    /// Gives the memory back.
    pub fn give_back(self, pool: &Pool<HostBuffer>) {
        pool.put(self.buffer, 1);
    }
}

/// Memory of the bytes, and the pool that gets it back.
enum Memory {
    Message(Arc<HeldTensor>),
    Copied(Copied, Arc<Pool<HostBuffer>>),
}

/// The bytes of a `robocache_ros/msg/FusedTensor`. NumPy makes views of them, which keep this alive. If the data is on
/// a GPU, the bytes are those before the data.
#[pyclass(frozen, module = "robocache._native")]
pub struct TensorBytes {
    /// `None` only while it is dropped.
    memory: Option<Memory>,
}

impl TensorBytes {
    /// The bytes of a message that came from there, or is new.
    pub fn of_message(message: TensorMessage, messages: &Arc<Messages>) -> Self {
        TensorBytes { memory: Some(Memory::Message(Arc::new(HeldTensor::new(message, messages)))) }
    }

    /// The bytes of a copy in memory of this pool.
    pub fn of_copy(copied: Copied, pool: &Arc<Pool<HostBuffer>>) -> Self {
        TensorBytes { memory: Some(Memory::Copied(copied, Arc::clone(pool))) }
    }

    fn bytes(&self) -> &[u8] {
        match &self.memory {
            Some(Memory::Message(frame)) => frame.message().message(),
            Some(Memory::Copied(copied, _)) => {
                &copied.buffer[copied.start..copied.start + copied.len]
            }
            None => &[],
        }
    }

    fn envelope(&self) -> PyResult<&Envelope> {
        match &self.memory {
            Some(Memory::Message(held)) => Ok(held.message().envelope()),
            Some(Memory::Copied(copied, _)) => Ok(&copied.envelope),
            None => Err(failed("expected a message, found one that is dropped")),
        }
    }

    /// The message, if its data is on a GPU, with the number of that and the bytes of the data.
    fn on_device(&self) -> Option<(&Arc<HeldTensor>, i32, usize)> {
        let Some(Memory::Message(frame)) = &self.memory else { return None };
        let data = frame.message().on_device()?;
        Some((frame, i32::try_from(data.ordinal()).ok()?, data.len()))
    }
}

/// Array interface of bytes for NumPy: where they are, and that they are read-only.
pub(crate) fn array_interface<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let interface = PyDict::new(py);
    interface.set_item("version", 3)?;
    interface.set_item("typestr", "|u1")?;
    interface.set_item("shape", (bytes.len(),))?;
    interface.set_item("data", (bytes.as_ptr() as usize, true))?;
    Ok(interface)
}

#[pymethods]
impl TensorBytes {
    fn __len__(&self) -> usize {
        self.bytes().len()
    }

    fn head(&self) -> PyResult<Head> {
        Ok(message::head(self.envelope()?.places(), self.bytes()))
    }

    /// Places of the tensor's parts. If the data is on a GPU, its places are those that it has in `complete`.
    fn places(&self) -> PyResult<PlacesFound> {
        Ok(message::found(self.envelope()?.places()))
    }

    /// Array interface for NumPy: the bytes, read-only.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        array_interface(py, self.bytes())
    }

    /// The bytes of the data on a GPU; None if the data is on the host.
    #[getter]
    fn device_len(&self) -> Option<usize> {
        self.on_device().map(|(_, _, len)| len)
    }

    /// A part of the data on a GPU.
    fn device_array(&self, shape: Vec<usize>, dtype: &str, offset: usize) -> PyResult<DeviceArray> {
        let element = TensorElement::of_name(dtype)?;
        let (frame, device, len) = self
            .on_device()
            .ok_or_else(|| failed("expected data on a GPU, found it on the host"))?;
        let bytes = shape.iter().try_fold(element.size(), |all, size| all.checked_mul(*size));
        if bytes.and_then(|bytes| bytes.checked_add(offset)).is_none_or(|end| end > len) {
            return Err(wrong(format!("expected a part of {len} bytes")));
        }
        let memory: Arc<dyn crate::dlpack::Memory> = Arc::<HeldTensor>::clone(frame);
        Ok(DeviceArray::new(memory, MemoryPlace::Cuda(device), element, shape, offset))
    }

    /// A copy of the whole message, wherever its data is.
    fn complete<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = match &self.memory {
            Some(Memory::Message(frame)) => {
                py.detach(|| frame.message().complete()).map_err(failed)?
            }
            _ => self.bytes().to_vec(),
        };
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Drop for TensorBytes {
    fn drop(&mut self) {
        if let Some(Memory::Copied(copied, pool)) = self.memory.take() {
            copied.give_back(&pool);
        }
    }
}
