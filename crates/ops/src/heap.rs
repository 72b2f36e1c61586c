//! Freed memory that the C library keeps.

#![allow(unsafe_code)] // a call of the C library; it says why it is sound

#[cfg(target_env = "gnu")]
use nix::libc;

/// Blocks of this size and larger are mappings of their own \[bytes\]. An image of two megapixels is smaller.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 8 << 20;

/// Bounds what the C library keeps of freed memory. Returns false if the C library is another one. Call it before other
/// threads begin.
///
/// By default glibc keeps blocks of up to 32 MiB after the first such block was freed. A node that is activated again and
/// again would then keep the buffers of all its activations, so larger blocks go back to the system at once. Smaller ones
/// stay for reuse, because each new page costs a page fault. The node's buffers of messages and rows come from pools, so no
/// block of this size is taken per message.
///
/// Each new thread may also get an arena of its own, which keeps what was freed in it after the thread has ended. So there
/// is one arena: 25 suspensions added 6 MB to a node in place of 18. Its processor time is the same, because each thread
/// keeps small blocks for itself.
///
/// Threads of real-time priority must take small blocks alone, of up to 1,032 bytes. The tick thread takes none, and those
/// that publish tensors and commands take no larger ones. Beside eight threads that allocate, 40 small blocks took 15 us at
/// the 99.99th percentile, and 11 us with an arena per thread. With ten larger ones among them, that was 5.3 ms and 8 us: a
/// thread of ordinary priority holds the lock of the arena, and does not run.
pub fn bound_freed_memory() -> bool {
    #[cfg(target_env = "gnu")]
    {
        let settings = [
            (libc::M_ARENA_MAX, 1),
            (libc::M_MMAP_THRESHOLD, LARGE),
            (libc::M_TRIM_THRESHOLD, 4 * LARGE),
        ];
        // SAFETY: all options take a number, and mallopt may be called at any time.
        settings.map(|(option, number)| unsafe { libc::mallopt(option, number) }) == [1; 3]
    }
    #[cfg(not(target_env = "gnu"))]
    false
}
