// The occupied voxels of a cloud on their way into a sparse row: `voxelize_reduce_sifted` lists them
// sub-bin by sub-bin, and `voxelize_list` puts them into the order of the grid.
#pragma once
#include "rows.cuh"

// What the first kernel leaves to the second. Voxel blocks are those of the grid, in its order.
struct Listing {
    u32* masks;     // [tiles of voxel blocks]: a bit for each occupied voxel
    u32* firsts;    // the same: where the first one's features are [voxels]
    void* features; // [occupied voxels, channels], in any order
    u32* totals;    // [2, tiles]: occupied voxels of each tile
    u32* held;      // voxels that the row holds
    u32* before;    // voxels that it held before this cloud
    u32 phase;      // which half of `totals` is this cloud's; the other one is 0
    u32 tiles;
    u32 tile_shift; // log2 of the voxel blocks of a tile
    u32 channels;
};

__device__ __forceinline__ u32* total_of(const Listing& list, u32 phase, u32 tile) {
    return &list.totals[phase * list.tiles + tile];
}

// Notes which voxels of a voxel block are occupied. `first`: where their features are.
__device__ __forceinline__ void
put_mask(const Listing& list, u32 voxel_block, u32 mask, u32 first) {
    list.masks[voxel_block] = mask;
    list.firsts[voxel_block] = first;
    if (mask == 0) return;
    const u32 occupied = __popc(mask);
    atomicAdd(total_of(list, list.phase, voxel_block >> list.tile_shift), occupied);
}

// Where the features of the voxel of this lane are, of a voxel block with this mask.
__device__ __forceinline__ u32 entry_of(u32 mask, u32 first, u32 lane) {
    return first + static_cast<u32>(__popc(mask & ((1u << lane) - 1)));
}

// Stores the feature of a voxel.
template <class Out>
__device__ __forceinline__ void
put_feature(const Listing& list, u32 entry, u32 channel, Out element) {
    static_cast<Out*>(list.features)[static_cast<u64>(entry) * list.channels + channel] = element;
}
