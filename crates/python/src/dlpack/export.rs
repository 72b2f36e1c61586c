//! Arrays of the extension, which other libraries read.

use std::ffi::c_void;
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::abi::{self, DlDataType, DlDevice, DlTensor, Exported, VERSION};
use super::{MemoryPlace, TensorElement, contiguous};

/// The handle of the default stream of a device, and the one that means another stream in each thread.
const DEFAULT_STREAM: u64 = 1;
const PER_THREAD_STREAM: i64 = 2;

/// Memory that outlives every array that is made of it.
pub trait Memory: Send + Sync {
    /// The address of the first byte.
    fn address(&self) -> usize;

    /// True if nobody may write the memory. DLPack 1.0 tells this to the consumer; older versions cannot.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Notes that a stream of a GPU reads the memory from now on. The memory is complete: no stream waits for it.
    ///
    /// # Errors
    /// `BufferError` if the memory cannot be read there.
    fn hand_over(&self, _stream: u64) -> PyResult<()> {
        Ok(())
    }
}

/// An array of the extension, which other libraries read by DLPack without a copy: `torch.from_dlpack`,
/// `numpy.from_dlpack`, `cupy.from_dlpack`, `jax.dlpack.from_dlpack`.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceArray {
    memory: Arc<dyn Memory>,
    place: MemoryPlace,
    element: TensorElement,
    shape: Vec<usize>,
    /// First byte in the memory.
    offset: usize,
}

impl DeviceArray {
    /// An array of contiguous elements that begin `offset` bytes into the memory. What is on a GPU must be complete.
    pub fn new(
        memory: Arc<dyn Memory>,
        place: MemoryPlace,
        element: TensorElement,
        shape: Vec<usize>,
        offset: usize,
    ) -> Self {
        DeviceArray { memory, place, element, shape, offset }
    }
}

#[pymethods]
impl DeviceArray {
    /// The sizes of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The name of the elements' type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.element.name()
    }

    /// The address of the first element.
    #[getter]
    fn pointer(&self) -> usize {
        self.memory.address() + self.offset
    }

    /// An array of a part of the same memory, which begins `offset` bytes into this one.
    fn part(&self, offset: usize, shape: Vec<usize>, dtype: &str) -> PyResult<Self> {
        let element = TensorElement::of_name(dtype)?;
        let bytes = |element: TensorElement, shape: &[usize]| {
            shape.iter().try_fold(element.size(), |all, size| all.checked_mul(*size))
        };
        let own = bytes(self.element, &self.shape);
        let end = bytes(element, &shape).and_then(|bytes| bytes.checked_add(offset));
        if end.is_none() || end > own || !offset.is_multiple_of(element.size()) {
            return Err(PyValueError::new_err(format!(
                "part: expected one of {} bytes, found {shape:?} of {dtype} at {offset}",
                own.unwrap_or(0)
            )));
        }
        let memory = Arc::clone(&self.memory);
        Ok(DeviceArray { memory, place: self.place, element, shape, offset: self.offset + offset })
    }

    /// The device as DLPack numbers it: its type and its number.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let DlDevice { device_type, device_id } = self.place.device();
        (device_type, device_id)
    }

    /// The capsule of DLPack. The array is complete, so no stream has to wait for it.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<i64>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true)
        {
            return Err(PyBufferError::new_err(
                "expected a consumer that takes the array where it is, without a copy",
            ));
        }
        if let MemoryPlace::Cuda(_) = self.place {
            match stream {
                // The consumer orders its use itself: it keeps the array until that is done.
                Some(-1) => {}
                // Both mean the default stream.
                None | Some(0) => py.detach(|| self.memory.hand_over(DEFAULT_STREAM))?,
                Some(PER_THREAD_STREAM) => {
                    return Err(PyBufferError::new_err(
                        "stream: expected one that all threads know, found the default stream of this thread",
                    ));
                }
                // The driver may keep a call waiting.
                Some(stream) => py.detach(|| self.memory.hand_over(stream as u64))?,
            }
        }
        let exported = Exported {
            shape: self.shape.iter().map(|size| *size as i64).collect(),
            strides: contiguous(&self.shape).into_iter().map(|stride| stride as i64).collect(),
            memory: Arc::clone(&self.memory),
        };
        let (_, code, bits) = self.element.about();
        let tensor = |exported: &Exported| DlTensor {
            data: (self.memory.address() + self.offset) as *mut c_void,
            device: self.place.device(),
            ndim: self.shape.len() as i32,
            dtype: DlDataType { code, bits, lanes: 1 },
            shape: exported.shape.as_ptr().cast_mut(),
            strides: exported.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let versioned = max_version.is_some_and(|(major, _)| major >= VERSION.major);
        abi::capsule_of(py, tensor, exported, versioned)
    }
}
