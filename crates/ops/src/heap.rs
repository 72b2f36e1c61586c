//! What the C library keeps of freed memory.

/// Gives freed memory back to the system. Returns false if there was none, or if the C library is not glibc.
///
/// glibc keeps freed blocks of up to 32 MiB for reuse. Each of its arenas keeps its own, and a new thread may get
/// another arena. So a node that is activated again and again would keep the buffers of all its activations. A call
/// locks each arena in turn, so make it when nothing has a deadline.
pub fn trim() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time, and takes how many bytes to leave at the end of the heap.
    unsafe {
        nix::libc::malloc_trim(0) != 0
    }
    #[cfg(not(target_env = "gnu"))]
    false
}
