// A sub-bin of a sorted cloud: its points, and the values that channels make of them. reduce.cu and
// overflow.cuh, the two ways of `voxelize_reduce`, share this file.
#pragma once
#include "accumulate.cuh"
#include "list.cuh"
#include "sieve.cuh"

namespace voxelize_reduce {

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / WARP;
// Points that a thread holds at once, and those that the thread block does.
constexpr u32 POINTS_PER_THREAD = 5;
constexpr u32 CHUNK = POINTS_PER_THREAD * THREADS;
// The greatest number of points of a bin that counts of 16 bits can hold.
constexpr u32 MOST_POINTS = 0xFFFF;
// Voxels with several points that the list holds, and accumulators for their channels.
constexpr u32 LISTED = 2048;
constexpr u32 ACCUMULATORS = 2048;
// Tiles whose segments are listed at once: one for each thread.
constexpr u32 TILES = THREADS;
// Words with a bit for each voxel block of the largest sub-bin.
constexpr u32 OCCUPANCY_WORDS = 8;
// Shared memory of a thread block [bytes]: for each voxel of the largest sub-bin, and for the rest.
constexpr u32 VOXEL_BYTES = 10;
constexpr u32 REDUCE_BYTES = 28944;

struct Reduce {
    Bins bins;
    Sorted from;
    Channels channels;
    u32* occupied; // [sub-bins, voxel blocks / 32]: bits of those in which the row holds something
    void* row;     // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 all_means; // whether there is one channel pack, and all its channels are means
};

// The additional parameters for a sifted cloud. Kernels for other clouds have `Plain` instead, and no
// code for these parameters.
struct Sifted {
    Reduce reduce;
    Last last;
    Listing list;
    Tally* tally;
    u32 min_points; // a voxel with fewer is empty
    u32 is_list;    // whether the row is sparse
};
struct Plain {
    Reduce reduce;
};
template <class Job>
constexpr bool SIFTS = SAME<Job, Sifted>;

// Channels that a thread block has in shared memory at once: a channel group.
template <class Out>
constexpr u32 GROUP = 8 / sizeof(Out);

// The values of a point for a channel group.
template <class Out>
struct alignas(4 * GROUP<Out>) Values {
    float at[GROUP<Out>];
};

// The segments of the sub-bin's bin, one for each tile. Point i of them is number `from[s] + i` of
// all points, where s is the last segment with `before[s] <= i`.
struct Segments {
    u32 before[TILES];
    u32 from[TILES];
};

// A voxel with several points, in a list. Its count becomes LISTED_BIT and its place in the list.
struct Several {
    u16 voxel;
    u16 count;
};
constexpr u32 LISTED_BIT = 0x8000u;

struct Shared {
    Segments segments;
    u32 occupied_before[OCCUPANCY_WORDS]; // voxel blocks of the row
    u32 occupied_now[OCCUPANCY_WORDS];    // and of this cloud
    u32 warp_sums[WARPS];
    u32 several; // voxels with several points
    u32 wanted;  // bits of the parts of the sub-bin that have points
    u32 too_few; // points in voxels that have too few
    u32 entries; // where the features of the sub-bin's voxels start in the list
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

// What is in shared memory, for sub-bins of up to VOXELS voxels.
template <class Out, u32 VOXELS>
struct SubBin {
    // Elements from channel to channel: padding puts them into different banks.
    static constexpr u32 STRIDE = VOXELS + 32 / sizeof(Out);

    Shared shared;
    u16 counts[VOXELS]; // of points per voxel
    Out staged[GROUP<Out>][STRIDE]; // elements of the row, before they are written
    // Accumulators of listed voxels, by channel: sums, or maxima in the lower half.
    u32 lower[ACCUMULATORS];
    u32 upper[ACCUMULATORS];

    __device__ __forceinline__ void clear_staged() {
        clear_memory<sizeof(staged) / 16>(staged);
    }

