// What channels accumulate from the points of a voxel: sums in fixed point, or extremes. The order of points
// does not matter, so the sort may accumulate some points, and the reduction the rest.
#pragma once
#include "bins.cuh"

// Whether a channel adds up values. Otherwise it takes the greatest of the numbers that it makes of them.
template <bool SIFTED>
__device__ __forceinline__ bool adds(u32 kind) {
    return kind == CHANNEL_MEAN || (SIFTED && kind == CHANNEL_SUM);
}
template <bool SIFTED>
__device__ __forceinline__ bool takes_greatest(u32 kind) {
    return kind == CHANNEL_MAX || (SIFTED && (kind == CHANNEL_MIN || kind == CHANNEL_LAST));
}

// What a channel starts with for one point: its value in fixed point, or its ordered bits. For a
// minimum the bits are inverted. For the last point they are the number of the point.
template <bool SIFTED>
__device__ __forceinline__ u64 start_with(u32 kind, float value) {
    if constexpr (SIFTED) {
        if (kind == CHANNEL_SUM) return static_cast<u64>(fixed_point(value));
        if (kind == CHANNEL_MIN) return ~ordered(value);
        if (kind == CHANNEL_LAST) return __float_as_uint(value);
    }
    return kind == CHANNEL_MEAN  ? static_cast<u64>(fixed_point(value))
           : kind == CHANNEL_MAX ? ordered(value)
                                 : 0;
}
template <bool SIFTED>
__device__ __forceinline__ u64 together(u32 kind, u64 a, u64 b) {
    return adds<SIFTED>(kind) ? a + b : max(a, b);
}

// Combines the values of the lanes of a warp. All lanes call it.
template <bool SIFTED>
__device__ __forceinline__ u64 together_in_warp(u32 kind, u64 all) {
#pragma unroll
    for (u32 d = WARP / 2; d > 0; d /= 2) {
        all = together<SIFTED>(kind, all, __shfl_xor_sync(ALL_LANES, all, d));
    }
    return all;
}

// Adds to a sum in two halves. A thread that makes the lower half overflow adds the carry to the upper
// half.
__device__ __forceinline__ void add_sum(u32* lower, u32* upper, u64 value) {
    const u32 low = static_cast<u32>(value);
    const u32 before = atomicAdd(lower, low);
    const u32 high = static_cast<u32>(value >> 32) + (before + low < low ? 1u : 0u);
    if (high != 0) atomicAdd(upper, high);
}
