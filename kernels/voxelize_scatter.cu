// Has the points of a cloud claim their voxels; kernels/voxels.cuh says how.
#include "voxels.cuh"

constexpr u32 THREADS = 1024;
constexpr u32 WARPS = THREADS / WARP;

// Written by the host: src/backend/cuda/voxelize/job.rs.
struct Scatter {
    Cloud cloud;
    Grid grid;
    Accumulators to;
    Counters* counters;
    const u32* sources;           // columns of the sums, then of the maxima
    float limits[INLINE_COLUMNS]; // of the first columns: the greatest magnitude that is taken
};

// A point that came after the first one of its voxel.
struct Later {
    u32 voxel;
    u32 point;
};

// The columns of a point, where these are words.
template <u32 COLUMNS>
struct Point {
    float at[COLUMNS == 0 ? 1 : COLUMNS];
};

template <u32 COLUMNS>
__device__ __forceinline__ Point<COLUMNS> load(const Scatter& job, u32 i) {
    Point<COLUMNS> point = {};
    if constexpr (COLUMNS != 0) {
        // One that is not there is a copy of the last one, and not looked at.
        const u8* bytes = Words::at(job.cloud, min(i, job.cloud.count - 1));
#pragma unroll
        for (u32 c = 0; c < COLUMNS; ++c) point.at[c] = Words::raw(job.cloud, bytes, c);
    }
    return point;
}

// Counts a point that is in no voxel.
__device__ __noinline__ void drop(u32* dropped, bool all_finite, bool inside) {
    const Drop reason = !all_finite ? DROP_NON_FINITE : !inside ? DROP_OUTSIDE : DROP_OUT_OF_RANGE;
    atomicAdd(&dropped[reason], 1u);
}

// The voxel of a point, or NONE, which is counted.
template <u32 COLUMNS>
__device__ __forceinline__ u32
locate(const Scatter& job, const float (&at)[COLUMNS], u32* dropped) {
    float base[3];
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) base[axis] = to_base(job.cloud, axis, at[0], at[1], at[2]);
    const u32 voxel = voxel_of(job.grid, base);
    // What is summed has a limit, and everything else is to be finite.
    bool in_limits = true;
#pragma unroll
    for (u32 c = 0; c < COLUMNS; ++c) {
        in_limits &= fabsf(c < 3 ? base[c < 3 ? c : 0] : at[c]) <= job.limits[c];
    }
    if (voxel != NONE && in_limits) return voxel;
    bool all_finite = true;
#pragma unroll
    for (u32 c = 0; c < COLUMNS; ++c) all_finite &= finite(at[c]);
    drop(dropped, all_finite, voxel != NONE);
    return NONE;
}

// The same for a point of any fields.
__device__ __forceinline__ u32 locate_fields(const Scatter& job, u32 i, u32* dropped) {
    const Cloud& cloud = job.cloud;
    bool all_finite = true;
    for (u32 c = 0; c < cloud.column_count; ++c) {
        all_finite &= finite(Fields::raw(cloud, Fields::at(cloud, i), c));
    }
    float base[3];
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) base[axis] = column<Fields>(cloud, i, axis);
    const u32 voxel = voxel_of(job.grid, base);
    bool in_range = true;
    for (u32 s = 0; s < job.to.sum_count; ++s) {
        in_range &= fabsf(column<Fields>(cloud, i, job.sources[s])) <= MAX_SUMMED;
    }
    if (all_finite && voxel != NONE && in_range) return voxel;
    drop(dropped, all_finite, voxel != NONE);
    return NONE;
}

// The voxel of point i, or NONE; its bin is noted as touched.
template <u32 COLUMNS>
__device__ __forceinline__ u32
take(const Scatter& job, u32 i, const Point<COLUMNS>& point, u32* touched, u32* dropped) {
    if (i >= job.cloud.count) return NONE;
    u32 voxel;
    if constexpr (COLUMNS != 0) voxel = locate(job, point.at, dropped);
    else voxel = locate_fields(job, i, dropped);
    if (voxel != NONE) {
        const u32 bin = voxel >> job.to.bin_shift;
        atomicOr(&touched[bin / WARP], 1u << bin % WARP);
    }
    return voxel;
}

// Lanes that are the first of a run of equal voxels.
__device__ __forceinline__ u32 run_heads(u32 voxel, u32 lane) {
    const u32 before = __shfl_up_sync(ALL_LANES, voxel, 1);
    return __ballot_sync(ALL_LANES, lane == 0 || before != voxel);
}

// The length of the run that starts at this lane.
__device__ __forceinline__ u32 run_length(u32 heads, u32 lane) {
    const u32 after = lane == WARP - 1 ? 0 : heads >> (lane + 1);
    return after == 0 ? WARP - lane : __ffs(after);
}

__device__ __forceinline__ void add_count(const Accumulators& all, u32 voxel, u32 lane) {
    const u32 heads = run_heads(voxel, lane);
    if (voxel == NONE || (heads >> lane & 1) == 0) return;
    atomicAdd(&all.claims[voxel], heads == ALL_LANES ? 1u : run_length(heads, lane));
}

// Claims the voxels of a warp for `point`; returns what a lane's claim was before, 0 for the first
// point of a voxel and for none.
__device__ __forceinline__ u32 claim(const Accumulators& all, u32 voxel, u32 point, u32 lane) {
    const u32 heads = run_heads(voxel, lane);
    if (voxel == NONE) return 0;
    if ((heads >> lane & 1) == 0) return SEVERAL;
    const bool alone = heads == ALL_LANES || run_length(heads, lane) == 1;
    return atomicCAS(&all.claims[voxel], 0u, alone ? point + 1 : (point + 1) | SEVERAL);
}

