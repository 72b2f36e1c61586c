// Crowds: if a tile has many points of one voxel, the sort puts them after the other points of their
// segment, and adds them up. For `voxelize_reduce` they are one point. README.md explains why.
#pragma once
#include "accumulate.cuh"

namespace voxelize_sort {

// The bins of a tile with many points. In each of them one voxel may be a crowd.
template <u32 WARPS>
struct Crowds {
    u32 count; // of such bins; bins from number MOST_CROWDS on get no crowd
    u32 bins[MOST_CROWDS];
    u32 starts[MOST_CROWDS]; // of their segments
    u32 points[MOST_CROWDS]; // of these segments
    u32 samples[MOST_CROWDS][3]; // the voxels of three points
    u32 voxels[MOST_CROWDS]; // the voxel that may be a crowd
    u32 members[MOST_CROWDS]; // its points
    u32 others[MOST_CROWDS];  // those of other voxels
    u64 sums[WARPS][CHANNEL_PACK];
};

// If a bin of a tile has at least this number of points, it may have a crowd. The number is many times that of evenly
// spread points.
__device__ __forceinline__ u32 least_crowded(const Bins& bins, u32 tile_points) {
    return min(max(4 * tile_points / bins.bin_count, 2 * LEAST_CROWD), tile_points / 4);
}

// Notes a bin with many points. Returns its number, from 1 on, or 0 if there are too many.
template <u32 WARPS>
__device__ __noinline__ u32 note_bin(Crowds<WARPS>& crowds, u32 bin, u32 start, u32 points) {
    const u32 at = atomicAdd(&crowds.count, 1u);
    if (at >= MOST_CROWDS) return 0;
    crowds.bins[at] = bin;
    crowds.starts[at] = start;
    crowds.points[at] = points;
    crowds.members[at] = crowds.others[at] = 0;
    return at + 1;
}

// Chooses a voxel in each noted bin: that of most of three sampled points. It gives the points of the bin
// new places. The points of the voxel get the last ones. `starts` has the number of the bin above
// POINTS_SHIFT. This is subtracted from the places, because the start is added later.
template <u32 WARPS, u32 PER>
__device__ __forceinline__ void part_crowds(
    const Bins& bins, const u32* starts, const u32 (&numbers)[PER], u32 (&places)[PER],
    Crowds<WARPS>& crowds) {
    const u32 lane = threadIdx.x % WARP;
    u32 noted[PER];
#pragma unroll
    for (u32 p = 0; p < PER; ++p) {
        noted[p] = numbers[p] == NONE ? 0 : starts[numbers[p] >> bins.bin_shift] >> POINTS_SHIFT;
        if (noted[p] == 0) continue;
        const u32 quarter = max(crowds.points[noted[p] - 1] / 4, 1u);
        const u32 sample = places[p] / quarter - 1;
        if (places[p] % quarter == 0 && sample < 3) crowds.samples[noted[p] - 1][sample] = numbers[p];
    }
    __syncthreads();
    if (threadIdx.x < min(crowds.count, MOST_CROWDS)) {
        const u32(&samples)[3] = crowds.samples[threadIdx.x];
        crowds.voxels[threadIdx.x] = samples[samples[0] == samples[1] ? 0 : 2];
    }
    __syncthreads();
#pragma unroll
    for (u32 p = 0; p < PER; ++p) {
        const u32 at = noted[p] - 1;
        const bool is_member = noted[p] != 0 && crowds.voxels[at] == numbers[p];
        const u32 peers = __match_any_sync(ALL_LANES, 2 * noted[p] + (is_member ? 1 : 0));
        const u32 leader = __ffs(peers) - 1;
        u32 rank = 0;
        if (noted[p] != 0 && lane == leader) {
            u32* all = is_member ? &crowds.members[at] : &crowds.others[at];
            rank = atomicAdd(all, static_cast<u32>(__popc(peers)));
        }
        rank = __shfl_sync(ALL_LANES, rank, leader) + __popc(peers & ((1u << lane) - 1));
        if (noted[p] == 0) continue;
        places[p] = (is_member ? crowds.points[at] - 1 - rank : rank) - (noted[p] << POINTS_SHIFT);
    }
}

// Adds up the crowds for the channel pack that starts at channel `from`, whose values are staged. For the
// first pack it also writes the crowds themselves. All threads call it.
template <bool SIFTED, u32 WARPS>
__device__ __noinline__ void add_crowds(
    const Bins& bins, const Channels& channels, const Sorted& to, const float4* values, u32 from,
    Crowds<WARPS>& crowds) {
    const u32 count = min(crowds.count, MOST_CROWDS), each = WARPS / count;
    const u32 t = threadIdx.x, lane = t % WARP, warp = t / WARP;
    if (warp / each < count) {
        const u32 at = warp / each, end = crowds.starts[at] + crowds.points[at];
        u32 kinds[CHANNEL_PACK];
        u64 sums[CHANNEL_PACK] = {};
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) {
            const bool is_there = from + c < channels.count;
            kinds[c] = is_there ? channel_at(channels, from + c).kind : CHANNEL_OCCUPANCY;
        }
        u32 i = end - crowds.members[at] + warp % each * WARP + lane;
        for (; i < end; i += each * WARP) {
            const float4 all = values[i];
            const float own[CHANNEL_PACK] = {all.x, all.y, all.z, all.w};
#pragma unroll
            for (u32 c = 0; c < CHANNEL_PACK; ++c) {
                const u64 value = start_with<SIFTED>(kinds[c], own[c]);
                sums[c] = together<SIFTED>(kinds[c], sums[c], value);
            }
        }
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) {
            sums[c] = together_in_warp<SIFTED>(kinds[c], sums[c]);
            if (lane == 0) crowds.sums[warp][c] = sums[c];
        }
    }
    __syncthreads();
    const u32 at = t / CHANNEL_PACK, c = t % CHANNEL_PACK;
    if (at >= count || crowds.members[at] < LEAST_CROWD || from + c >= channels.count) return;
    const u32 kind = channel_at(channels, from + c).kind;
    u64 sum = 0;
    for (u32 w = at * each; w < (at + 1) * each; ++w) {
        sum = together<SIFTED>(kind, sum, crowds.sums[w][c]);
    }
    const u32 place = blockIdx.x * MOST_CROWDS + at;
    to.crowd_values[static_cast<u64>(from + c) * to.tiles * MOST_CROWDS + place] = sum;
    if (from + c != 0) return;
    const u32 members = crowds.members[at], others = crowds.points[at] - members;
    to.crowds[place] = {crowds.voxels[at] & ((1u << bins.bin_shift) - 1), members};
    to.segments[static_cast<u64>(blockIdx.x) * bins.bin_count + crowds.bins[at]] =
        segment_of(crowds.starts[at], at + 1, others);
}

} // namespace voxelize_sort
