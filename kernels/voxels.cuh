// What the kernels of a cloud share; together they are the twin of src/backend/cpu/voxelize.rs, which
// states the arithmetic and its bounds. Where channels have values (a mean, a maximum), a cloud takes
// two kernels:
//
// 1. `voxelize_sort`: each block takes a tile of the points, and puts their values into the order of
//    the bins that their voxels are in. A run is the points of one tile in one bin.
// 2. `voxelize_reduce`: each block takes a bin, or one of the units that a large bin has, gathers its
//    runs from all tiles, reduces them voxel by voxel in shared memory, and writes the bricks (32
//    voxels along x) that hold or held something.
//
// Which bin a brick is in is a scattered choice, so that a wall or a floor is spread over all of
// them. Cost: points, as often as their bin has units; and for every unit (up to 8,192 voxels) a
// number per tile, and shared memory to clear if it has or had points. Where a cloud is only counted,
// its points are added to the grid at once: `voxelize_count`.
//
// In which order points meet differs from run to run, and nothing shows it: sums are integers and the
// maximum has no ties.
#pragma once
#include "points.cuh"

constexpr double ONE = 1048576.0; // 2^20
// 1.5 * 2^52: the sum with a number of at most 2^51 rounds to an integer, ties to even.
constexpr double ROUNDER = 6755399441055744.0;

// Voxels that are written together.
constexpr u32 BRICK = 32;
// Voxels of a lane, in a row.
constexpr u32 PER_LANE = 8;

// ---- Points that are in no voxel ----------------------------------------------------------------

// Why a point is in no voxel.
enum Drop : u32 { DROP_NON_FINITE = 0, DROP_OUT_OF_RANGE = 1, DROP_OUTSIDE = 2 };

// The structures of this file are written by the host: src/backend/cuda/voxelize/job.rs.
struct Counters {
    u32 dropped[4]; // by `Drop`
};

// What the host reads when the cloud is done.
struct alignas(8) Report {
    Counters counters;
    u32 beyond; // 1 + a channel with a value that the element type cannot hold
    u32 beyond_bits;
};

// Counts a point that is in no voxel.
__device__ __noinline__ void drop(u32* dropped, bool all_finite, bool inside) {
    const Drop reason = !all_finite ? DROP_NON_FINITE : !inside ? DROP_OUTSIDE : DROP_OUT_OF_RANGE;
    atomicAdd(&dropped[reason], 1u);
}

// Adds a block's drops to those of the cloud.
__device__ __forceinline__ void add_dropped(Counters* counters, const u32* dropped) {
    if (threadIdx.x < 4 && dropped[threadIdx.x] != 0) {
        atomicAdd(&counters->dropped[threadIdx.x], dropped[threadIdx.x]);
    }
}

// Hands the drops to the host, and begins anew for the next cloud. One thread calls it, which then has
// waited for device memory. The host expects no drops, and to write to its memory takes longer still.
__device__ __forceinline__ void report_dropped(Report* report, Counters* counters) {
    const Counters all = *counters;
    if ((all.dropped[0] | all.dropped[1] | all.dropped[2]) == 0) return;
    report->counters = all;
    *counters = Counters{};
}

// ---- Channels -----------------------------------------------------------------------------------

enum ChannelKind : u32 { CHANNEL_COUNT, CHANNEL_OCCUPANCY, CHANNEL_MEAN, CHANNEL_MAX };

struct Channel {
    u32 kind;
    u32 column;  // of its values, or NONE
    float limit; // the greatest magnitude that these may have
    u32 reserved;
};

// Channels that the launch parameters have room for.
constexpr u32 INLINE_CHANNELS = 8;

struct Channels {
    const Channel* more; // from INLINE_CHANNELS on
    u32 count;
    u32 reserved;
    Channel first[INLINE_CHANNELS];
};

__device__ __forceinline__ Channel channel_at(const Channels& channels, u32 c) {
    return c < INLINE_CHANNELS ? channels.first[c] : channels.more[c - INLINE_CHANNELS];
}

