// Writes the occupied voxels of a cloud as a sparse row, in the order of the grid. For a dense row, it
// only reports the outcome of the points to the host. README.md explains why.
#include "bins.cuh"
#include "list.cuh"

namespace voxelize_list {

constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / WARP;
constexpr u32 COORDINATES = 3;

struct List {
    Listing from;
    u8* features;     // [max_voxels, channels] of the row
    i32* coordinates; // [max_voxels, z y x] of the row
    Tally* tally;
    Report* report; // pinned host memory
    u32 max_voxels;
    u32 row;    // voxels along x
    u32 column; // and along y
    u32 reserved;
};

// Sums over the thread block, for all threads.
__device__ __forceinline__ void sum_both(u32 (&own)[2], u32 (*sums)[2]) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (u32 k = 0; k < 2; ++k) {
#pragma unroll
        for (u32 d = WARP / 2; d > 0; d /= 2) own[k] += __shfl_xor_sync(ALL_LANES, own[k], d);
        if (lane == 0) sums[warp][k] = own[k];
    }
    __syncthreads();
    own[0] = own[1] = 0;
#pragma unroll
    for (u32 w = 0; w < WARPS; ++w) {
        own[0] += sums[w][0];
        own[1] += sums[w][1];
    }
}

// Writes the voxel at place `to` of the row.
template <class Element>
__device__ __forceinline__ void put_voxel(const List& job, u32 to, u32 entry, u32 voxel) {
    const u32 channels = job.from.channels;
    Element* features = reinterpret_cast<Element*>(job.features) + static_cast<u64>(to) * channels;
    const Element* from =
        static_cast<const Element*>(job.from.features) + static_cast<u64>(entry) * channels;
    for (u32 c = 0; c < channels; ++c) features[c] = from[c];
    i32* at = job.coordinates + static_cast<u64>(to) * COORDINATES;
    const u32 line = voxel / job.row;
    at[0] = static_cast<i32>(line / job.column);
    at[1] = static_cast<i32>(line % job.column);
    at[2] = static_cast<i32>(voxel % job.row);
}

// The place of the set bit number `rank` of a mask, from 0. The mask must have more than `rank` set bits.
__device__ __forceinline__ u32 bit_of(u32 mask, u32 rank) {
    u32 bit = 0;
#pragma unroll
    for (u32 half = WARP / 2; half != 0; half /= 2) {
        const u32 below = static_cast<u32>(__popc(mask & ((1u << half) - 1)));
        if (rank >= below) {
            rank -= below;
            mask >>= half;
            bit += half;
        }
    }
    return bit;
}

// Writes the voxels of this thread block's tile. `before` voxels come before the tile. In each round it
// takes up to THREADS voxel blocks. Then each thread takes a voxel, because the voxels of a wall are in
// few voxel blocks.
template <class Element>
__device__ __forceinline__ void write_tile(const List& job, u32 before) {
    __shared__ u32 warp_sums[WARPS];
    __shared__ u32 masks[THREADS], firsts[THREADS], starts[THREADS];
    const u32 tile_blocks = 1u << job.from.tile_shift, first = blockIdx.x << job.from.tile_shift;
#pragma unroll 1
    for (u32 at = 0; at < tile_blocks && before < job.max_voxels; at += THREADS) {
        const bool is_there = at + threadIdx.x < tile_blocks;
        const u32 voxel_block = first + at + threadIdx.x;
        const u32 mask = is_there ? job.from.masks[voxel_block] : 0;
        // No thread may still read the shared memory of the last round.
        __syncthreads();
        u32 total;
        starts[threadIdx.x] = sum_before<WARPS>(static_cast<u32>(__popc(mask)), warp_sums, total);
        masks[threadIdx.x] = mask;
        firsts[threadIdx.x] = mask != 0 ? job.from.firsts[voxel_block] : 0;
        __syncthreads();
        const u32 kept = min(total, job.max_voxels - before);
        for (u32 v = threadIdx.x; v < kept; v += THREADS) {
            // The last voxel block that starts at or before it is not empty.
            u32 block = 0;
#pragma unroll
            for (u32 step = THREADS / 2; step != 0; step /= 2) {
                if (starts[block + step] <= v) block += step;
            }
            const u32 rank = v - starts[block], bit = bit_of(masks[block], rank);
            const u32 voxel = (first + at + block) * VOXEL_BLOCK + bit;
            put_voxel<Element>(job, before + v, firsts[block] + rank, voxel);
        }
        before += total;
    }
}

// Zeros the voxels that the row held before and no longer holds.
template <class Element>
__device__ __forceinline__ void clear_voxels(const List& job, u32 kept) {
    const u32 held = min(*job.from.before, job.max_voxels);
    const u32 channels = job.from.channels;
    for (u32 v = kept + blockIdx.x * THREADS + threadIdx.x; v < held; v += gridDim.x * THREADS) {
        Element* features = reinterpret_cast<Element*>(job.features) + static_cast<u64>(v) * channels;
        i32* at = job.coordinates + static_cast<u64>(v) * COORDINATES;
        for (u32 c = 0; c < channels; ++c) features[c] = 0;
        for (u32 c = 0; c < COORDINATES; ++c) at[c] = 0;
    }
}

template <class Element>
__device__ __forceinline__ void list(const List& job) {
    __shared__ u32 sums[WARPS][2];
    launch_later_kernels();
    wait_for_earlier_kernels();
    // Voxels before this tile, and all.
    u32 voxels[2] = {0, 0};
    for (u32 tile = threadIdx.x; tile < job.from.tiles; tile += THREADS) {
        const u32 own = *total_of(job.from, job.from.phase, tile);
        voxels[0] += tile < blockIdx.x ? own : 0;
        voxels[1] += own;
    }
    sum_both(voxels, sums);
    const u32 kept = min(voxels[1], job.max_voxels);
    if (threadIdx.x == 0) {
        *total_of(job.from, job.from.phase ^ 1, blockIdx.x) = 0;
        if (blockIdx.x == 0) {
            *job.from.held = kept;
            report_tally(job.report, job.tally, voxels[1]);
        }
    }
    clear_voxels<Element>(job, kept);
    if (*total_of(job.from, job.from.phase, blockIdx.x) != 0) write_tile<Element>(job, voxels[0]);
}

#define LIST(NAME, ELEMENT)                               \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        NAME(const __grid_constant__ List job) {          \
        list<ELEMENT>(job);                               \
    }
LIST(voxelize_list_16, u16)
LIST(voxelize_list_32, u32)

struct Tell {
    Tally* tally;
    Report* report; // pinned host memory
};

// For a dense row.
extern "C" __global__ void voxelize_tell(const __grid_constant__ Tell job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    if (threadIdx.x == 0) report_tally(job.report, job.tally, 0);
}

} // namespace voxelize_list
