//! Arrays of other libraries, read.

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

use super::abi::{DLTENSOR, DLTENSOR_VERSIONED, DlDevice, Managed, READ_ONLY, VERSION, Versioned};
use super::{MemoryPlace, TensorElement, contiguous};

/// An array of another library. It lives as long as this does.
pub(crate) struct Array {
    /// Owner of the memory.
    _owner: Py<PyAny>,
    /// The address of the first element.
    pub data: usize,
    /// Place of that address.
    pub place: MemoryPlace,
    /// The type of the elements.
    pub element: TensorElement,
    /// The sizes, the slowest first.
    pub shape: Vec<usize>,
    /// Elements from one index to the next, per dimension.
    pub strides: Vec<isize>,
    /// True if nobody may write the array.
    pub read_only: bool,
}

impl Array {
    /// Reads an array. `name` is that of the argument, for errors. If the array is on a GPU, its library learns that
    /// `stream`, the handle of a CUDA stream, uses it next: 1 for the default stream, -1 for nothing to wait for.
    ///
    /// # Errors
    /// `TypeError` if it is no array, or of elements that no operation takes; what its library raises otherwise.
    pub(crate) fn read(object: &Bound<'_, PyAny>, name: &str, stream: i64) -> PyResult<Self> {
        let told = |error: PyErr| {
            let py = object.py();
            match error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyValueError>(py)
            {
                true => PyTypeError::new_err(format!("{name}: {}", error.value(py))),
                false => error,
            }
        };
        if object.hasattr("mask")? && object.hasattr("fill_value")? {
            return Err(PyTypeError::new_err(format!(
                "{name}: expected an array without a mask, found a masked one of NumPy: fill or compress it"
            )));
        }
        if let Ok(interface) = object.getattr("__array_interface__") {
            return Self::of_interface(object, &interface).map_err(told);
        }
        if !object.hasattr("__dlpack__")? {
            let found = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{name}: expected an array of NumPy, torch, JAX or CuPy, found {found}"
            )));
        }
        Self::of_dlpack(object, stream).map_err(told)
    }

    /// An array of NumPy: <https://numpy.org/doc/stable/reference/arrays.interface.html>.
    fn of_interface(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyAny>) -> PyResult<Self> {
        let interface = interface.cast::<PyDict>()?;
        let item = |key: &str| {
            interface
                .get_item(key)?
                .ok_or_else(|| PyTypeError::new_err(format!("expected an array with '{key}'")))
        };
        let typestr: String = item("typestr")?.extract()?;
        let element = match typestr.as_str() {
            "|b1" => TensorElement::Bool,
            "|u1" => TensorElement::U8,
            "<u2" => TensorElement::U16,
            "<u4" => TensorElement::U32,
            "<i4" => TensorElement::I32,
            "<i8" => TensorElement::I64,
            "<f2" => TensorElement::F16,
            "<f4" => TensorElement::F32,
            "<f8" => TensorElement::F64,
            // The type of the package ml_dtypes has no letter of its own.
            _ => TensorElement::of_name(&object.getattr("dtype")?.str()?.to_cow()?)?,
        };
        let shape: Vec<usize> = item("shape")?.extract()?;
        let (data, read_only): (usize, bool) = item("data")?.extract()?;
        let strides: Option<Vec<isize>> = match interface.get_item("strides")? {
            Some(strides) => strides.extract()?,
            None => None,
        };
        let strides = match strides {
            None => contiguous(&shape),
            Some(bytes) => {
                let size = element.size() as isize;
                if bytes.iter().any(|stride| stride % size != 0) {
                    return Err(PyValueError::new_err("expected strides of whole elements"));
                }
                bytes.into_iter().map(|stride| stride / size).collect()
            }
        };
        let owner = object.clone().unbind();
        let place = MemoryPlace::Host;
        Ok(Array { _owner: owner, data, place, element, shape, strides, read_only })
    }

    fn of_dlpack(object: &Bound<'_, PyAny>, stream: i64) -> PyResult<Self> {
        let py = object.py();
        let (device_type, device_id): (i32, i32) =
            object.call_method0("__dlpack_device__")?.extract()?;
        let place = MemoryPlace::of(DlDevice { device_type, device_id })?;
        let arguments = PyDict::new(py);
        if matches!(place, MemoryPlace::Cuda(_)) {
            arguments.set_item("stream", stream)?;
        }
        arguments.set_item("max_version", PyTuple::new(py, [1, 0])?)?;
        let capsule = match object.call_method("__dlpack__", (), Some(&arguments)) {
            Ok(capsule) => capsule,
            // Libraries from before version 1 do not know the argument.
            Err(error) if error.is_instance_of::<PyTypeError>(py) => {
                arguments.del_item("max_version")?;
                object.call_method("__dlpack__", (), Some(&arguments))?
            }
            Err(error) => return Err(error),
        };
        let capsule = capsule.cast_into::<PyCapsule>()?;
        let versioned = capsule.is_valid_checked(Some(DLTENSOR_VERSIONED));
        let name = if versioned { DLTENSOR_VERSIONED } else { DLTENSOR };
        let managed = capsule.pointer_checked(Some(name))?.as_ptr();
        // SAFETY: a capsule of this name holds a structure of this type, which lives as long as the capsule: no code
        // renames the capsule, so its destructor frees the structure.
        let (tensor, flags) = unsafe {
            if versioned {
                let managed = &*managed.cast::<Versioned>();
                if managed.version.major != VERSION.major {
                    let found = managed.version.major;
                    return Err(PyBufferError::new_err(format!(
                        "expected DLPack version {}, found {found}",
                        VERSION.major
                    )));
                }
                (&raw const managed.tensor, managed.flags)
            } else {
                (&raw const (*managed.cast::<Managed>()).tensor, 0)
            }
        };
        // SAFETY: as above.
        let tensor = unsafe { &*tensor };
        let dims = usize::try_from(tensor.ndim)
            .map_err(|_| PyValueError::new_err("expected a number of dimensions"))?;
        let sizes = |pointer: *const i64| match pointer.is_null() || dims == 0 {
            true => None,
            // SAFETY: the arrays have `ndim` numbers each.
            false => Some(unsafe { std::slice::from_raw_parts(pointer, dims) }.to_vec()),
        };
        let shape: Vec<usize> = sizes(tensor.shape)
            .unwrap_or_default()
            .into_iter()
            .map(|size| usize::try_from(size).unwrap_or(0))
            .collect();
        let strides = match sizes(tensor.strides) {
            Some(strides) => strides.into_iter().map(|stride| stride as isize).collect(),
            None => contiguous(&shape),
        };
        Ok(Array {
            data: tensor.data as usize + tensor.byte_offset as usize,
            place,
            element: TensorElement::of(tensor.dtype)?,
            shape,
            strides,
            read_only: flags & READ_ONLY != 0,
            _owner: capsule.into_any().unbind(),
        })
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// True if the array's elements follow each other, the last dimension fastest.
    pub(crate) fn is_contiguous(&self) -> bool {
        let expected = contiguous(&self.shape);
        let steps = self.shape.iter().zip(&self.strides).zip(expected);
        self.len() == 0 || steps.into_iter().all(|((size, stride), e)| *size == 1 || *stride == e)
    }

    /// True if every element is at a multiple of its size.
    pub(crate) fn is_aligned(&self) -> bool {
        self.len() == 0 || self.data.is_multiple_of(self.element.size())
    }

    /// Its bytes, if it is contiguous and in memory of the host.
    ///
    /// # Errors
    /// `ValueError` if it is not.
    pub(crate) fn bytes(&self, name: &str) -> PyResult<&[u8]> {
        self.check_host(name)?;
        let len = self.len() * self.element.size();
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the owner keeps `len` bytes there. The caller must ensure that no thread writes them meanwhile, as
        // with any array that two threads share.
        Ok(unsafe { std::slice::from_raw_parts(self.data as *const u8, len) })
    }

    /// Its bytes, to be written, if it is contiguous, in memory of the host and not read-only.
    ///
    /// # Errors
    /// `ValueError` if it is not.
    pub(crate) fn bytes_mut(&mut self, name: &str) -> PyResult<&mut [u8]> {
        self.check_host(name)?;
        if self.read_only {
            return Err(PyValueError::new_err(format!(
                "{name}: expected an array to write, found one that is read-only"
            )));
        }
        let len = self.len() * self.element.size();
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as for `bytes`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data as *mut u8, len) })
    }

    /// Checks the type of its elements.
    ///
    /// # Errors
    /// `TypeError` if the type is not one of `expected`.
    pub(crate) fn check_element(&self, name: &str, expected: &[TensorElement]) -> PyResult<()> {
        if expected.contains(&self.element) {
            return Ok(());
        }
        let names: Vec<_> = expected.iter().map(|element| element.name()).collect();
        let expected = names.join(" or ");
        let found = self.element.name();
        Err(PyTypeError::new_err(format!("{name}: expected {expected}, found {found}")))
    }

    fn check_host(&self, name: &str) -> PyResult<()> {
        if let MemoryPlace::Cuda(device) = self.place {
            return Err(PyValueError::new_err(format!(
                "{name}: expected an array on the host, found one on cuda:{device}"
            )));
        }
        match self.is_contiguous() {
            true => Ok(()),
            false => Err(PyValueError::new_err(format!("{name}: expected a contiguous array"))),
        }
    }
}
