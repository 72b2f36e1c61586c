//! Errors of rcl, and conversion of text to and from C.

use std::ffi::{CStr, CString, c_char};

use r2r_rcl::{
    RCL_RET_OK, rcl_ret_t, rcutils_error_is_set, rcutils_get_error_string, rcutils_reset_error,
};

/// An operation of rcl failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {detail}")]
pub struct RclError {
    /// The operation.
    pub operation: String,
    /// Message of rcl about the failure.
    pub detail: String,
}

impl RclError {
    pub(super) fn new(operation: impl Into<String>, detail: impl Into<String>) -> Self {
        RclError { operation: operation.into(), detail: detail.into() }
    }

    /// Takes the error that rcl has set on this thread, and clears it.
    pub(super) fn last(ret: rcl_ret_t, operation: impl Into<String>) -> Self {
        // SAFETY: these read and clear state of the calling thread; the text is copied.
        let detail = unsafe {
            let set = rcutils_error_is_set();
            let error = rcutils_get_error_string();
            rcutils_reset_error();
            match set {
                true => text(error.str_.as_ptr()),
                false => format!("rcl returned {ret}"),
            }
        };
        RclError::new(operation, detail)
    }
}

/// The result of every call.
pub type Result<T> = std::result::Result<T, RclError>;

/// Turns rcl's return value into a result; `operation` names the operation in the error.
pub(super) fn check(ret: rcl_ret_t, operation: impl FnOnce() -> String) -> Result<()> {
    if ret == RCL_RET_OK as rcl_ret_t {
        return Ok(());
    }
    Err(RclError::last(ret, operation()))
}

/// Clears and logs an error that a drop cannot report, so that no later call reports it.
pub(super) fn ignore(ret: rcl_ret_t) {
    if let Err(error) = check(ret, || "end an entity".to_owned()) {
        tracing::debug!("{error}");
    }
}

/// Clears the error state. rcl may set it even if the answer is no failure, such as "nothing
/// waits".
pub(super) fn forget() {
    // SAFETY: the functions only read and clear state of the calling thread.
    unsafe {
        // It clears a kilobyte, and a take that finds nothing sets none.
        if rcutils_error_is_set() {
            rcutils_reset_error();
        }
    }
}

/// Converts a name to C. `what` says whose name it is, for the error.
pub(super) fn c_string(what: &str, name: impl Into<Vec<u8>>) -> Result<CString> {
    CString::new(name).map_err(|error| {
        let name = String::from_utf8_lossy(&error.into_vec()).into_owned();
        RclError::new(format!("{what} {name:?}"), "expected a text without NUL")
    })
}

/// Copies a C text; empty if the pointer is null.
///
/// # Safety
/// `pointer` is null, or points to a NUL-terminated text that lives during the call.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller guarantees it.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
