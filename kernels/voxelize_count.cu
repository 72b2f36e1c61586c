// Clouds whose points are only counted: `voxelize_count` adds the points to the counts of the grid and
// notes which bins (1,024 voxels) it touches; `voxelize_counts` looks at those and at what the row
// still holds, writes the bricks that hold or held something, and returns the counts to zero. So
// nothing of the grid's size is cleared. Cost: points plus touched bins; of the others a bit, and what
// the row holds of them, 4 bytes, are read.
#include "voxels.cuh"

constexpr u32 COUNT_THREADS = 1024;
constexpr u32 WRITE_THREADS = 128;
constexpr u32 WRITE_WARPS = WRITE_THREADS / WARP;
// Blocks of a multiprocessor: more of them are slower, as they get fewer registers.
constexpr u32 WRITE_BLOCKS = 8;
// log2 of the voxels of a unit, which is what a warp writes: 8 bricks.
constexpr u32 UNIT_SHIFT = 8;

// Atomics on one sector of memory queue, and all blocks mark at about the same time: so that marks
// stand in several copies, and each word in a sector of its own.
constexpr u32 COPIES = 8;
constexpr u32 SECTOR = 8;

// The structures of this file are written by the host: src/backend/cuda/voxelize/job.rs.
struct Counted {
    u32* counts;   // [voxels of all bins]; 0 between clouds
    u32* marks;    // [2, bins / 32, COPIES, SECTOR]: bits of touched bins; the rest is 0 between clouds
    u32 turn;      // which half of the marks is this cloud's
    u32 bin_shift; // log2 of the voxels of a bin
    u32 bin_count;
    u32 reserved;
};

// Words that have a bit for each bin.
__device__ __forceinline__ u32 bin_words(const Counted& all) {
    return (all.bin_count + WARP - 1) / WARP;
}
// The words of marks of one turn, in all copies.
__device__ __forceinline__ u32 mark_words(const Counted& all) {
    return bin_words(all) * COPIES;
}
__device__ __forceinline__ u32* mark_at(const Counted& all, u32 turn, u32 word) {
    return all.marks + static_cast<u64>(turn * mark_words(all) + word) * SECTOR;
}

struct Count {
    Cloud cloud;
    Grid grid;
    Counted to;
    Counters* counters;
};

// Those of point i; of the last one, if there are not as many.
template <class Layout>
__device__ __forceinline__ Coordinates load(const Count& job, u32 i) {
    return coordinates<Layout>(job.cloud, Layout::at(job.cloud, min(i, job.cloud.count - 1)));
}

// The voxel of point i, or NONE, which is counted; its bin is noted as touched.
__device__ __forceinline__ u32
take(const Count& job, u32 i, const Coordinates& point, u32* touched, u32* dropped) {
    if (i >= job.cloud.count) return NONE;
    const u32 voxel = voxel_of(job.grid, to_base(job.cloud, point).at);
    if (voxel == NONE) {
        drop(dropped, finite(point.at[0]) && finite(point.at[1]) && finite(point.at[2]), false);
    } else {
        const u32 bin = voxel >> job.to.bin_shift;
        atomicOr(&touched[bin / WARP], 1u << bin % WARP);
    }
    return voxel;
}

// Counts the points of a warp. Where neighbours share a voxel, others may as well (rays that returned
// nothing, say, which some drivers place at the sensor): then those of each voxel are added at once, as
// atomics on one address queue. To look for them always would cost more than it saves.
__device__ __forceinline__ void add_count(const Counted& all, u32 voxel, u32 lane) {
    const u32 before = __shfl_up_sync(ALL_LANES, voxel, 1);
    u32 points = 1;
    if (__any_sync(ALL_LANES, lane != 0 && before == voxel && voxel != NONE)) {
        const u32 peers = __match_any_sync(ALL_LANES, voxel);
        points = lane == __ffs(peers) - 1 ? __popc(peers) : 0;
    }
    if (voxel != NONE && points != 0) atomicAdd(&all.counts[voxel], points);
}

template <class Layout>
__device__ __forceinline__ void count(const Count& job) {
    extern __shared__ u32 touched[]; // [bins / 32]: bits of bins
    __shared__ u32 dropped[4];
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP;
    const u32 words = bin_words(job.to);
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += COUNT_THREADS) touched[w] = 0;
    if (threadIdx.x < 4) dropped[threadIdx.x] = 0;
    __syncthreads();
    wait_for_earlier_kernels();
    const u32 stride = gridDim.x * COUNT_THREADS;
    // Whole warps go on together. The next point is on its way while one is located.
    u32 i = blockIdx.x * COUNT_THREADS + threadIdx.x;
    Coordinates next = load<Layout>(job, i);
