//! In a program of its own, because other tests allocate too.

#![cfg(target_env = "gnu")]

use robocache_ops::heap::bound_freed_memory;

/// Resident memory of this process \[kB\].
fn resident_kb() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_large_block_goes_back_though_a_later_one_stays() {
    const BLOCK: usize = 12 << 20;
    const BLOCK_KB: usize = BLOCK >> 10;
    assert!(bound_freed_memory());
    // By default, glibc would take such blocks from the heap from now on.
    drop(vec![1u8; BLOCK]);
    let before = resident_kb();
    let blocks: Vec<Vec<u8>> = (0..8).map(|_| vec![1; BLOCK]).collect();
    let later = vec![1u8; 4096];
    let held = resident_kb();
    assert!(held > before + 7 * BLOCK_KB, "{before}, {held} kB");
    drop(blocks);
    let after = resident_kb();
    assert!(after < before + 2 * BLOCK_KB, "{before}, {held}, {after} kB, {}", later.len());
}
