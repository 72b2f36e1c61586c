// Buckets: the points of one tile in one bin, when a large cloud is counted. `voxelize_fill_buckets` and
// `voxelize_write_buckets` share this file. README.md explains why.
#pragma once
#include "bins.cuh"
#include "counts.cuh"

// Numbers of 16 bits in a bucket: how many points it has, and the lower bits of their voxels' numbers.
constexpr u32 BUCKET = 64;
constexpr u32 BUCKET_POINTS = BUCKET - 1;
// Points of a tile, at most.
constexpr u32 BUCKET_TILE_POINTS = 4096;
// Tiles for which a count of 16 bits holds all points of all buckets of a bin.
constexpr u32 MOST_BUCKET_TILES = 1024;
static_assert(MOST_BUCKET_TILES * BUCKET_POINTS <= 0xFFFF);
// Lanes that read a bucket: each has an access of 16 bytes.
constexpr u32 BUCKET_LANES = 8;
constexpr u32 NUMBERS_PER_LANE = BUCKET / BUCKET_LANES;

// What `voxelize_fill_buckets` leaves to `voxelize_write_buckets`. A voxel gets the number
// `hash_span(voxel / SPAN) * SPAN + voxel % SPAN`, whose upper bits are its bin.
struct Buckets {
    u16* all;     // [bins, tiles, BUCKET]
    u32* counts;  // [voxels]: points for which a bucket had no room; 0 between clouds
    u32* spilled; // [bins]: whether there are such points; 0 between clouds
    u32 tiles;
    u32 warp_points; // points of a tile that a warp reads: a multiple of 4
    u32 bin_shift;   // log2 of the voxels of a bin: at most 14
    u32 bin_count;   // a power of two
    u32 span_mask;   // spans of all bins, less 1
    u32 reserved;
};

// Spreads a wall or a floor over all bins, as `hash_block` does.
__device__ __forceinline__ u32 hash_span(const Buckets& all, u32 span) {
    return span * HASH_FACTOR & all.span_mask;
}
__device__ __forceinline__ u32 unhash_span(const Buckets& all, u32 number) {
    return number * UNHASH_FACTOR & all.span_mask;
}

__device__ __forceinline__ u32 number_of(const Buckets& all, u32 voxel) {
    return hash_span(all, voxel >> SPAN_SHIFT) << SPAN_SHIFT | voxel % SPAN;
}

// Where number `i` of a bucket is: numbers that follow each other belong to different lanes, so that all lanes
// have about as many.
__device__ __forceinline__ u32 place_in_bucket(u32 i) {
    return i % BUCKET_LANES * NUMBERS_PER_LANE + i / BUCKET_LANES;
}
