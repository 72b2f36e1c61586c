// The crowds of a sub-bin, which the sort added up: `voxelize_reduce` counts and accumulates each as if it
// were one point.
#pragma once
#include "sub_bin.cuh"

namespace voxelize_reduce {

// The crowd of a tile in this sub-bin. Without a crowd, the voxel is NONE.
struct OwnCrowd {
    u32 voxel; // in the sub-bin
    u32 points;
    u32 place; // of its values for a channel
};
__device__ __forceinline__ OwnCrowd find_crowd(const Reduce& job, u32 tile) {
    const u32 number = crowd_of(segment_in(job, tile));
    if (number == 0) return {NONE, 0, 0};
    const u32 place = tile * MOST_CROWDS + number - 1;
    const Crowd crowd = job.from.crowds[place];
    return {in_sub_bin(job, crowd.voxel), crowd.points, place};
}
__device__ __forceinline__ u64 crowd_value(const Reduce& job, u32 channel, u32 place) {
    const u64 all = static_cast<u64>(job.from.tiles) * MOST_CROWDS;
    return job.from.crowd_values[channel * all + place];
}

// The crowded voxels of the sub-bin, and the points of their crowds, for which 16 bits may be too few. It
// takes the end of the list, so with crowds the list is shorter.
struct Crowded {
    static constexpr u32 MOST = 16;
    u32 voxels[MOST]; // 1 added
    u32 points[MOST];
};
constexpr u32 CROWDED_ENTRIES = sizeof(Crowded) / sizeof(Several);
__device__ __forceinline__ Crowded& crowded_of(Shared& shared) {
    return *reinterpret_cast<Crowded*>(&shared.list[LISTED - CROWDED_ENTRIES]);
}

// A crowd adds this to the counts, instead of its points. So its voxel counts as one with several points.
constexpr u32 CROWD_COUNT = 2;

// The number of points of a voxel whose count is `count`.
__device__ __forceinline__ u32 all_points(bool crowded, Shared& shared, u32 voxel, u32 count) {
    if (!crowded) return count;
    const Crowded& all = crowded_of(shared);
    u32 points = count;
    for (u32 i = 0; i < Crowded::MOST; ++i) {
        if (all.voxels[i] == voxel + 1) points += all.points[i];
    }
    return points;
}

// Counts the points of crowds. The thread that raises a voxel from less than two points to more lists it.
// If there are too many crowded voxels, the list overflows.
template <class Out, u32 VOXELS>
__device__ __noinline__ void count_crowds(const Reduce& job, SubBin<Out, VOXELS>& sub_bin) {
    const OwnCrowd crowd = find_crowd(job, threadIdx.x);
    if (crowd.voxel == NONE) return;
    Crowded& all = crowded_of(sub_bin.shared);
    u32 i = 0;
    for (; i < Crowded::MOST; ++i) {
        const u32 before = atomicCAS(&all.voxels[i], 0u, crowd.voxel + 1);
        if (before == 0 || before == crowd.voxel + 1) break;
    }
    if (i == Crowded::MOST) {
        atomicAdd(&sub_bin.shared.several, LISTED);
        return;
    }
    atomicAdd(&all.points[i], crowd.points - CROWD_COUNT);
    u32* word = reinterpret_cast<u32*>(sub_bin.counts) + crowd.voxel / 2;
    const u32 shift = crowd.voxel % 2 * 16;
    if ((atomicAdd(word, CROWD_COUNT << shift) >> shift & 0xFFFFu) > 1) return;
    const u32 at = atomicAdd(&sub_bin.shared.several, 1u);
    if (at < LISTED - CROWDED_ENTRIES) sub_bin.shared.list[at].voxel = crowd.voxel;
}

// Adds the values of crowds to the accumulators. These belong to the voxels from number `first` on.
template <class Job, class Out, u32 VOXELS>
__device__ __noinline__ void
place_crowds(const Job& all, SubBin<Out, VOXELS>& sub_bin, u32 from, u32 first) {
    const Reduce& job = all.reduce;
    const OwnCrowd crowd = find_crowd(job, threadIdx.x);
    if (crowd.voxel == NONE) return;
    const u32 count = sub_bin.counts[crowd.voxel];
    if ((count & LISTED_BIT) == 0) return; // it was emptied
    const u32 at = (count & ~LISTED_BIT) - first;
    if (at >= ACCUMULATORS / GROUP<Out>) return;
    for (u32 c = 0; c < GROUP<Out> && from + c < job.channels.count; ++c) {
        const u32 kind = channel_at(job.channels, from + c).kind, place = at * GROUP<Out> + c;
        const u64 value = crowd_value(job, from + c, crowd.place);
        if (adds<SIFTS<Job>>(kind)) add_sum(&sub_bin.lower[place], &sub_bin.upper[place], value);
        else atomicMax(&sub_bin.lower[place], static_cast<u32>(value));
    }
}

} // namespace voxelize_reduce
