// Counts of points, for a cloud that is only counted: what `voxelize_count` and
// `voxelize_write_counts` share.
#pragma once
#include "rows.cuh"

// Atomics on one sector of memory queue, and all thread blocks set bits of touched bins at about
// the same time. So there are several copies of these bits, and each word is in a sector of its
// own.
constexpr u32 TOUCHED_COPIES = 8;
constexpr u32 SECTOR_WORDS = 8;

// What `voxelize_count` leaves to `voxelize_write_counts`.
struct Counted {
    u32* counts;   // [voxels of all bins]: points per voxel; 0 between clouds
    u32* touched;  // [2, bins / 32, TOUCHED_COPIES, SECTOR_WORDS]: bits of bins that have points
    u32 phase;     // which half of `touched` is this cloud's; the other one is 0
    u32 bin_shift; // log2 of the voxels of a bin
    u32 bin_count;
    u32 reserved;
};

// Words that have a bit for each bin.
__device__ __forceinline__ u32 bin_words(const Counted& all) {
    return (all.bin_count + WARP - 1) / WARP;
}
// The words of touched bins of one phase, in all copies.
__device__ __forceinline__ u32 touched_words(const Counted& all) {
    return bin_words(all) * TOUCHED_COPIES;
}
__device__ __forceinline__ u32* touched_at(const Counted& all, u32 phase, u32 word) {
    return all.touched + static_cast<u64>(phase * touched_words(all) + word) * SECTOR_WORDS;
}
