//! Arrays of other libraries, in and out, without a copy.
//!
//! NumPy's arrays are read through their array interface, which also tells those that are read-only and those of
//! types that DLPack does not have. Everything else (torch, JAX, CuPy) is read through DLPack:
//! <https://dmlc.github.io/dlpack/latest/>, structures of version 1.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};

/// Where memory is, as DLPack numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Memory of the host.
    Host,
    /// Memory of the host that a GPU reaches.
    Pinned,
    /// Memory of the GPU of this number.
    Cuda(i32),
}

/// `DLDeviceType`: `kDLCPU`, `kDLCUDA`, `kDLCUDAHost`, `kDLCUDAManaged`.
const ON_CPU: i32 = 1;
const ON_CUDA: i32 = 2;
const ON_CUDA_HOST: i32 = 3;
const ON_CUDA_MANAGED: i32 = 13;

impl Place {
    fn of(DlDevice { device_type, device_id }: DlDevice) -> PyResult<Self> {
        match device_type {
            ON_CPU => Ok(Place::Host),
            ON_CUDA_HOST => Ok(Place::Pinned),
            ON_CUDA | ON_CUDA_MANAGED => Ok(Place::Cuda(device_id)),
            _ => Err(PyValueError::new_err(format!(
                "expected an array on the CPU or a CUDA device, found DLPack device type {device_type}"
            ))),
        }
    }

    fn device(self) -> DlDevice {
        match self {
            Place::Host => DlDevice { device_type: ON_CPU, device_id: 0 },
            Place::Pinned => DlDevice { device_type: ON_CUDA_HOST, device_id: 0 },
            Place::Cuda(device_id) => DlDevice { device_type: ON_CUDA, device_id },
        }
    }
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `bool`, a byte each.
    Bool,
    /// `uint8`
    U8,
    /// `uint16`
    U16,
    /// `uint32`
    U32,
    /// `int32`
    I32,
    /// `int64`
    I64,
    /// `float16`
    F16,
    /// `bfloat16`
    Bf16,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

impl Element {
    const ALL: [Element; 10] = [
        Element::Bool,
        Element::U8,
        Element::U16,
        Element::U32,
        Element::I32,
        Element::I64,
        Element::F16,
        Element::Bf16,
        Element::F32,
        Element::F64,
    ];

    /// The name that libraries use.
    pub const fn name(self) -> &'static str {
        self.about().0
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        self.about().2 as usize / 8
    }

    /// Name, `DLDataTypeCode` (int 0, uint 1, float 2, bfloat 4, bool 6) and bits.
    const fn about(self) -> (&'static str, u8, u8) {
        match self {
            Element::Bool => ("bool", 6, 8),
            Element::U8 => ("uint8", 1, 8),
            Element::U16 => ("uint16", 1, 16),
            Element::U32 => ("uint32", 1, 32),
            Element::I32 => ("int32", 0, 32),
            Element::I64 => ("int64", 0, 64),
            Element::F16 => ("float16", 2, 16),
            Element::Bf16 => ("bfloat16", 4, 16),
            Element::F32 => ("float32", 2, 32),
            Element::F64 => ("float64", 2, 64),
        }
    }

    /// The element of a name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn of_name(name: &str) -> PyResult<Self> {
        let found = Element::ALL.into_iter().find(|element| element.name() == name);
        found.ok_or_else(|| {
            let names = Element::ALL.map(Element::name).join(", ");
            PyTypeError::new_err(format!("expected elements of {names}, found {name}"))
        })
    }

    fn of(dtype: DlDataType) -> PyResult<Self> {
        let DlDataType { code, bits, lanes } = dtype;
        let fits = |element: &Element| (element.about().1, element.about().2) == (code, bits);
        let found = Element::ALL.into_iter().find(fits).filter(|_| lanes == 1);
        found.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "expected one element of a known type, found DLPack type ({code}, {bits}, {lanes})"
            ))
        })
    }
}

/// An array of another library. It lives as long as this does.
pub struct Array {
    /// What keeps the memory.
    _owner: Py<PyAny>,
    /// The address of the first element.
    pub data: usize,
    /// Where that is.
    pub place: Place,
    /// The type of the elements.
    pub element: Element,
    /// The sizes, the slowest first.
    pub shape: Vec<usize>,
    /// Elements from one index to the next, per dimension.
    pub strides: Vec<isize>,
    /// Whether it must not be written.
    pub read_only: bool,
}