    __device__ __forceinline__ void clear_all() {
        clear_memory<sizeof(counts) / 16>(counts);
        clear_staged();
    }
};

// Behind it if the row is sparse: per voxel block of the sub-bin, its occupied voxels, and where their
// features are.
template <u32 VOXELS>
struct Entries {
    u32 masks[VOXELS / VOXEL_BLOCK];
    u32 firsts[VOXELS / VOXEL_BLOCK];
};

// The first voxel of voxel block `voxel_block` of the sub-bin.
__device__ __forceinline__ u32 voxel_at(const Reduce& job, u32 voxel_block) {
    const u32 number = (blockIdx.x << job.bins.sub_bin_shift) / VOXEL_BLOCK + voxel_block;
    return unhash_block(job.bins, number) * VOXEL_BLOCK;
}

// ---- Reductions ---------------------------------------------------------------------------------

// The mean: the quotient in double, as f32. A division by a power of two is exact as a multiplication.
// Up to 2^51 an addition turns an integer into a double, which is faster than the conversion.
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

// The value of the point with this number. Numbers count from 1 here.
__device__ __forceinline__ float last_value(const Last& last, u32 place, u32 number) {
    return last.values[place * last.stride + (number - 1)];
}

// The value of a voxel with `count` points, from its accumulator. `place` is that of the channel.
__device__ __forceinline__ float
of_several(const Plain& job, u32 kind, u32 place, u64 all, u32 count) {
    return kind == CHANNEL_MEAN    ? mean(static_cast<i64>(all), count)
           : kind == CHANNEL_MAX   ? unordered(static_cast<u32>(all))
           : kind == CHANNEL_COUNT ? static_cast<float>(count)
                                   : 1.0f;
}
__device__ __forceinline__ float
of_several(const Sifted& job, u32 kind, u32 place, u64 all, u32 count) {
    const u32 bits = static_cast<u32>(all);
    if (kind == CHANNEL_MEAN) return mean(static_cast<i64>(all), count);
    if (kind == CHANNEL_SUM) {
        return static_cast<float>(static_cast<double>(static_cast<i64>(all)) * (1.0 / ONE));
    }
    if (kind == CHANNEL_MAX) return unordered(bits);
    if (kind == CHANNEL_MIN) return unordered(~bits);
    if (kind == CHANNEL_LAST) return last_value(job.last, place, bits);
    return kind == CHANNEL_COUNT ? static_cast<float>(count) : 1.0f;
}

// Values of a lone point: those that the row holds.
template <class Out>
__device__ __forceinline__ Values<Out>
of_one(const Plain& job, u32 from, const u32 (&kinds)[GROUP<Out>], const Values<Out>& values) {
    return values;
}
template <class Out>
__device__ __forceinline__ Values<Out>
of_one(const Sifted& job, u32 from, const u32 (&kinds)[GROUP<Out>], const Values<Out>& values) {
    Values<Out> own = values;
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        if (kinds[c] != CHANNEL_LAST) continue;
        const u32 place = channel_at(job.reduce.channels, from + c).place;
        own.at[c] = last_value(job.last, place, __float_as_uint(values.at[c]));
    }
    return own;
}

// ---- Points of a sub-bin ------------------------------------------------------------------------

// The segment of the sub-bin's bin in a tile. Beyond the last tile, it has no points.
__device__ __forceinline__ u32 segment_in(const Reduce& job, u32 tile) {
    const u32 bin = blockIdx.x >> (job.bins.bin_shift - job.bins.sub_bin_shift);
    const u64 at = static_cast<u64>(tile) * job.bins.bin_count + bin;
    return tile < job.from.tiles ? job.from.segments[at] : 0;
}

// What listed segments have: their points without those of crowds, and the number of segments with a crowd.
struct Listed {
    u32 points;
    u32 crowds;
};
// Both are summed as one word.
constexpr u32 CROWDS_SHIFT = 21, POINTS_MASK = (1u << CROWDS_SHIFT) - 1;
static_assert(TILES * MOST_TILE_POINTS <= POINTS_MASK && TILES < 1u << (32 - CROWDS_SHIFT));

// Each thread passes one segment. Lists the segments of the tiles from number `first` on.
// All threads call it, and may read the list when it returns.
__device__ __forceinline__ Listed
list_segments(const Reduce& job, u32 first, u32 segment, Shared& shared) {
    const u32 tile = first + threadIdx.x;
    const u32 own = points_of(segment) | (crowd_of(segment) != 0 ? 1u << CROWDS_SHIFT : 0u);
    u32 total;
    const u32 before = sum_before<WARPS>(own, shared.warp_sums, total) & POINTS_MASK;
    shared.segments.before[threadIdx.x] = before;
    shared.segments.from[threadIdx.x] = tile * job.from.tile_points + start_of(segment) - before;
    __syncthreads();
    return {total & POINTS_MASK, total >> CROWDS_SHIFT};
}

// The segments that the first COUNT points of this thread are in. Its first one is point `first`.
template <u32 COUNT, u32 SIZE>
__device__ __forceinline__ void find_segments(
    const Reduce& job, const Segments& segments, u32 first, u32 (&at)[SIZE]) {
#pragma unroll
    for (u32 k = 0; k < SIZE; ++k) at[k] = 0;
    const auto halve = [&](u32 step) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (segments.before[at[k] + step] <= first + k * THREADS) at[k] += step;
        }
    };
    if (job.from.tiles > TILES / 2) halve(TILES / 2);