// Appends the lanes whose claim met an earlier one to the list of later points; returns how many
// these are now.
__device__ __forceinline__ u32 note_later(
    const Accumulators& all, u32 voxel, u32 before, u32 point, Later* later, u32 count, u32 lane) {
    const u32 mask = __ballot_sync(ALL_LANES, before != 0);
    if (before != 0) {
        if ((before & SEVERAL) == 0) atomicOr(&all.claims[voxel], SEVERAL);
        later[count + __popc(mask & ((1u << lane) - 1))] = {voxel, point};
    }
    return count + __popc(mask);
}

// Adds the values of later points. A run of them in one voxel is added as one.
template <u32 COLUMNS>
__device__ __forceinline__ void add_later(
    const Scatter& job, const Later* later, u32 count, u32 lane) {
    const Accumulators& all = job.to;
    const auto value = [&](u32 i, u32 source) {
        if constexpr (COLUMNS != 0) return column<Words>(job.cloud, later[i].point, source);
        else return column<Fields>(job.cloud, later[i].point, source);
    };
    // Neighbouring lanes add to neighbouring sums of one point.
    const u32 entries = 1 + all.sum_count + all.max_count;
    const u32 step = WARP / entries, rest = WARP % entries;
    u32 at = lane / entries, entry = lane % entries;
    __syncwarp();
#pragma unroll 1
    while (at < count) {
        const u32 voxel = later[at].voxel;
        if (at == 0 || later[at - 1].voxel != voxel) {
            u32 end = at + 1;
#pragma unroll 1
            while (end < count && later[end].voxel == voxel) ++end;
            if (entry == 0) {
                atomicAdd(&all.counts[voxel], end - at);
            } else if (entry <= all.sum_count) {
                const u32 source = job.sources[entry - 1];
                i64 sum = 0;
#pragma unroll 1
                for (u32 i = at; i < end; ++i) sum += fixed_point(value(i, source));
                u64* place = reinterpret_cast<u64*>(all.sums) +
                             (static_cast<u64>(voxel) << all.sum_shift) + entry - 1;
                if (sum != 0) atomicAdd(place, static_cast<u64>(sum));
            } else {
                const u32 source = job.sources[entry - 1];
                u32 greatest = 0;
#pragma unroll 1
                for (u32 i = at; i < end; ++i) greatest = max(greatest, ordered(value(i, source)));
                const u64 place =
                    static_cast<u64>(voxel) * all.max_count + entry - 1 - all.sum_count;
                atomicMax(&all.maxima[place], greatest);
            }
        }
        at += step;
        entry += rest;
        if (entry >= entries) {
            entry -= entries;
            ++at;
        }
    }
    __syncwarp();
}

// COLUMNS of words, or fields if 0; with values or counts alone.
template <u32 COLUMNS, bool VALUES>
__device__ __forceinline__ void scatter(const Scatter& job) {
    extern __shared__ u32 touched[]; // [bins / 32]: bits of bins
    __shared__ Later lists[VALUES ? WARPS : 1][2 * WARP];
    __shared__ u32 dropped[4];
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP;
    const u32 words = bin_words(job.to);
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += THREADS) touched[w] = 0;
    if (threadIdx.x < 4) dropped[threadIdx.x] = 0;
    __syncthreads();
    wait_for_earlier_kernels();
    const u32 stride = gridDim.x * THREADS;
    // Whole warps go on together. While the claim of one point is on its way, the next one is
    // loaded and located.
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    u32 count = 0, last_voxel = NONE, last_claim = 0;
    Later* later = lists[VALUES ? threadIdx.x / WARP : 0];
    Point<COLUMNS> next = load<COLUMNS>(job, i);
#pragma unroll 1
    for (; i - lane < job.cloud.count; i += stride) {
        const Point<COLUMNS> point = next;
        if (i - lane + stride < job.cloud.count) next = load<COLUMNS>(job, i + stride);
        const u32 voxel = take(job, i, point, touched, dropped);
        if constexpr (VALUES) {
            count = note_later(job.to, last_voxel, last_claim, i - stride, later, count, lane);
            last_voxel = voxel;
            last_claim = claim(job.to, voxel, i, lane);
            if (count > WARP) {
                add_later<COLUMNS>(job, later, count, lane);
                count = 0;
            }
        } else {
            add_count(job.to, voxel, lane);
        }
    }
    if constexpr (VALUES) {
        count = note_later(job.to, last_voxel, last_claim, i - stride, later, count, lane);
        add_later<COLUMNS>(job, later, count, lane);
    }
    __syncthreads();
#pragma unroll 1
    for (u32 w = threadIdx.x; w < words; w += THREADS) {
        if (touched[w] == 0) continue;
        atomicOr(mark_at(job.to, job.to.turn, w * COPIES + blockIdx.x % COPIES), touched[w]);
    }
    if (threadIdx.x < 4 && dropped[threadIdx.x] != 0) {
        atomicAdd(&job.counters->dropped[threadIdx.x], dropped[threadIdx.x]);
    }
}

#define SCATTER(NAME, COLUMNS, VALUES)                    \
    extern "C" __global__ void __launch_bounds__(THREADS) \
        NAME(const __grid_constant__ Scatter job) {       \
        scatter<COLUMNS, VALUES>(job);                    \
    }
SCATTER(voxelize_count_3, 3, false)
SCATTER(voxelize_count_any, 0, false)
SCATTER(voxelize_claim_3, 3, true)
SCATTER(voxelize_claim_4, 4, true)
SCATTER(voxelize_claim_5, 5, true)
SCATTER(voxelize_claim_6, 6, true)
SCATTER(voxelize_claim_7, 7, true)
SCATTER(voxelize_claim_any, 0, true)