impl Array {
    /// Reads an array. `name` is that of the argument, for errors. If the array is on a GPU, its library is told
    /// that `stream`, the handle of a CUDA stream, uses it next: 1 for the default stream, -1 for nothing to wait for.
    ///
    /// # Errors
    /// `TypeError` if it is no array, or of elements that no operation takes; what its library raises otherwise.
    pub fn read(object: &Bound<'_, PyAny>, name: &str, stream: i64) -> PyResult<Self> {
        let told = |error: PyErr| {
            let py = object.py();
            match error.is_instance_of::<PyTypeError>(py)
                || error.is_instance_of::<PyValueError>(py)
            {
                true => PyTypeError::new_err(format!("{name}: {}", error.value(py))),
                false => error,
            }
        };
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
            "|b1" => Element::Bool,
            "|u1" => Element::U8,
            "<u2" => Element::U16,
            "<u4" => Element::U32,
            "<i4" => Element::I32,
            "<i8" => Element::I64,
            "<f2" => Element::F16,
            "<f4" => Element::F32,
            "<f8" => Element::F64,
            // The type of the package ml_dtypes has no letter of its own.
            _ => Element::of_name(&object.getattr("dtype")?.str()?.to_cow()?)?,
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
        let place = Place::Host;
        Ok(Array { _owner: owner, data, place, element, shape, strides, read_only })
    }

    fn of_dlpack(object: &Bound<'_, PyAny>, stream: i64) -> PyResult<Self> {
        let py = object.py();
        let (device_type, device_id): (i32, i32) =
            object.call_method0("__dlpack_device__")?.extract()?;
        let place = Place::of(DlDevice { device_type, device_id })?;
        let arguments = PyDict::new(py);
        if matches!(place, Place::Cuda(_)) {
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
        // SAFETY: a capsule of this name holds a structure of this type, which lives as long as the capsule: as
        // nobody renames it, its destructor frees the structure.
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
            element: Element::of(tensor.dtype)?,
            shape,
            strides,
            read_only: flags & READ_ONLY != 0,
            _owner: capsule.into_any().unbind(),
        })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether its elements follow each other, the last dimension fastest.
    pub fn is_contiguous(&self) -> bool {
        let expected = contiguous(&self.shape);
        let steps = self.shape.iter().zip(&self.strides).zip(expected);
        self.len() == 0 || steps.into_iter().all(|((size, stride), e)| *size == 1 || *stride == e)
    }

    /// Its bytes, if it is contiguous and in memory of the host.
    ///
    /// # Errors
    /// `ValueError` if it is not.
    pub fn bytes(&self, name: &str) -> PyResult<&[u8]> {
        self.check_host(name)?;
        let len = self.len() * self.element.size();
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: the owner keeps so many bytes there. That nobody writes them meanwhile is the caller's duty, as
        // with any array that two threads share.
        Ok(unsafe { std::slice::from_raw_parts(self.data as *const u8, len) })
    }

    /// Its bytes, to be written, if it is contiguous, in memory of the host and not read-only.
    ///
    /// # Errors
    /// `ValueError` if it is not.
    pub fn bytes_mut(&mut self, name: &str) -> PyResult<&mut [u8]> {
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

    /// Its elements as `i64`, if it has such.
    ///
    /// # Errors
    /// `TypeError` if it has others; as for [`Array::bytes`].
    pub fn i64s(&self, name: &str) -> PyResult<&[i64]> {
        self.check_element(name, &[Element::I64])?;
        let bytes = self.bytes(name)?;
        if bytes.as_ptr().align_offset(align_of::<i64>()) != 0 {
            return Err(PyValueError::new_err(format!(
                "{name}: expected elements that are aligned"
            )));
        }
        // SAFETY: every eight bytes are a number, and they are aligned.
        Ok(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / 8) })
    }

    /// Checks the type of its elements.
    ///
    /// # Errors
    /// `TypeError` if it is none of these.
    pub fn check_element(&self, name: &str, expected: &[Element]) -> PyResult<()> {
        if expected.contains(&self.element) {
            return Ok(());
        }
        let names: Vec<_> = expected.iter().map(|element| element.name()).collect();
        let (expected, found) = (names.join(" or "), self.element.name());
        Err(PyTypeError::new_err(format!("{name}: expected {expected}, found {found}")))
    }

    fn check_host(&self, name: &str) -> PyResult<()> {
        if let Place::Cuda(device) = self.place {
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

/// Values at an address that Python's side has taken from an array which lives until the call ends.
///
/// # Safety
/// So many values are there, aligned, and nobody writes them meanwhile.
pub unsafe fn values<'a, T>(address: usize, count: usize) -> &'a [T] {
    match address == 0 || count == 0 {
        true => &[],
        // SAFETY: the caller's promise is the same.
        false => unsafe { std::slice::from_raw_parts(address as *const T, count) },
    }
}

/// The same, to be written.
///
/// # Safety
/// As for [`values`], and nobody reads them meanwhile.
pub unsafe fn values_mut<'a, T>(address: usize, count: usize) -> &'a mut [T] {
    match address == 0 || count == 0 {
        true => &mut [],
        // SAFETY: the caller's promise is the same.
        false => unsafe { std::slice::from_raw_parts_mut(address as *mut T, count) },
    }
}

/// The strides of an array whose elements follow each other.
fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim] as isize;
    }
    strides
}

