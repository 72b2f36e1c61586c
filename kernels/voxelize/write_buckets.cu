// Counts the points of buckets, bin by bin in shared memory, and writes the counts into a row. README.md explains
// why.
#include "buckets.cuh"

namespace voxelize_write_buckets {

constexpr u32 THREADS = 1024;
constexpr u32 WARPS = THREADS / WARP;
// log2 of the greatest number of voxels of a bin.
constexpr u32 MOST_BIN_SHIFT = 14;
// Spans of a bin that a warp writes, at most.
constexpr u32 MOST_SPANS = (1u << (MOST_BIN_SHIFT - SPAN_SHIFT)) / WARPS;
// Buckets that are under way at once: parts of 16 bytes for each thread.
constexpr u32 UNROLL = 2;

struct WriteBuckets {
    Channels channels;
    Buckets from;
    u8* occupied; // [spans]: bits of the voxel blocks in which the row holds something
    void* row;    // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 reserved;
};

// Adds the points of a bucket. Each of its lanes has a part of the bucket's numbers.
__device__ __forceinline__ void add_bucket(u32* counts, const uint4& part) {
    const u32 lane = threadIdx.x % WARP, own = lane % BUCKET_LANES;
    const u32 points = __shfl_sync(ALL_LANES, part.x & 0xFFFFu, lane - own);
    const u32 words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
    for (u32 k = 0; k < NUMBERS_PER_LANE; ++k) {
        const u32 i = k * BUCKET_LANES + own;
        if (i == 0 || i > points) continue;
        const u32 voxel = words[k / 2] >> 16 * (k % 2) & 0xFFFFu;
        // A word has two counts. The lower one cannot overflow into the upper one: the host bounds the tiles.
        atomicAdd(&counts[voxel / 2], 1u << 16 * (voxel % 2));
    }
}

// The first voxel of span `j` of this thread block's bin.
__device__ __forceinline__ u32 first_voxel(const Buckets& from, u32 j) {
    return unhash_span(from, (blockIdx.x << (from.bin_shift - SPAN_SHIFT)) + j) << SPAN_SHIFT;
}

// Counts the points of a bin. `before` gets the voxel blocks that the row holds in the spans of this warp.
__device__ __forceinline__ void count_bin(const WriteBuckets& job, u32* counts, u32 (&before)[MOST_SPANS]) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 spans = 1u << (job.from.bin_shift - SPAN_SHIFT);
    const u32 parts = job.from.tiles * BUCKET_LANES;
    const uint4* all = reinterpret_cast<const uint4*>(job.from.all) + static_cast<u64>(blockIdx.x) * parts;
    // All loads are under way before one is used.
    uint4 own[UNROLL];
#pragma unroll
    for (u32 k = 0; k < UNROLL; ++k) {
        const u32 i = threadIdx.x + k * THREADS;
        own[k] = i < parts ? __ldcg(all + i) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (u32 s = 0; s < MOST_SPANS; ++s) {
        const u32 j = warp + s * WARPS, first = first_voxel(job.from, j);
        before[s] = j < spans && first < job.volume ? job.occupied[first >> SPAN_SHIFT] : 0;
    }
    __syncthreads();
#pragma unroll
    for (u32 k = 0; k < UNROLL; ++k) {
        if (warp * WARP + k * THREADS < parts) add_bucket(counts, own[k]);
    }
#pragma unroll 1
    for (u32 i = threadIdx.x + UNROLL * THREADS; i - lane < parts; i += THREADS) {
        add_bucket(counts, i < parts ? __ldcg(all + i) : make_uint4(0, 0, 0, 0));
    }
    __syncthreads();
}

template <class Out>
__device__ __forceinline__ void write_buckets(const WriteBuckets& job) {
    extern __shared__ uint4 memory[]; // counts of 16 bits, of the voxels of the bin
    launch_later_kernels();
    const u32 t = threadIdx.x, lane = t % WARP, warp = t / WARP;
    if (blockIdx.x == job.from.bin_count) {
        // This thread block has no bin. Any other one would finish later if it had to report.
        wait_for_earlier_kernels();
        if (t == 0) report_dropped(job.report, job.counters);
        return;
    }
    const u32 spans = 1u << (job.from.bin_shift - SPAN_SHIFT);
    for (u32 i = t; i < spans * WARP; i += THREADS) memory[i] = make_uint4(0, 0, 0, 0);
    wait_for_earlier_kernels();
    const bool spilled = __ldcg(job.from.spilled + blockIdx.x) != 0;
    u32 before[MOST_SPANS];
    count_bin(job, reinterpret_cast<u32*>(memory), before);
#pragma unroll 1
    for (u32 s = 0; s < MOST_SPANS; ++s) {
        const u32 j = warp + s * WARPS, first = first_voxel(job.from, j);
        if (j >= spans) break;
        if (first >= job.volume) continue;
        const uint4 pairs = memory[j * WARP + lane];
        u32 points[VOXELS_PER_LANE] = {pairs.x & 0xFFFFu, pairs.x >> 16, pairs.y & 0xFFFFu, pairs.y >> 16,
                                       pairs.z & 0xFFFFu, pairs.z >> 16, pairs.w & 0xFFFFu, pairs.w >> 16};
        if (spilled) take_counts(job.from.counts + first + lane * VOXELS_PER_LANE, points);
        u32 held = before[0];
#pragma unroll
        for (u32 other = 1; other < MOST_SPANS; ++other) held = other == s ? before[other] : held;
        const u32 voxel_blocks = write_span<Out>(job, points, held, first, lane);
        if (lane == 0 && voxel_blocks != held) job.occupied[first >> SPAN_SHIFT] = voxel_blocks;
    }
    if (spilled && t == 0) job.from.spilled[blockIdx.x] = 0;
}

#define WRITE_BUCKETS(NAME, OUT)                             \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        NAME(const __grid_constant__ WriteBuckets job) {     \
        write_buckets<OUT>(job);                             \
    }
WRITE_BUCKETS(voxelize_write_buckets_f32, F32)
WRITE_BUCKETS(voxelize_write_buckets_f16, F16)
WRITE_BUCKETS(voxelize_write_buckets_bf16, Bf16)

} // namespace voxelize_write_buckets
