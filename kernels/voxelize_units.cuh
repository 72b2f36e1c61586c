// What the two ways of `voxelize_reduce` share: a unit of a sorted cloud, its points and what channels
// make of them. It stands in the namespace of that kernel.
#pragma once
#include "voxels.cuh"

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / WARP;
// Points that a thread holds, and those of a block.
constexpr u32 SLOTS = 5;
constexpr u32 CHUNK = SLOTS * THREADS;
// Most points of a bin, so that counts of 16 bits hold them.
constexpr u32 MOST_POINTS = 0xFFFF;
// Voxels with several points that are listed, and the channels of them that have accumulators at once.
constexpr u32 LISTED = 2048;
constexpr u32 ACCUMULATORS = 2048;
// Tiles whose runs are listed at once: one per thread.
constexpr u32 TILES = THREADS;
// Words with a bit for each brick of the largest unit.
constexpr u32 BRICK_WORDS = 8;

// Written by the host: src/backend/cuda/voxelize/job.rs.
struct Reduce {
    Bins bins;
    Sorted from;
    Channels channels;
    u32* held; // [units, bricks / 32]: which bricks of the row hold something
    void* row; // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 all_means; // whether all channels are means, SLICE of them
};

// Channels that a block has in shared memory at once.
template <class Out>
constexpr u32 GROUP = 8 / sizeof(Out);

// What a point has for a group.
template <class Out>
struct alignas(4 * GROUP<Out>) Values {
    float at[GROUP<Out>];
};

// The runs of a unit's bin: point i of them is the `from[r] + i`th of all for the last run r with
// `before[r] <= i`.
struct Runs {
    u32 before[TILES];
    u32 from[TILES];
};

// A voxel with several points. Its count in the unit becomes LISTED_BIT and its place in the list.
struct Several {
    u16 voxel;
    u16 count;
};
constexpr u32 LISTED_BIT = 0x8000u;

struct Shared {
    Runs runs;
    u32 held[BRICK_WORDS]; // bricks of the row before
    u32 now[BRICK_WORDS];  // and of this cloud
    u32 warp_sums[WARPS];
    u32 several; // voxels with several points
    u32 wanted;  // parts of the unit that have points
    u32 reserved[2];
    Several list[LISTED];
};

// Zeros words of shared memory, four at a time.
template <u32 FOURS>
__device__ __forceinline__ void clear_memory(void* memory) {
    constexpr u32 WHOLE = FOURS / THREADS * THREADS;
    uint4* own = static_cast<uint4*>(memory) + threadIdx.x;
    if constexpr (WHOLE != 0) {
#pragma unroll
        for (u32 i = 0; i < WHOLE; i += THREADS) own[i] = make_uint4(0, 0, 0, 0);
    }
    if constexpr (WHOLE != FOURS) {
        if (threadIdx.x < FOURS - WHOLE) own[WHOLE] = make_uint4(0, 0, 0, 0);
    }
}

// What else is in shared memory, for units of up to VOXELS voxels.
template <class Out, u32 VOXELS>
struct Unit {
    // Elements of the tile from channel to channel: padding keeps them in different banks.
    static constexpr u32 STRIDE = VOXELS + 32 / sizeof(Out);

    Shared shared;
    u16 counts[VOXELS]; // of points per voxel
    Out tile[GROUP<Out>][STRIDE];
    // Of the channels of listed voxels: sums, or maxima in the lower half.
    u32 lower[ACCUMULATORS];
    u32 upper[ACCUMULATORS];

    __device__ __forceinline__ void clear_tile() {
        clear_memory<sizeof(tile) / 16>(tile);
    }

    __device__ __forceinline__ void clear_all() {
        clear_memory<sizeof(counts) / 16>(counts);
        clear_tile();
    }
};

// The first voxel of brick `brick` of a unit.
__device__ __forceinline__ u32 voxel_at(const Reduce& job, u32 brick) {
    const u32 number = (blockIdx.x << job.bins.unit_shift) / BRICK + brick;
    return unspread(job.bins, number) * BRICK;
}

// ---- Means and maxima ----------------------------------------------------------------------------

// The mean as f32 of the quotient in double. Division by a power of two is exact as a
// multiplication. Up to 2^51, an integer becomes a double by an addition, which is quicker than the
// conversion.
__device__ __forceinline__ float mean(i64 sum, u32 count) {
    const double total = count <= 2048
                             ? __longlong_as_double(sum + __double_as_longlong(ROUNDER)) - ROUNDER
                             : static_cast<double>(sum);
    if ((count & (count - 1)) == 0) {
        const i64 exponent = 1023 - 20 - (31 - __clz(count));
        return static_cast<float>(total * __longlong_as_double(exponent << 52));
    }
    return static_cast<float>(total / (static_cast<double>(count) * ONE));
}

