// Bins: `voxelize_sort` sorts points into them, and `voxelize_reduce` reduces bin by bin.
// README.md explains the words.
#pragma once
#include "rows.cuh"

// A voxel gets the number `hash_block(voxel / 32) * 32 + voxel % 32`.
// The upper bits of the number are its bin, and some more of them its sub-bin.
struct Bins {
    u32 bin_shift;        // log2 of the voxels of a bin
    u32 sub_bin_shift;    // log2 of the voxels of a sub-bin: at most bin_shift
    u32 bin_count;        // a power of two
    u32 voxel_block_mask; // voxel blocks of all bins, less 1
};

// An odd number near 2^32 / the golden ratio. Modulo a power of two, the product with it is a
// permutation, and it spreads every arithmetic sequence evenly: Fibonacci hashing (Knuth, "The Art
// of Computer Programming", volume 3, 6.4).
constexpr u32 HASH_FACTOR = 0x9E3779B1u;

// The inverse of an odd number modulo 2^32, by Newton's iteration. An odd number is its own inverse
// in three bits, and every step doubles the bits that are right.
constexpr u32 inverse(u32 odd) {
    u32 x = odd;
    for (int step = 0; step < 4; ++step) x *= 2 - odd * x;
    return x;
}
constexpr u32 UNHASH_FACTOR = inverse(HASH_FACTOR);
static_assert(HASH_FACTOR * UNHASH_FACTOR == 1);

__device__ __forceinline__ u32 hash_block(const Bins& bins, u32 voxel_block) {
    return voxel_block * HASH_FACTOR & bins.voxel_block_mask;
}
__device__ __forceinline__ u32 unhash_block(const Bins& bins, u32 number) {
    return number * UNHASH_FACTOR & bins.voxel_block_mask;
}

// Channels whose values of a point are one access: a channel pack.
constexpr u32 CHANNEL_PACK = 4;

// A crowd: many points of one voxel in one tile. The sort adds them up.
struct Crowd {
    u32 voxel; // the lower bits of its number, those within a bin
    u32 points;
};
// The greatest number of crowds in a tile, and the least number of points in a crowd.
constexpr u32 MOST_CROWDS = 15;
constexpr u32 LEAST_CROWD = 32;

// A sorted cloud: the points of each tile, in the order of their bins.
struct Sorted {
    u32* voxels;    // [tiles, tile_points]: the lower bits of voxels' numbers, those within a bin
    float4* values; // [channel packs, tiles, tile_points]: the value of a voxel with this point alone
    u32* segments;  // [tiles, bins]: `segment_of`
    Crowd* crowds;  // [tiles, MOST_CROWDS]
    u64* crowd_values; // [channels, tiles, MOST_CROWDS]: what a channel accumulates from the crowd
    u32 tiles;
    u32 tile_points;
};

// A segment as one word: where it starts in its tile, the number of its crowd or 0, and its points
// without those of the crowd.
constexpr u32 CROWD_SHIFT = 12, POINTS_SHIFT = 16;
constexpr u32 MOST_TILE_POINTS = 2048;
static_assert(MOST_TILE_POINTS < 1u << CROWD_SHIFT);
static_assert(MOST_CROWDS < 1u << (POINTS_SHIFT - CROWD_SHIFT));
__device__ __forceinline__ u32 segment_of(u32 start, u32 crowd, u32 points) {
    return start | crowd << CROWD_SHIFT | points << POINTS_SHIFT;
}
__device__ __forceinline__ u32 start_of(u32 segment) {
    return segment & ((1u << CROWD_SHIFT) - 1);
}
__device__ __forceinline__ u32 crowd_of(u32 segment) {
    return segment >> CROWD_SHIFT & ((1u << (POINTS_SHIFT - CROWD_SHIFT)) - 1);
}
__device__ __forceinline__ u32 points_of(u32 segment) {
    return segment >> POINTS_SHIFT;
}

// An exclusive sum over the thread block: each thread gets the sum of the threads before it, and
// all get the total. All threads call it.
template <u32 WARPS>
__device__ __forceinline__ u32 sum_before(u32 own, u32* warp_sums, u32& total) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 sum = own;
#pragma unroll
    for (u32 d = 1; d < WARP; d *= 2) {
        const u32 other = __shfl_up_sync(ALL_LANES, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == WARP - 1) warp_sums[warp] = sum;
    __syncthreads();
    const u32 of_warp = lane < WARPS ? warp_sums[lane] : 0;
    u32 warps = of_warp;
#pragma unroll
    for (u32 d = 1; d < WARPS; d *= 2) {
        const u32 other = __shfl_up_sync(ALL_LANES, warps, d);
        if (lane >= d) warps += other;
    }
    total = __shfl_sync(ALL_LANES, warps, WARPS - 1);
    return __shfl_sync(ALL_LANES, warps - of_warp, warp) + sum - own;
}

// ---- Values -------------------------------------------------------------------------------------

constexpr double ONE = 1048576.0; // 2^20
// 1.5 * 2^52: the sum with a number of at most 2^51 rounds to an integer, ties to even.
constexpr double ROUNDER = 6755399441055744.0;

// `value * 2^20`, rounded to the nearest integer.
__device__ __forceinline__ i64 fixed_point(float value) {
    const double rounded = static_cast<double>(value) * ONE + ROUNDER;
    return __double_as_longlong(rounded) - __double_as_longlong(ROUNDER);
}

// Bits in the order of the values, and above 0.
__device__ __forceinline__ u32 ordered(float value) {
    const u32 bits = __float_as_uint(value + 0.0f); // -0.0 + 0.0 is 0.0
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(u32 bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}

// The mean of one value: its fixed point. An f32 holds every bit of it.
__device__ __forceinline__ float mean_of_one(float value) {
    return rintf(value * static_cast<float>(ONE)) * static_cast<float>(1.0 / ONE) + 0.0f;
}
