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
pub enum TensorElement {
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

impl TensorElement {
    const ALL: [TensorElement; 10] = [
        TensorElement::Bool,
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::I32,
        TensorElement::I64,
        TensorElement::F16,
        TensorElement::Bf16,
        TensorElement::F32,
        TensorElement::F64,
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
            TensorElement::Bool => ("bool", 6, 8),
            TensorElement::U8 => ("uint8", 1, 8),
            TensorElement::U16 => ("uint16", 1, 16),
            TensorElement::U32 => ("uint32", 1, 32),
            TensorElement::I32 => ("int32", 0, 32),
            TensorElement::I64 => ("int64", 0, 64),
            TensorElement::F16 => ("float16", 2, 16),
            TensorElement::Bf16 => ("bfloat16", 4, 16),
            TensorElement::F32 => ("float32", 2, 32),
            TensorElement::F64 => ("float64", 2, 64),
        }
    }

    /// The element of a name.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn of_name(name: &str) -> PyResult<Self> {
        let found = TensorElement::ALL.into_iter().find(|element| element.name() == name);
        found.ok_or_else(|| {
            let names = TensorElement::ALL.map(TensorElement::name).join(", ");
            PyTypeError::new_err(format!("expected elements of {names}, found {name}"))
        })
    }

    pub(super) fn of(dtype: DlDataType) -> PyResult<Self> {
        let DlDataType { code, bits, lanes } = dtype;
        let fits = |element: &TensorElement| (element.about().1, element.about().2) == (code, bits);
        let found = TensorElement::ALL.into_iter().find(fits).filter(|_| lanes == 1);
        found.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "expected one element of a known type, found DLPack type ({code}, {bits}, {lanes})"
            ))
        })
    }
}