// Tells the host of a value that the element type cannot hold. Any one of them will do, whole.
__device__ __noinline__ void report_beyond(Report* report, u32 channel, float value) {
    *reinterpret_cast<volatile u64*>(&report->beyond) =
        static_cast<u64>(__float_as_uint(value)) << 32 | (channel + 1);
}

// A value as the row holds it.
template <class Out>
__device__ __forceinline__ Out element(Report* report, u32 channel, float value) {
    if constexpr (!SAME<Out, F32>) {
        if (fabsf(value) >= BEYOND<Out>) report_beyond(report, channel, value);
    }
    Out out;
    from_float(value, out);
    return out;
}

// Writes a lane's elements of a channel, which stand at a multiple of 16 bytes.
template <class Out>
__device__ __forceinline__ void write_elements(
    void* row, u32 volume, u32 channel, u32 voxel, const Out* elements) {
    Out* to = static_cast<Out*>(row) + static_cast<u64>(channel) * volume + voxel;
    if (volume % PER_LANE == 0) {
        constexpr u32 PACK = 16 / sizeof(Out);
        if (voxel >= volume) return;
#pragma unroll
        for (u32 i = 0; i < PER_LANE; i += PACK) {
            __stcs(reinterpret_cast<uint4*>(to + i), *reinterpret_cast<const uint4*>(elements + i));
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < PER_LANE; ++i) {
            if (voxel + i < volume) to[i] = elements[i];
        }
    }
}

// A bit for each brick of which one of four lanes has something.
__device__ __forceinline__ u32 bricks_of(bool some) {
    u32 bits = __ballot_sync(ALL_LANES, some);
    bits |= bits >> 1;
    bits |= bits >> 2;
    bits &= 0x11111111u;
    // From every fourth place to places side by side.
    bits = (bits | bits >> 3) & 0x03030303u;
    bits = (bits | bits >> 6) & 0x000F000Fu;
    return (bits | bits >> 12) & 0xFFu;
}

// ---- Bins, for `voxelize_sort` and `voxelize_reduce` --------------------------------------------

// A voxel has the number `spread(voxel / BRICK) * BRICK + voxel % BRICK`, of which the upper bits are
// its bin. Large bins are reduced in units, which are the upper bits as well.
struct Bins {
    u32 bin_shift;  // log2 of the voxels of a bin
    u32 unit_shift; // of a unit: at most bin_shift
    u32 bin_count;  // a power of two
    u32 brick_mask; // bricks of all bins, less 1
};

// An odd number near 2^32 / the golden ratio: products with it, modulo a power of two, are as many as
// the factors, and those of any arithmetic sequence spread evenly (Knuth, "The Art of Computer
// Programming", volume 3, 6.4).
constexpr u32 SPREADER = 0x9E3779B1u;

// The inverse of an odd number modulo 2^32: every step of Newton's doubles the bits that are right, of
// which a number is its own inverse in three.
constexpr u32 inverse(u32 odd) {
    u32 x = odd;
    for (int step = 0; step < 4; ++step) x *= 2 - odd * x;
    return x;
}
constexpr u32 UNSPREADER = inverse(SPREADER);
static_assert(SPREADER * UNSPREADER == 1);

__device__ __forceinline__ u32 spread(const Bins& bins, u32 brick) {
    return brick * SPREADER & bins.brick_mask;
}
__device__ __forceinline__ u32 unspread(const Bins& bins, u32 number) {
    return number * UNSPREADER & bins.brick_mask;
}

// Values of a point that stand together, those of as many channels.
constexpr u32 SLICE = 4;

// A sorted cloud.
struct Sorted {
    u32* voxels;    // [tiles, tile_points]: numbers of voxels within their bins
    float4* values; // [slices of channels, tiles, tile_points]: of a voxel with one point
    u32* runs;      // [tiles, bins]: where a run starts in its tile, and its length above 16 bits
    u32 tiles;
    u32 tile_points;
};

// The warps' part of a sum over a block: each thread gets what the threads before it have, and all
// get the total. All threads call it.
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

// The mean of one value: its fixed point, of which an f32 holds all.
__device__ __forceinline__ float mean_of_one(float value) {
    return rintf(value * static_cast<float>(ONE)) * static_cast<float>(1.0 / ONE) + 0.0f;
}
