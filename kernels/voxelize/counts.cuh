// Counts of points, for a cloud that is only counted: what `voxelize_count`, `voxelize_write_counts` and
// `voxelize_scatter` share.
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

// A voxel whose points a thread block counts in shared memory. The block adds them at its end, at once. Atomics
// on one address of memory queue, and some drivers place all rays without a return at the sensor.
struct OwnVoxel {
    u32 voxel; // 1 added; 0 until two neighbours share one
    u32 points;
};

// The points that a lane adds to its voxel. Those of the thread block's own voxel are added there. If two
// neighbours share another one, one lane adds the points of each voxel at once, and the others add none: a
// search for peers in every warp would cost more than it saves. All lanes of a warp call it.
__device__ __forceinline__ u32 points_to_add(OwnVoxel& of_block, u32 voxel, u32 lane) {
    const u32 own = *static_cast<volatile u32*>(&of_block.voxel);
    const bool is_own = own != 0 && voxel == own - 1;
    const u32 owned = __ballot_sync(ALL_LANES, is_own);
    if (owned != 0 && lane == 0) atomicAdd(&of_block.points, static_cast<u32>(__popc(owned)));
    if (is_own) voxel = NONE;
    const u32 before = __shfl_up_sync(ALL_LANES, voxel, 1);
    const bool is_twin = lane != 0 && before == voxel && voxel != NONE;
    u32 points = 1;
    if (__any_sync(ALL_LANES, is_twin)) {
        if (is_twin && own == 0) atomicCAS(&of_block.voxel, 0u, voxel + 1);
        const u32 peers = __match_any_sync(ALL_LANES, voxel);
        points = lane == __ffs(peers) - 1 ? __popc(peers) : 0;
    }
    return voxel == NONE ? 0 : points;
}

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

// ---- Counts in a row ----------------------------------------------------------------------------

// Voxels that a warp writes at once: 8 voxel blocks. And log2 of it.
constexpr u32 SPAN_SHIFT = 8;
constexpr u32 SPAN = 1u << SPAN_SHIFT;
static_assert(SPAN == WARP * VOXELS_PER_LANE && VOXELS_PER_LANE == 8);

// Adds the counts of a lane's voxels in memory to its own counts, and zeros them in memory.
__device__ __forceinline__ void take_counts(u32* from, u32 (&own)[VOXELS_PER_LANE]) {
    uint4* counts = reinterpret_cast<uint4*>(from);
    const uint4 fours[2] = {counts[0], counts[1]};
    const u32 all[VOXELS_PER_LANE] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w,
                                      fours[1].x, fours[1].y, fours[1].z, fours[1].w};
    if ((all[0] | all[1] | all[2] | all[3]) != 0) counts[0] = make_uint4(0, 0, 0, 0);
    if ((all[4] | all[5] | all[6] | all[7]) != 0) counts[1] = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (u32 i = 0; i < VOXELS_PER_LANE; ++i) own[i] += all[i];
}

// Writes the counts of a span. Each lane has those of its own voxels. The span begins at voxel `first`. `before` has a
// bit for each voxel block that the row held before. Returns the occupied ones. All lanes of a warp call it.
template <class Out, class Job>
__device__ __forceinline__ u32
write_span(const Job& job, const u32 (&own)[VOXELS_PER_LANE], u32 before, u32 first, u32 lane) {
    u32 some = 0;
#pragma unroll
    for (u32 i = 0; i < VOXELS_PER_LANE; ++i) some |= own[i];
    const u32 voxel_blocks = voxel_blocks_of(some != 0);
    const u32 own_block = lane / (VOXEL_BLOCK / VOXELS_PER_LANE);
    if (((voxel_blocks | before) >> own_block & 1) == 0) return voxel_blocks;
#pragma unroll 1
    for (u32 c = 0; c < job.channels.count; ++c) {
        const u32 most = channel_at(job.channels, c).kind == CHANNEL_COUNT ? NONE : 1;
        float values[VOXELS_PER_LANE];
        float greatest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < VOXELS_PER_LANE; ++i) {
            values[i] = static_cast<float>(min(own[i], most));
            greatest = fmaxf(greatest, values[i]);
        }
        // The other types hold every count.
        if constexpr (SAME<Out, F16>) element<Out>(job.report, c, greatest);
        Pack<Out, VOXELS_PER_LANE> elements;
        from_floats(values, elements);
        write_elements(job.row, job.volume, c, first + lane * VOXELS_PER_LANE, elements.at);
    }
    return voxel_blocks;
}