/// Memory that outlives every array that is made of it.
pub trait Memory: Send + Sync {
    /// The address of the first byte.
    fn address(&self) -> usize;
}

/// An array of the extension, which other libraries read by DLPack without a copy: `torch.from_dlpack`,
/// `numpy.from_dlpack`, `cupy.from_dlpack`, `jax.dlpack.from_dlpack`.
#[pyclass(frozen, module = "robocache._native")]
pub struct DeviceArray {
    memory: std::sync::Arc<dyn Memory>,
    place: Place,
    element: Element,
    shape: Vec<usize>,
    /// First byte in the memory.
    offset: usize,
}

impl DeviceArray {
    /// An array of contiguous elements that begin `offset` bytes into the memory. What is on a GPU must be complete.
    pub fn new(
        memory: std::sync::Arc<dyn Memory>,
        place: Place,
        element: Element,
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
        stream: Option<Py<PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop(stream);
        if dl_device.is_some_and(|device| device != self.__dlpack_device__()) || copy == Some(true)
        {
            return Err(PyBufferError::new_err(
                "expected a consumer that takes the array where it is, without a copy",
            ));
        }
        let exported = Box::new(Exported {
            shape: self.shape.iter().map(|size| *size as i64).collect(),
            strides: contiguous(&self.shape).into_iter().map(|stride| stride as i64).collect(),
            _memory: std::sync::Arc::clone(&self.memory),
        });
        let (_, code, bits) = self.element.about();
        let tensor = DlTensor {
            data: (self.memory.address() + self.offset) as *mut c_void,
            device: self.place.device(),
            ndim: self.shape.len() as i32,
            dtype: DlDataType { code, bits, lanes: 1 },
            shape: exported.shape.as_ptr().cast_mut(),
            strides: exported.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        };
        let context = Box::into_raw(exported).cast();
        if max_version.is_some_and(|(major, _)| major >= VERSION.major) {
            let managed = Box::into_raw(Box::new(Versioned {
                version: VERSION,
                context,
                deleter: Some(delete_versioned),
                flags: 0,
                tensor,
            }));
            // SAFETY: the pointer is that of the structure that the name says, and the destructor frees it.
            unsafe { capsule(py, managed.cast(), DLTENSOR_VERSIONED, destroy_versioned) }
        } else {
            let managed =
                Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete) }));
            // SAFETY: as above.
            unsafe { capsule(py, managed.cast(), DLTENSOR, destroy) }
        }
    }
}

// ---- The structures of DLPack -----------------------------------------------------------------------

const DLTENSOR: &CStr = c"dltensor";
const DLTENSOR_VERSIONED: &CStr = c"dltensor_versioned";
const VERSION: Version = Version { major: 1, minor: 0 };
/// `DLPACK_FLAG_BITMASK_READ_ONLY`
const READ_ONLY: u64 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
struct DlDevice {
    device_type: i32,
    device_id: i32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct DlDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    ndim: i32,
    dtype: DlDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What an exported array keeps.
struct Exported {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _memory: std::sync::Arc<dyn Memory>,
}

/// # Safety
/// `managed` came from [`DeviceArray::__dlpack__`] and is not used again.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both boxes were given away by `__dlpack__`, and this takes them back once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

/// # Safety
/// As for [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as for `delete`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported>()));
    }
}

/// # Safety
/// `managed` is what a capsule of this name holds, and `destructor` frees it.
unsafe fn capsule<'py>(
    py: Python<'py>,
    managed: *mut c_void,
    name: &'static CStr,
    destructor: pyo3::ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the name lives for ever. If there is no capsule, the error is set; the memory then stays.
    unsafe {
        let capsule = pyo3::ffi::PyCapsule_New(managed, name.as_ptr(), Some(destructor));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// Frees what a capsule holds, unless a consumer has taken it and renamed the capsule.
///
/// # Safety
/// Python calls it with a capsule, once.
unsafe extern "C" fn destroy(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: the name tells what the pointer is.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, DLTENSOR.as_ptr()) == 1 {
            let managed = pyo3::ffi::PyCapsule_GetPointer(capsule, DLTENSOR.as_ptr());
            delete(managed.cast());
        }
    }
}

/// # Safety
/// As for [`destroy`].
unsafe extern "C" fn destroy_versioned(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: as for `destroy`.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, DLTENSOR_VERSIONED.as_ptr()) == 1 {
            let managed = pyo3::ffi::PyCapsule_GetPointer(capsule, DLTENSOR_VERSIONED.as_ptr());
            delete_versioned(managed.cast());
        }
    }
}

const _: () = assert!(size_of::<DlTensor>() == 48 && size_of::<Versioned>() == 80);
