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
/// all its activations. Smaller blocks stay for reuse, because each new page costs a page fault.
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

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    /// Resident memory of this process \[bytes\].
    fn resident() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn a_large_block_goes_back_though_a_later_one_stays() {
        const BLOCK: usize = 12 << 20;
        assert!(return_large_blocks());
        // By default, this raises the limit.
        drop(vec![1u8; BLOCK]);
        let before = resident();
        let blocks: Vec<Vec<u8>> = (0..8).map(|_| vec![1; BLOCK]).collect();
        let later = vec![1u8; 4096];
        assert!(resident() > before + 7 * BLOCK);
        drop(blocks);
        assert!(resident() < before + 2 * BLOCK, "{} {}", resident(), later.len());
    }
}
