// Writes the counts into a row, and zeros them for the next cloud. It visits the bins that the cloud
// touched, and the voxel blocks that the row still holds. README.md explains why.
#include "counts.cuh"

namespace voxelize_write_counts {

constexpr u32 THREADS = 128;
constexpr u32 WARPS = THREADS / WARP;
// Thread blocks of a multiprocessor.
constexpr u32 BLOCKS = 16;
// log2 of the voxels of a span, which one warp writes: 8 voxel blocks.
constexpr u32 SPAN_SHIFT = 8;

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

// Writes a span and zeros its counts. Returns its occupied voxel blocks. `touched`: whether it may
// have points; `before`: the voxel blocks that the row held before.
template <class Out>
__device__ __forceinline__ u32
write_span(const WriteCounts& job, bool touched, u32 before, u32 first, u32 lane) {
    uint4* counts = reinterpret_cast<uint4*>(job.from.counts + first + lane * VOXELS_PER_LANE);
    uint4 fours[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
    static_assert(VOXELS_PER_LANE == 8);
    if (touched) {
        fours[0] = counts[0];
        fours[1] = counts[1];
    }
    const u32 own[VOXELS_PER_LANE] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w,
                               fours[1].x, fours[1].y, fours[1].z, fours[1].w};
    const bool some[2] = {
        (own[0] | own[1] | own[2] | own[3]) != 0, (own[4] | own[5] | own[6] | own[7]) != 0};
    if (some[0]) counts[0] = make_uint4(0, 0, 0, 0);
    if (some[1]) counts[1] = make_uint4(0, 0, 0, 0);
    const u32 voxel_blocks = voxel_blocks_of(some[0] || some[1]);
    const u32 own_block = lane / (VOXEL_BLOCK / VOXELS_PER_LANE);
    if (((voxel_blocks | before) >> own_block & 1) == 0) return voxel_blocks;
#pragma unroll 1
    for (u32 c = 0; c < job.channels.count; ++c) {
        const bool count = channel_at(job.channels, c).kind == CHANNEL_COUNT;
        alignas(16) Out elements[VOXELS_PER_LANE];
        float greatest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < VOXELS_PER_LANE; ++i) {
            const float value = static_cast<float>(count ? own[i] : own[i] != 0);
            greatest = fmaxf(greatest, value);
            from_float(value, elements[i]);
        }
        element<Out>(job.report, c, greatest);
        write_elements(job.row, job.volume, c, first + lane * VOXELS_PER_LANE, elements);
    }
    return voxel_blocks;
}

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
        const u32 voxel_blocks = write_span<Out>(job, touched, before, span << SPAN_SHIFT, lane);
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
