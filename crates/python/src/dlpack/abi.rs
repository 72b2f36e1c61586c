//! The structures of DLPack, and the capsules in which Python passes them.

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::prelude::*;

use super::Memory;

pub(super) const DLTENSOR: &CStr = c"dltensor";
pub(super) const DLTENSOR_VERSIONED: &CStr = c"dltensor_versioned";
pub(super) const VERSION: Version = Version { major: 1, minor: 0 };
/// `DLPACK_FLAG_BITMASK_READ_ONLY`
pub(super) const READ_ONLY: u64 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct DlDevice {
    pub device_type: i32,
    pub device_id: i32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct DlDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
pub(super) struct DlTensor {
    pub data: *mut c_void,
    pub device: DlDevice,
    pub ndim: i32,
    pub dtype: DlDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

#[repr(C)]
pub(super) struct Managed {
    pub tensor: DlTensor,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Version {
    pub major: u32,
    pub minor: u32,
}

#[repr(C)]
pub(super) struct Versioned {
    pub version: Version,
    pub context: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub flags: u64,
    pub tensor: DlTensor,
}

/// Shape, strides and memory that an exported array keeps.
pub(super) struct Exported {
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
    pub memory: Arc<dyn Memory>,
}

/// # Safety
/// `managed` came from [`capsule_of`] and is not used again.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both boxes were given away by `capsule_of`, and this takes them back once.
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

/// The capsule of an array, in the version of the structures that the consumer reads.
pub(super) fn capsule_of(
    py: Python<'_>,
    tensor: impl FnOnce(&Exported) -> DlTensor,
    exported: Exported,
    versioned: bool,
) -> PyResult<Bound<'_, PyAny>> {
    let read_only = exported.memory.is_read_only();
    let exported = Box::new(exported);
    let tensor = tensor(&exported);
    let context = Box::into_raw(exported).cast();
    if versioned {
        let managed = Box::into_raw(Box::new(Versioned {
            version: VERSION,
            context,
            deleter: Some(delete_versioned),
            flags: if read_only { READ_ONLY } else { 0 },
            tensor,
        }));
        // SAFETY: the pointer is that of the structure that the name says, and the destructor frees it.
        unsafe { capsule(py, managed.cast(), DLTENSOR_VERSIONED, destroy_versioned) }
    } else {
        let managed = Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete) }));
        // SAFETY: as above.
        unsafe { capsule(py, managed.cast(), DLTENSOR, destroy) }
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
