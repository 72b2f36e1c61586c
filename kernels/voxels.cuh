// What the two kernels of a cloud share: `voxelize_scatter` and `voxelize_finish`, together the twin
// of src/backend/cpu/voxelize.rs, which states the arithmetic and its bounds.
//
// Most voxels of a cloud hold one point or a few. So the points claim their voxels with one atomic
// each: whoever comes first leaves its number there, and only those that come later add their
// values to the voxel's accumulators. Where no values are asked for, points are counted instead.
// `voxelize_finish` looks at the bins (1,024 voxels) that were touched, and at those that the row
// still holds something of; it evaluates their occupied voxels, reading the values of first points
// from the cloud once more, writes the bricks that hold or held something, runs of 32 voxels, and
// returns all it read to zero. So nothing of the grid's size is cleared or summed. Cost: points plus
// touched bins; of the others a bit, and what the row holds of them, 4 bytes, are read.
//
// Which point comes first differs from run to run, and nothing shows it: sums are integers and the
// maximum has no ties.
#pragma once
#include "points.cuh"

// Set in the claim of a voxel that has more than one point; the rest is 1 + the first point.
constexpr u32 SEVERAL = 0x80000000u;
constexpr double ONE = 1048576.0; // 2^20
// 1.5 * 2^52: the sum with a number of at most 2^51 rounds to an integer, ties to even.
constexpr double ROUNDER = 6755399441055744.0;

// Atomics on one sector of memory queue, and all blocks mark at about the same time: so that marks
// stand in several copies, and each word in a sector of its own.
constexpr u32 COPIES = 8;
constexpr u32 SECTOR = 8;

// The structures of this file are written by the host: src/backend/cuda/voxelize/job.rs.
struct Accumulators {
    u32* claims;  // [volume]: SEVERAL and 1 + a point; or the number of points, without values
    u32* counts;  // [volume]: of later points
    i64* sums;    // [volume, sum_stride], likewise
    u32* maxima;  // [volume, max_count], likewise: ordered bits, 0 for none
    u32* marks;   // [2, bins / 32, COPIES, SECTOR]: bits of touched bins; the rest is 0 between clouds
    u32 sum_count;
    u32 sum_shift; // log2 of sum_stride
    u32 max_count;
    u32 turn;      // which half of the marks is this cloud's
    u32 bin_shift; // log2 of the voxels of a bin
    u32 bin_count;
};

// Words that have a bit for each bin.
__device__ __forceinline__ u32 bin_words(const Accumulators& all) {
    return (all.bin_count + WARP - 1) / WARP;
}
// The words of marks of one turn, in all copies.
__device__ __forceinline__ u32 mark_words(const Accumulators& all) {
    return bin_words(all) * COPIES;
}
__device__ __forceinline__ u32* mark_at(const Accumulators& all, u32 turn, u32 word) {
    return all.marks + static_cast<u64>(turn * mark_words(all) + word) * SECTOR;
}

// Why a point is in no voxel.
enum Drop : u32 { DROP_NON_FINITE = 0, DROP_OUT_OF_RANGE = 1, DROP_OUTSIDE = 2 };

struct Counters {
    u32 dropped[4]; // by `Drop`
};

__device__ __forceinline__ i64 fixed_point(float value) {
    const double rounded = static_cast<double>(value) * ONE + ROUNDER;
    return __double_as_longlong(rounded) - __double_as_longlong(ROUNDER);
}

// Bits that are ordered as the values are, and above 0.
__device__ __forceinline__ u32 ordered(float value) {
    const u32 bits = __float_as_uint(value + 0.0f); // -0.0 + 0.0 is 0.0
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(u32 bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}
