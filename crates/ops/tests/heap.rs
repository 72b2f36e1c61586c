//! In a program of its own, because other tests allocate too.

#![cfg(target_env = "gnu")]

use robocache_ops::heap::trim;

/// Resident memory of this process \[kB\].
fn resident_kb() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn freed_blocks_go_back_though_a_later_one_stays() {
    const BLOCK: usize = 12 << 20;
    // From now on, glibc takes such blocks from the heap.
    drop(vec![1u8; BLOCK]);
    let before = resident_kb();
    let blocks: Vec<Vec<u8>> = (0..8).map(|_| vec![1; BLOCK]).collect();
    let later = vec![1u8; 4096];
    drop(blocks);
    let kept = resident_kb();
    assert!(kept > before + (7 * BLOCK >> 10), "expected glibc to keep them: {before}, {kept} kB");
    assert!(trim());
    let after = resident_kb();
    assert!(after < before + (2 * BLOCK >> 10), "{before}, {kept}, {after} kB, {}", later.len());
}
