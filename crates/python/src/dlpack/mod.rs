//! Arrays of other libraries, in and out, without a copy.
//!
//! NumPy's arrays are read through their array interface, which also tells those that are read-only and those of
//! types that DLPack does not have. Everything else (torch, JAX, CuPy) is read through DLPack:
//! <https://dmlc.github.io/dlpack/latest/>, structures of version 1.

mod abi;
mod element;
mod exchange;
mod export;
mod read;

pub(crate) use self::element::{MemoryPlace, TensorElement};
pub(crate) use self::exchange::{Exchange, Tensor, current_stream};
pub(crate) use self::export::{DeviceArray, Memory};
pub(crate) use self::read::Array;

/// The strides of an array whose elements follow each other.
fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim] as isize;
    }
    strides
}

/// Values at an address that Python's side has taken from an array which lives until the call ends.
///
/// # Safety
/// The memory has `count` values, aligned, and no thread writes them during the call.
pub(crate) unsafe fn values<'a, T>(address: usize, count: usize) -> &'a [T] {
    match address == 0 || count == 0 {
        true => &[],
        // SAFETY: the caller's promise is the same.
        false => unsafe { std::slice::from_raw_parts(address as *const T, count) },
    }
}

/// Values at an address that Python's side has taken from such an array, to be written.
///
/// # Safety
/// As for [`values`], and no other thread reads them during the call.
pub(crate) unsafe fn values_mut<'a, T>(address: usize, count: usize) -> &'a mut [T] {
    match address == 0 || count == 0 {
        true => &mut [],
        // SAFETY: the caller's promise is the same.
        false => unsafe { std::slice::from_raw_parts_mut(address as *mut T, count) },
    }
}
