//! Arrays of other libraries for the operations, and memory for their results.

use std::sync::Arc;

use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use robocache_ops::device::HostBuffer;

use super::gpu;
use crate::dlpack::{self, Array, DeviceArray, Memory, TensorElement};
use crate::errors::wrong;

/// Place of an operation: the number of a GPU and the handle of one of its streams, or, with -1, the host and a number
/// of threads (0 for as many as there are cores).
pub(crate) type Place = (i32, u64);

/// An array of any library, as the operations see it.
#[pyclass(frozen, module = "robocache._native")]
pub struct View(Array);

#[pymethods]
impl View {
    /// Reads an array; `name` is that of the argument, for errors. If the array is on a GPU, it is ready for `stream`.
    #[new]
    fn new(object: &Bound<'_, PyAny>, name: &str, stream: i64) -> PyResult<Self> {
        let array = Array::read(object, name, stream)?;
        match array.is_aligned() {
            true => Ok(View(array)),
            false => Err(wrong(format!("{name}: expected elements at multiples of their size"))),
        }
    }

    /// The address of the first element.
    #[getter]
    fn pointer(&self) -> usize {
        self.0.data
    }

    /// The sizes of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, &self.0.shape)
    }

    /// The name of the elements' type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.0.element.name()
    }

    /// The number of the GPU; -1 for memory of the host.
    #[getter]
    fn device(&self) -> i32 {
        match self.0.place {
            dlpack::MemoryPlace::Host | dlpack::MemoryPlace::Pinned => -1,
            dlpack::MemoryPlace::Cuda(device) => device,
        }
    }

    /// True if the array's elements follow each other.
    #[getter]
    fn contiguous(&self) -> bool {
        self.0.is_contiguous()
    }

    /// True if nobody may write the array.
    #[getter]
    fn read_only(&self) -> bool {
        self.0.read_only
    }
}

struct Host(HostBuffer);

impl Memory for Host {
    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

/// An array of zeros on the host, or of anything on a GPU. `device` is -1 for the host.
#[pyfunction]
pub(crate) fn empty(
    py: Python<'_>,
    device: i32,
    shape: Vec<usize>,
    dtype: &str,
) -> PyResult<DeviceArray> {
    let element = TensorElement::of_name(dtype)?;
    let bytes = shape.iter().try_fold(element.size(), |all, size| all.checked_mul(*size));
    let bytes = bytes.ok_or_else(|| wrong("expected fewer elements"))?;
    let (memory, place): (Arc<dyn Memory>, _) = match u32::try_from(device) {
        Err(_) => {
            let buffer = py
                .detach(|| HostBuffer::try_new(bytes.max(1)))
                .ok_or_else(|| PyMemoryError::new_err(format!("no memory for {bytes} bytes")))?;
            (Arc::new(Host(buffer)), dlpack::MemoryPlace::Host)
        }
        Ok(_) => (py.detach(|| gpu::memory(device, bytes))?, dlpack::MemoryPlace::Cuda(device)),
    };
    Ok(DeviceArray::new(memory, place, element, shape, 0))
}

/// Waits for everything on a GPU. An operation on arrays of a library without streams does, before it hands its
/// result over.
#[pyfunction]
pub(crate) fn synchronize(py: Python<'_>, device: i32) -> PyResult<()> {
    py.detach(|| gpu::synchronize(device))
}
