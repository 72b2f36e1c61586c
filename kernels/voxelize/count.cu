// Adds the points of a cloud to the counts of the grid, and notes which bins it touches.
// README.md explains why.
#include "counts.cuh"

namespace voxelize_count {

constexpr u32 THREADS = 1024;
// Points that a thread has under way at once.
constexpr int UNROLL = 4;

struct Count {
    Cloud cloud;
    Grid grid;
    Counted to;
    Counters* counters;
    u32 inputs_ready; // whether no kernel that may still run writes the cloud
    u32 reserved;
};

// The coordinates of point i. Beyond the last point, they are those of the last point.
template <class Layout>
__device__ __forceinline__ Coordinates<typename Layout::Number> load(const Count& job, u32 i) {
    return coordinates<Layout>(job.cloud, Layout::at(job.cloud, min(i, job.cloud.count - 1)));
}

// The voxel of point i, or NONE, which is counted as a drop. Notes the bin as touched.
template <class Number>
__device__ __forceinline__ u32
take(const Count& job, u32 i, const Coordinates<Number>& point, u32* touched, u32* dropped) {
    if (i >= job.cloud.count) return NONE;
    const u32 voxel = voxel_of(job.grid, from_origin(job.grid, to_base(job.cloud, point)).at);
    if (voxel == NONE) {
        drop(dropped, is_finite(point.at[0]) && is_finite(point.at[1]) && is_finite(point.at[2]), false);
    } else {
        const u32 bin = voxel >> job.to.bin_shift;
        atomicOr(&touched[bin / WARP], 1u << bin % WARP);
    }
    return voxel;
}

template <class Layout>
__device__ __forceinline__ void count(const Count& job) {
    extern __shared__ u32 touched[]; // [bins / 32]: bits of bins
    __shared__ u32 dropped[4];
    __shared__ OwnVoxel own;
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP;
    const u32 words = bin_words(job.to);
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += THREADS) touched[w] = 0;
    if (threadIdx.x < 4) dropped[threadIdx.x] = 0;
    if (threadIdx.x == 0) own = {0, 0};
    __syncthreads();
    wait_for_inputs(job.inputs_ready);
    const u32 stride = gridDim.x * THREADS;
    // Whole warps go on together.
    const u32 first = blockIdx.x * THREADS + threadIdx.x - lane;
    bool waits = true;
#pragma unroll 1
    for (u32 base = first; base < job.cloud.count; base += UNROLL * stride) {
        Coordinates<typename Layout::Number> points[UNROLL];
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            if (base + k * stride < job.cloud.count) points[k] = load<Layout>(job, base + k * stride + lane);
        }
        // From here on it writes memory that the kernel before this one may still read.
        if (waits) wait_for_earlier_kernels();
        waits = false;
#pragma unroll
        for (int k = 0; k < UNROLL; ++k) {
            const u32 of_warp = base + k * stride;
            if (of_warp >= job.cloud.count) break;
            const u32 voxel = take(job, of_warp + lane, points[k], touched, dropped);
            const u32 added = points_to_add(own, voxel, lane);
            if (added != 0) atomicAdd(&job.to.counts[voxel], added);
        }
    }
    if (waits) wait_for_earlier_kernels();
    __syncthreads();
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += THREADS) {
        if (touched[w] == 0) continue;
        const u32 copy = blockIdx.x % TOUCHED_COPIES;
        atomicOr(touched_at(job.to, job.to.phase, w * TOUCHED_COPIES + copy), touched[w]);
    }
    if (threadIdx.x == 0 && own.points != 0) atomicAdd(&job.to.counts[own.voxel - 1], own.points);
    add_dropped<PLAIN_DROPS>(job.counters->dropped, dropped);
}

#define COUNT(NAME, LAYOUT)                                     \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        NAME(const __grid_constant__ Count job) {               \
        count<LAYOUT>(job);                                     \
    }
COUNT(voxelize_count_f32_points, F32Points)
COUNT(voxelize_count_any_points, AnyPoints)
COUNT(voxelize_count_wide_points, WidePoints)

} // namespace voxelize_count
