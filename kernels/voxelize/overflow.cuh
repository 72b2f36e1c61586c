// `voxelize_reduce` for a sub-bin whose points overflow the counts or the lists of the usual way.
// It takes any number of points. It reads all points of the sub-bin once for each part of the sub-bin
// that has points, with accumulators for every voxel of the part.
#pragma once
#include "own_crowds.cuh"

namespace voxelize_reduce {

// Accumulators of a part of the sub-bin.
struct Part {
    u32 voxels;
    u32* counts;
    u32* lower; // [channels of a group, voxels]: of sums, or maxima
    u32* upper; // of sums
};

// Adds the value of channel c of the group to that of a voxel.
template <class Job>
__device__ __forceinline__ void
accumulate(const Part& part, u32 kind, u32 c, u32 voxel, u64 value) {
    u32* lower = &part.lower[c * part.voxels + voxel];
    if (takes_greatest<SIFTS<Job>>(kind)) atomicMax(lower, static_cast<u32>(value));
    else if (adds<SIFTS<Job>>(kind)) add_sum(lower, &part.upper[c * part.voxels + voxel], value);
}

// Adds the points of a warp, those that have a voxel.
template <class Out, class Job>
__device__ __forceinline__ void add_points(
    const Part& part, u32 voxel, const Values<Out>& values, const u32 (&kinds)[GROUP<Out>],
    u32 lane) {
    // If the whole warp has one voxel, it adds its points at once, as atomics would queue.
    const u32 first = __shfl_sync(ALL_LANES, voxel, 0);
    const bool as_one = __all_sync(ALL_LANES, voxel != NONE && voxel == first);
    if (voxel != NONE && (!as_one || lane == 0)) {
        atomicAdd(&part.counts[voxel], as_one ? WARP : 1u);
    }
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        if (!adds<SIFTS<Job>>(kinds[c]) && !takes_greatest<SIFTS<Job>>(kinds[c])) continue;
        u64 all = start_with<SIFTS<Job>>(kinds[c], values.at[c]);
        if (as_one) all = together_in_warp<SIFTS<Job>>(kinds[c], all);
        if (voxel == NONE || (as_one && lane != 0)) continue;
        accumulate<Job>(part, kinds[c], c, voxel, all);
    }
}

// Adds the crowds of the part, which starts at voxel `start` of the sub-bin.
template <class Job>
__device__ __forceinline__ void
add_crowds(const Reduce& job, const Part& part, u32 start, u32 from, u32 group) {
#pragma unroll 1
    for (u32 tile = threadIdx.x; tile < job.from.tiles; tile += THREADS) {
        const OwnCrowd crowd = find_crowd(job, tile);
        const u32 voxel = crowd.voxel - start;
        if (crowd.voxel == NONE || voxel >= part.voxels) continue;
        atomicAdd(&part.counts[voxel], crowd.points);
        for (u32 c = 0; c < group && from + c < job.channels.count; ++c) {
            const u32 kind = channel_at(job.channels, from + c).kind;
            accumulate<Job>(part, kind, c, voxel, crowd_value(job, from + c, crowd.place));
        }
    }
}

// Points that a thread has under way at once.
constexpr u32 BATCH = 4;

// Calls `use(voxels in the sub-bin, places)` for the points of the sub-bin, BATCH at a time, with
// whole warps. The voxel is NONE for a point of another sub-bin, and beyond the last point.
template <class Use>
__device__ __forceinline__ void for_all_points(const Reduce& job, Shared& shared, Use use) {
    const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 first = 0; first < job.from.tiles; first += TILES) {
        // No thread may still read the last list.
        __syncthreads();
        const u32 segment = segment_in(job, first + threadIdx.x);
        const u32 count = list_segments(job, first, segment, shared).points;
#pragma unroll 1
        for (u32 i = threadIdx.x; i - lane < count; i += BATCH * THREADS) {
            u32 at[BATCH], voxels[BATCH];
            find_segments<BATCH>(job, shared.segments, i, at);
#pragma unroll
            for (u32 k = 0; k < BATCH; ++k) {
                at[k] = shared.segments.from[at[k]] + i + k * THREADS;
                const bool is_point = i + k * THREADS < count;
                voxels[k] = is_point ? in_sub_bin(job, job.from.voxels[at[k]]) : NONE;
            }
            use(voxels, at);
        }
    }
    __syncthreads();
}

// The points of a voxel that has enough of them, else 0. Those left out are counted for the first
// channel group.
__device__ __forceinline__ u32 enough(const Plain& job, u32 count, u32 from) {
    return count;
}
__device__ __forceinline__ u32 enough(const Sifted& job, u32 count, u32 from) {
    if (count >= job.min_points) return count;
    if (count != 0 && from == 0) atomicAdd(&drops_of(job.tally)[DROP_TOO_FEW], count);
    return 0;
}

// Puts a voxel block into the list, for the first channel group. Returns where the features of its
// occupied voxels are.
__device__ __forceinline__ u32
enter(const Sifted& all, u32 voxel_block, u32 mask, u32 from, u32 lane) {
    u32 first = 0;
    if (lane == 0) {
        if (from == 0) {
            first = atomicAdd(&all.tally->listed, static_cast<u32>(__popc(mask)));
            put_mask(all.list, voxel_block, mask, first);
        } else {
            first = all.list.firsts[voxel_block];
        }
    }
    return __shfl_sync(ALL_LANES, first, 0);
}

