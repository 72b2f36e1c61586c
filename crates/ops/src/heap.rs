//! What the C library keeps of freed memory.

#[cfg(target_env = "gnu")]
use nix::libc;

/// Blocks of this size and larger are mappings of their own \[bytes\]. An image of two megapixels is smaller.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 8 << 20;

/// Lets large blocks go back to the system as soon as they are freed. Returns false if the C library is another one.
///
/// By default glibc keeps blocks of up to 32 MiB after the first such block was freed. Each of its arenas keeps its own,
/// and each new thread may get another arena. A node that is activated again and again would then keep the buffers of
/// all its activations. Smaller blocks stay for reuse, because each new page costs a page fault. The node's buffers of
/// messages and rows come from pools, so no block of this size is taken per message.
pub fn return_large_blocks() -> bool {
    #[cfg(target_env = "gnu")]
    {
        let settings = [(libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, 4 * LARGE)];
        // SAFETY: both options take a number of bytes, and mallopt may be called at any time.
        settings.map(|(option, bytes)| unsafe { libc::mallopt(option, bytes) }) == [1, 1]
    }
    #[cfg(not(target_env = "gnu"))]
    false
}
