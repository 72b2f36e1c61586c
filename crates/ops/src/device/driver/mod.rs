//! The CUDA driver in safe types: a device, streams, events, graphs and the kernels.
//!
//! The driver is loaded at run time. [`Device::open`] loads it first, and says why that fails. Everything else here
//! starts from an open device, so that the driver is there. Every object keeps its device alive, and no call uses the
//! default stream.

mod device;
mod stream;

use std::ffi::CStr;
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

pub use self::device::{Device, HostAccess, Limits, own_thread};
pub use self::stream::{Event, Graph, Kernel, Launch, Stream};
use super::DeviceError;

/// Turns the status of a driver call into a result that names the operation.
pub(super) fn check(status: CUresult, operation: &'static str) -> Result<(), DeviceError> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(failed(operation, describe(status))),
    }
}

/// Turns the status of a kernel's launch into a result.
fn check_launch(status: CUresult, kernel: &str) -> Result<(), DeviceError> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(failed("launch a kernel", format!("{kernel}: {}", describe(status)))),
    }
}

fn failed(operation: &'static str, detail: String) -> DeviceError {
    DeviceError::Failed { operation, detail }
}

/// The name and the meaning of a status, such as `CUDA_ERROR_OUT_OF_MEMORY (out of memory)`. A
/// driver that is newer than the bindings may return one that they do not list. So this asks the
/// driver for the text, and uses only the number of the status.
fn describe(status: CUresult) -> String {
    let mut name = ptr::null();
    let mut text = ptr::null();
    // SAFETY: the driver is loaded, since a call returned `status`; both calls set their place to a
    // static string, or leave it null for a status that the driver does not know.
    let [name, text] = unsafe {
        let _ = sys::cuGetErrorName(status, &mut name);
        let _ = sys::cuGetErrorString(status, &mut text);
        [name, text].map(|text| (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy()))
    };
    let name = name.unwrap_or_else(|| format!("CUDA error {}", status as u32).into());
    format!("{name} ({})", text.unwrap_or("unknown".into()))
}
