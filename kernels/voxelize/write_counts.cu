// Writes the counts into a row, and zeros them for the next cloud. It visits the bins that the cloud
// touched, and the voxel blocks that the row still holds. README.md explains why.
#include "counts.cuh"

namespace voxelize_write_counts {

constexpr u32 THREADS = 128;
constexpr u32 WARPS = THREADS / WARP;
// Thread blocks of a multiprocessor.
constexpr u32 BLOCKS = 16;

struct WriteCounts {
    Channels channels;
    Counted from;
    u8* occupied; // [spans]: bits of the voxel blocks in which the row holds something
    void* row;    // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 reserved;
};

template <class Out>
__device__ __forceinline__ void write_counts(const WriteCounts& job) {
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 spans = (job.volume + (1 << SPAN_SHIFT) - 1) >> SPAN_SHIFT;
    const u32 bin_shift = job.from.bin_shift - SPAN_SHIFT;
    wait_for_earlier_kernels();
    for (u32 span = blockIdx.x * WARPS + warp; span < spans;
         span += gridDim.x * WARPS) {
        const u32 bin = span >> bin_shift;
        const u32 before = job.occupied[span];
        const u32 copy = bin / WARP * TOUCHED_COPIES + lane % TOUCHED_COPIES;
        const u32 bits = *touched_at(job.from, job.from.phase, copy);
        const bool touched = __any_sync(ALL_LANES, bits >> bin % WARP & 1);
        if (!touched && before == 0) continue;
        const u32 first = span << SPAN_SHIFT;
        u32 own[VOXELS_PER_LANE] = {};
        if (touched) take_counts(job.from.counts + first + lane * VOXELS_PER_LANE, own);
        const u32 voxel_blocks = write_span<Out>(job, own, before, first, lane);
        if (lane == 0 && voxel_blocks != before) job.occupied[span] = voxel_blocks;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) report_dropped(job.report, job.counters);
    // The next cloud has the other half of the touched bins.
    const u32 words = touched_words(job.from);
    const u32 thread = blockIdx.x * THREADS + threadIdx.x;
    for (u32 w = thread; w < words; w += gridDim.x * THREADS) {
        *touched_at(job.from, job.from.phase ^ 1, w) = 0;
    }
}

#define WRITE_COUNTS(NAME, OUT)                                             \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) \
        NAME(const __grid_constant__ WriteCounts job) {                     \
        write_counts<OUT>(job);                                             \
    }
WRITE_COUNTS(voxelize_write_counts_f32, F32)
WRITE_COUNTS(voxelize_write_counts_f16, F16)
WRITE_COUNTS(voxelize_write_counts_bf16, Bf16)

} // namespace voxelize_write_counts