// What a channel makes of the points of a voxel: their sum in fixed point, or the greatest of their
// ordered bits.
__device__ __forceinline__ u64 start_with(u32 kind, float value) {
    return kind == CHANNEL_MEAN  ? static_cast<u64>(fixed_point(value))
           : kind == CHANNEL_MAX ? ordered(value)
                                 : 0;
}
__device__ __forceinline__ u64 together(u32 kind, u64 a, u64 b) {
    return kind == CHANNEL_MEAN ? a + b : max(a, b);
}
__device__ __forceinline__ float of_several(u32 kind, u64 all, u32 count) {
    return kind == CHANNEL_MEAN    ? mean(static_cast<i64>(all), count)
           : kind == CHANNEL_MAX   ? unordered(static_cast<u32>(all))
           : kind == CHANNEL_COUNT ? static_cast<float>(count)
                                   : 1.0f;
}

// Adds to a sum in two halves: one carry for every time that the lower one overflows.
__device__ __forceinline__ void add_sum(u32* lower, u32* upper, u64 value) {
    const u32 low = static_cast<u32>(value);
    const u32 before = atomicAdd(lower, low);
    const u32 high = static_cast<u32>(value >> 32) + (before + low < low ? 1u : 0u);
    if (high != 0) atomicAdd(upper, high);
}

// ---- Points of a unit ----------------------------------------------------------------------------

// The run of the unit's bin in a tile, or one without points.
__device__ __forceinline__ u32 run_in(const Reduce& job, u32 tile) {
    const u32 bin = blockIdx.x >> (job.bins.bin_shift - job.bins.unit_shift);
    const u64 at = static_cast<u64>(tile) * job.bins.bin_count + bin;
    return tile < job.from.tiles ? job.from.runs[at] : 0;
}

// Lists the runs in the tiles from number `first` on, of which each thread has one, and returns how
// many points they have. All threads call it, and it ends with all of them having the list.
__device__ __forceinline__ u32 list_runs(const Reduce& job, u32 first, u32 run, Shared& shared) {
    const u32 tile = first + threadIdx.x;
    u32 total;
    const u32 before = sum_before<WARPS>(run >> 16, shared.warp_sums, total);
    shared.runs.before[threadIdx.x] = before;
    shared.runs.from[threadIdx.x] = tile * job.from.tile_points + (run & 0xFFFFu) - before;
    __syncthreads();
    return total;
}

// The runs that the first COUNT points of this thread are in, from point `first` on.
template <u32 COUNT, u32 SIZE>
__device__ __forceinline__ void find_runs(
    const Reduce& job, const Runs& runs, u32 first, u32 (&at)[SIZE]) {
#pragma unroll
    for (u32 k = 0; k < SIZE; ++k) at[k] = 0;
    const auto halve = [&](u32 step) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (runs.before[at[k] + step] <= first + k * THREADS) at[k] += step;
        }
    };
    if (job.from.tiles > TILES / 2) halve(TILES / 2);
#pragma unroll
    for (u32 step = TILES / 4; step != 0; step /= 2) halve(step);
}

// Where the values of points stand for channels from number `from` on.
template <class Out>
__device__ __forceinline__ const Values<Out>* values_of(const Reduce& job, u32 from) {
    const u64 all = static_cast<u64>(job.from.tiles) * job.from.tile_points;
    const float4* slice = job.from.values + from / SLICE * all;
    return reinterpret_cast<const Values<Out>*>(
        reinterpret_cast<const float*>(slice) + from % SLICE);
}

// Values of a group stand SLICE floats apart.
template <class Out>
constexpr u32 APART = SLICE / GROUP<Out>;

// A voxel's number in the unit, or NONE if it is in another one of the bin.
__device__ __forceinline__ u32 in_unit(const Reduce& job, u32 number) {
    const u32 units = (1u << (job.bins.bin_shift - job.bins.unit_shift)) - 1;
    const bool mine = number >> job.bins.unit_shift == (blockIdx.x & units);
    return mine ? number & ((1u << job.bins.unit_shift) - 1) : NONE;
}

// Words with a bit for each brick of a unit.
__device__ __forceinline__ u32 brick_words(const Reduce& job) {
    return max(1u, (1u << job.bins.unit_shift) / (BRICK * 32));
}

// Puts back what is now in the row.
__device__ __forceinline__ void keep_held(const Reduce& job, const Shared& shared) {
    const u32 words = brick_words(job);
    const u32 w = threadIdx.x;
    if (w < words && shared.now[w] != shared.held[w]) {
        job.held[blockIdx.x * words + w] = shared.now[w];
    }
}

// The kinds of the channels of a group; of those that are not there, one without values.
template <class Out>
__device__ __forceinline__ void kinds_of(const Reduce& job, u32 from, u32 (&kinds)[GROUP<Out>]) {
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        const bool is_there = from + c < job.channels.count;
        kinds[c] = is_there ? channel_at(job.channels, from + c).kind : CHANNEL_OCCUPANCY;
    }
}