#pragma unroll 1
    for (; i - lane < job.cloud.count; i += stride) {
        const Coordinates point = next;
        if (i - lane + stride < job.cloud.count) next = load<Layout>(job, i + stride);
        add_count(job.to, take(job, i, point, touched, dropped), lane);
    }
    __syncthreads();
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += COUNT_THREADS) {
        if (touched[w] == 0) continue;
        atomicOr(mark_at(job.to, job.to.turn, w * COPIES + blockIdx.x % COPIES), touched[w]);
    }
    add_dropped(job.counters, dropped);
}

#define COUNT(NAME, LAYOUT)                                     \
    extern "C" __global__ void __launch_bounds__(COUNT_THREADS) \
        NAME(const __grid_constant__ Count job) {               \
        count<LAYOUT>(job);                                     \
    }
COUNT(voxelize_count_words, Words)
COUNT(voxelize_count_fields, Fields)

struct WriteCounts {
    Channels channels;
    Counted from;
    u8* held;  // [units]: which bricks of the row hold something
    void* row; // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 reserved;
};

// Writes a unit, and returns its counts to zero; returns its bricks.
template <class Out>
__device__ __forceinline__ u32
write_unit(const WriteCounts& job, bool now, u32 held, u32 first, u32 lane) {
    uint4* counts = reinterpret_cast<uint4*>(job.from.counts + first + lane * PER_LANE);
    uint4 fours[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
    static_assert(PER_LANE == 8);
    if (now) {
        fours[0] = counts[0];
        fours[1] = counts[1];
    }
    const u32 own[PER_LANE] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w,
                               fours[1].x, fours[1].y, fours[1].z, fours[1].w};
    const bool some[2] = {
        (own[0] | own[1] | own[2] | own[3]) != 0, (own[4] | own[5] | own[6] | own[7]) != 0};
    if (some[0]) counts[0] = make_uint4(0, 0, 0, 0);
    if (some[1]) counts[1] = make_uint4(0, 0, 0, 0);
    const u32 bricks = bricks_of(some[0] || some[1]);
    if (((bricks | held) >> lane / (BRICK / PER_LANE) & 1) == 0) return bricks;
#pragma unroll 1
    for (u32 c = 0; c < job.channels.count; ++c) {
        const bool count = channel_at(job.channels, c).kind == CHANNEL_COUNT;
        alignas(16) Out elements[PER_LANE];
        float greatest = 0.0f;
#pragma unroll
        for (u32 i = 0; i < PER_LANE; ++i) {
            const float value = static_cast<float>(count ? own[i] : own[i] != 0);
            greatest = fmaxf(greatest, value);
            from_float(value, elements[i]);
        }
        element<Out>(job.report, c, greatest);
        write_elements(job.row, job.volume, c, first + lane * PER_LANE, elements);
    }
    return bricks;
}

template <class Out>
__device__ __forceinline__ void write_counts(const WriteCounts& job) {
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 units = (job.volume + (1 << UNIT_SHIFT) - 1) >> UNIT_SHIFT;
    const u32 bin_shift = job.from.bin_shift - UNIT_SHIFT;
    wait_for_earlier_kernels();
    if (blockIdx.x == 0 && threadIdx.x == 0) report_dropped(job.report, job.counters);
    // The other half of the marks is the next cloud's.
    const u32 words = mark_words(job.from);
    const u32 thread = blockIdx.x * WRITE_THREADS + threadIdx.x;
    for (u32 w = thread; w < words; w += gridDim.x * WRITE_THREADS) {
        *mark_at(job.from, job.from.turn ^ 1, w) = 0;
    }
    for (u32 unit = blockIdx.x * WRITE_WARPS + warp; unit < units;
         unit += gridDim.x * WRITE_WARPS) {
        const u32 bin = unit >> bin_shift;
        const u32 held = job.held[unit];
        const u32 mark = *mark_at(job.from, job.from.turn, bin / WARP * COPIES + lane % COPIES);
        const bool now = __any_sync(ALL_LANES, mark >> bin % WARP & 1);
        if (!now && held == 0) continue;
        const u32 bricks = write_unit<Out>(job, now, held, unit << UNIT_SHIFT, lane);
        if (lane == 0 && bricks != held) job.held[unit] = bricks;
    }
}

#define WRITE_COUNTS(NAME, OUT)                                             \
    extern "C" __global__ void __launch_bounds__(WRITE_THREADS, WRITE_BLOCKS) \
        NAME(const __grid_constant__ WriteCounts job) {                     \
        write_counts<OUT>(job);                                             \
    }
WRITE_COUNTS(voxelize_counts_f32, F32)
WRITE_COUNTS(voxelize_counts_f16, F16)
WRITE_COUNTS(voxelize_counts_bf16, Bf16)