// Writes a channel group of a part, which starts at voxel block `first` of the sub-bin.
template <class Out, class Job>
__device__ __forceinline__ void write_part(
    const Job& all, const Part& part, u32 first, u32 from, Shared& shared) {
    const Reduce& job = all.reduce;
    const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 b = threadIdx.x / WARP; b < part.voxels / VOXEL_BLOCK; b += WARPS) {
        const u32 at = b * VOXEL_BLOCK + lane, voxel_block = first + b;
        const u32 count = enough(all, part.counts[at], from);
        const bool some = __any_sync(ALL_LANES, count != 0);
        const u32* before = shared.occupied_before;
        if (!some && (before[voxel_block / 32] >> voxel_block % 32 & 1) == 0) continue;
        u32* now = shared.occupied_now;
        if (some && lane == 0) atomicOr(&now[voxel_block / 32], 1u << voxel_block % 32);
        const u32 voxel = voxel_at(job, voxel_block) + lane;
        u32 entry = 0;
        bool is_list = false;
        if constexpr (SIFTS<Job>) {
            is_list = all.is_list != 0;
            if (is_list) {
                const u32 mask = __ballot_sync(ALL_LANES, count != 0);
                const u32 start = enter(all, voxel / VOXEL_BLOCK, mask, from, lane);
                entry = entry_of(mask, start, lane);
                if (count == 0) continue;
            }
        }
        if (voxel >= job.volume) continue;
#pragma unroll 1
        for (u32 c = 0; c < GROUP<Out> && from + c < job.channels.count; ++c) {
            const u32 i = c * part.voxels + at;
            const Channel channel = channel_at(job.channels, from + c);
            const u64 total = static_cast<u64>(part.upper[i]) << 32 | part.lower[i];
            const float value =
                count == 0 ? 0.0f : of_several(all, channel.kind, channel.place, total, count);
            if constexpr (SIFTS<Job>) {
                if (is_list) {
                    const Out feature = element<Out>(job.report, from + c, value);
                    put_feature(all.list, entry, from + c, feature);
                    continue;
                }
            }
            Out* row = static_cast<Out*>(job.row) + static_cast<u64>(from + c) * job.volume;
            row[voxel] = element<Out>(job.report, from + c, value);
        }
    }
}

// Reduces a sub-bin with any number of points, part by part.
template <class Out, class Job>
__device__ __noinline__ void reduce_overflow(const Job& all, Shared& shared, u16* memory) {
    const Reduce& job = all.reduce;
    const u32 lane = threadIdx.x % WARP;
    const u32 voxels = 1u << job.bins.sub_bin_shift;
    Part part;
    // Counts and staged elements leave this memory: 4 + 8 bytes per channel of the group, for each voxel.
    part.voxels = max(voxels / 4, 512u);
    part.counts = reinterpret_cast<u32*>(memory);
    part.lower = part.counts + part.voxels;
    part.upper = part.lower + GROUP<Out> * part.voxels;
    u32 wanted = 0;
    for_all_points(job, shared, [&](const u32(&in)[BATCH], const u32(&)[BATCH]) {
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k) {
            if (in[k] != NONE) wanted |= 1u << in[k] / part.voxels;
        }
    });
    for (u32 tile = threadIdx.x; tile < job.from.tiles; tile += THREADS) {
        const u32 voxel = find_crowd(job, tile).voxel;
        if (voxel != NONE) wanted |= 1u << voxel / part.voxels;
    }
    if (wanted != 0) atomicOr(&shared.wanted, wanted);
    __syncthreads();
#pragma unroll 1
    for (u32 p = 0; p < voxels / part.voxels; ++p) {
        const bool some = (shared.wanted >> p & 1) != 0;
        const u32 start = p * part.voxels;
#pragma unroll 1
        for (u32 from = 0; from < job.channels.count; from += GROUP<Out>) {
            u32 kinds[GROUP<Out>];
            kinds_of<Out>(job, from, kinds);
            const u32 fours = part.voxels * (1 + 2 * GROUP<Out>) / 4;
            for (u32 i = threadIdx.x; i < fours; i += THREADS) {
                reinterpret_cast<uint4*>(part.counts)[i] = make_uint4(0, 0, 0, 0);
            }
            __syncthreads();
            const Values<Out>* values = values_of<Out>(job, from);
            if (some) {
                add_crowds<Job>(job, part, start, from, GROUP<Out>);
                for_all_points(job, shared, [&](const u32(&in)[BATCH], const u32(&at)[BATCH]) {
                    Values<Out> own[BATCH];
                    u32 local[BATCH];
#pragma unroll
                    for (u32 k = 0; k < BATCH; ++k) {
                        // A voxel below the part wraps around, and is beyond it as well.
                        local[k] = in[k] == NONE ? NONE : in[k] - start;
                        if (local[k] >= part.voxels) local[k] = NONE;
                        own[k] = Values<Out>{};
                        if (local[k] != NONE) own[k] = values[at[k] * APART<Out>];
                    }
#pragma unroll
                    for (u32 k = 0; k < BATCH; ++k) {
                        add_points<Out, Job>(part, local[k], own[k], kinds, lane);
                    }
                });
            }
            write_part<Out>(all, part, start / VOXEL_BLOCK, from, shared);
            __syncthreads();
        }
    }
    store_occupied(job, shared);
}

} // namespace voxelize_reduce