#pragma unroll
    for (u32 step = TILES / 4; step != 0; step /= 2) halve(step);
}

// The values of all points for the channel group that starts at channel `from`.
template <class Out>
__device__ __forceinline__ const Values<Out>* values_of(const Reduce& job, u32 from) {
    const u64 all = static_cast<u64>(job.from.tiles) * job.from.tile_points;
    const float4* pack = job.from.values + from / CHANNEL_PACK * all;
    return reinterpret_cast<const Values<Out>*>(
        reinterpret_cast<const float*>(pack) + from % CHANNEL_PACK);
}

// The distance between the values of two points for a channel group, in `Values`: CHANNEL_PACK floats.
template <class Out>
constexpr u32 APART = CHANNEL_PACK / GROUP<Out>;

// A voxel's number in the sub-bin, or NONE if it is in another sub-bin of the bin.
__device__ __forceinline__ u32 in_sub_bin(const Reduce& job, u32 number) {
    const u32 sub_bins = (1u << (job.bins.bin_shift - job.bins.sub_bin_shift)) - 1;
    const bool mine = number >> job.bins.sub_bin_shift == (blockIdx.x & sub_bins);
    return mine ? number & ((1u << job.bins.sub_bin_shift) - 1) : NONE;
}

// Words with a bit for each voxel block of a sub-bin.
__device__ __forceinline__ u32 occupancy_words(const Reduce& job) {
    return max(1u, (1u << job.bins.sub_bin_shift) / (VOXEL_BLOCK * 32));
}

// Stores which voxel blocks of the row are occupied now.
__device__ __forceinline__ void store_occupied(const Reduce& job, const Shared& shared) {
    const u32 words = occupancy_words(job);
    const u32 w = threadIdx.x;
    if (w < words && shared.occupied_now[w] != shared.occupied_before[w]) {
        job.occupied[blockIdx.x * words + w] = shared.occupied_now[w];
    }
}

// The kinds of the channels of a group. A missing channel gets a kind without values.
template <class Out>
__device__ __forceinline__ void kinds_of(const Reduce& job, u32 from, u32 (&kinds)[GROUP<Out>]) {
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        const bool is_there = from + c < job.channels.count;
        kinds[c] = is_there ? channel_at(job.channels, from + c).kind : CHANNEL_OCCUPANCY;
    }
}

} // namespace voxelize_reduce
