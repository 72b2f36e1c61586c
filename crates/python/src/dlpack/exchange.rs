//! Tensors of a library whose type has a table of C functions to read them: torch from 2.10 on.
//!
//! It takes a tenth of the time of a capsule. <https://dmlc.github.io/dlpack/latest/>, version 1.2 or later.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use super::abi::{DlDataType, DlDevice, DlTensor, VERSION, Version};
use super::{MemoryPlace, TensorElement};

const NAME: &CStr = c"dlpack_exchange_api";
/// `kDLCUDA`
const ON_CUDA: i32 = 2;

/// `DLPackExchangeAPIHeader`
#[repr(C)]
struct Header {
    version: Version,
    earlier: *const Header,
}

/// `DLPackExchangeAPI`
#[repr(C)]
struct Table {
    header: Header,
    // Functions that make and give tensors, which are not used.
    _others: [*const c_void; 3],
    read: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

/// Reads the tensors of one type.
pub(crate) struct Exchange {
    class: Py<PyType>,
    read: unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int,
    stream: unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int,
}

/// The most dimensions of a tensor that is read.
pub(super) const MOST_DIMS: usize = 4;

/// Address, place, type and shape of a tensor.
#[derive(Clone, Copy)]
pub(crate) struct Tensor {
    /// The address of the first element.
    pub data: usize,
    /// Place of that address.
    pub place: MemoryPlace,
    /// The type of the elements.
    pub element: TensorElement,
    /// True if the elements follow each other.
    pub contiguous: bool,
    dims: usize,
    sizes: [usize; MOST_DIMS],
}

impl Tensor {
    /// The sizes of the dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.sizes[..self.dims]
    }
}

impl Exchange {
    /// For tensors of this type, but not of types derived from it. `None` if it has no table, or none of a version
    /// that is known: a capsule of another name is of another version.
    pub(crate) fn of(class: &Bound<'_, PyType>) -> Option<Self> {
        let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?;
        let capsule = capsule.cast_into::<PyCapsule>().ok()?;
        let mut header =
            capsule.pointer_checked(Some(NAME)).ok()?.as_ptr().cast::<Header>().cast_const();
        // SAFETY: a capsule of this name has a table, which lives as long as the process and begins with the header,
        // whatever its version. The rest is as described if the major version is ours.
        let table = unsafe {
            while !header.is_null() && (*header).version.major != VERSION.major {
                header = (*header).earlier;
            }
            header.cast::<Table>().as_ref()
        };
        let functions = table.and_then(|table| Some((table.read?, table.stream?)));
        let class = class.clone().unbind();
        functions.map(|(read, stream)| Exchange { class, read, stream })
    }

    /// True if an object is of the type, and of no type derived from it.
    pub(crate) fn is_one(&self, object: &Bound<'_, PyAny>) -> bool {
        ptr::eq(object.get_type_ptr().cast(), self.class.as_ptr())
    }

    /// Reads a tensor, if it is one of the type, dense, of a known kind of element and place, and of no more than
    /// [`MOST_DIMS`] dimensions.
    pub(crate) fn tensor(&self, object: &Bound<'_, PyAny>) -> Option<Tensor> {
        if !self.is_one(object) {
            return None;
        }
        let mut tensor = DlTensor {
            data: ptr::null_mut(),
            device: DlDevice { device_type: 0, device_id: 0 },
            ndim: 0,
            dtype: DlDataType { code: 0, bits: 0, lanes: 0 },
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        // SAFETY: an object of the table's type, and a place for what is known of it.
        if unsafe { (self.read)(object.as_ptr().cast(), &mut tensor) } != 0 {
            // A tensor that DLPack cannot describe.
            drop(PyErr::take(object.py()));
            return None;
        }
        let dims = usize::try_from(tensor.ndim).ok().filter(|dims| *dims <= MOST_DIMS)?;
        if dims > 0 && (tensor.shape.is_null() || tensor.strides.is_null()) {
            return None;
        }
        let mut sizes = [0; MOST_DIMS];
        let mut expected = 1;
        let mut contiguous = true;
        for at in (0..dims).rev() {
            // SAFETY: the arrays have `ndim` numbers each, and live as long as the tensor, which the caller holds.
            let (size, stride) = unsafe { (*tensor.shape.add(at), *tensor.strides.add(at)) };
            sizes[at] = usize::try_from(size).ok()?;
            contiguous &= size == 1 || stride == expected;
            expected *= size;
        }
        Some(Tensor {
            data: tensor.data as usize + tensor.byte_offset as usize,
            place: MemoryPlace::of(tensor.device).ok()?,
            element: TensorElement::of(tensor.dtype).ok()?,
            contiguous,
            dims,
            sizes,
        })
    }

    /// The handle of the library's current stream of a GPU.
    ///
    /// # Errors
    /// What the library raises, if it has none.
    pub(crate) fn current_stream(&self, py: Python<'_>, device: i32) -> PyResult<u64> {
        let mut stream = ptr::null_mut();
        // SAFETY: a place for a handle.
        match unsafe { (self.stream)(ON_CUDA, device, &mut stream) } {
            0 => Ok(stream as u64),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// The handle of the current stream of a GPU, of the library that has this type of tensors. `None` if the type has no
/// table, or none of a version that is known.
///
/// # Errors
/// What the library raises, if it has none.
#[pyfunction]
pub(crate) fn current_stream(tensor: &Bound<'_, PyType>, device: i32) -> PyResult<Option<u64>> {
    Exchange::of(tensor).map(|known| known.current_stream(tensor.py(), device)).transpose()
}

const _: () = assert!(size_of::<Table>() == 16 + 5 * size_of::<usize>());
