//! Places of arrays, and the types of their elements.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::abi::{DlDataType, DlDevice};

/// Place of memory, as DLPack numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
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

impl MemoryPlace {
    pub(super) fn of(DlDevice { device_type, device_id }: DlDevice) -> PyResult<Self> {
        match device_type {
            ON_CPU => Ok(MemoryPlace::Host),
            ON_CUDA_HOST => Ok(MemoryPlace::Pinned),
            ON_CUDA | ON_CUDA_MANAGED => Ok(MemoryPlace::Cuda(device_id)),
            _ => Err(PyValueError::new_err(format!(
                "expected an array on the CPU or a CUDA device, found DLPack device type {device_type}"
            ))),
        }
    }

    pub(super) fn device(self) -> DlDevice {
        match self {
            MemoryPlace::Host => DlDevice { device_type: ON_CPU, device_id: 0 },
            MemoryPlace::Pinned => DlDevice { device_type: ON_CUDA_HOST, device_id: 0 },
            MemoryPlace::Cuda(device_id) => DlDevice { device_type: ON_CUDA, device_id },
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
    pub(super) const fn about(self) -> (&'static str, u8, u8) {
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
    /// The name is unknown.
    pub fn of_name(name: &str) -> PyResult<Self> {
        let found = Element::ALL.into_iter().find(|element| element.name() == name);
        found.ok_or_else(|| {
            let names = Element::ALL.map(Element::name).join(", ");
            PyTypeError::new_err(format!("expected elements of {names}, found {name}"))
        })
    }

    pub(super) fn of(dtype: DlDataType) -> PyResult<Self> {
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
