// Puts the points of a large cloud into buckets: for each tile and bin, the voxels of its points. README.md
// explains why.
#include "buckets.cuh"

namespace voxelize_fill_buckets {

constexpr u32 THREADS = 1024;
constexpr u32 WARPS = THREADS / WARP;
// From bucket to bucket in shared memory: padding puts them into different banks.
constexpr u32 PITCH = BUCKET + 8;

struct FillBuckets {
    Cloud cloud;
    Grid grid;
    Buckets to;
    Counters* counters;
    u32 inputs_ready; // whether no kernel that may still run writes the cloud
    u32 reserved;
};

// Voxels with more points than their bucket holds. A thread block counts them in shared memory, because atomics
// on one address of memory queue.
constexpr u32 SPILLED = 16;
struct Spilled {
    u32 first; // the first of them, 1 added: its points skip their bucket
    u32 voxels[SPILLED]; // 1 added
    u32 points[SPILLED];
};

// Adds points to a voxel whose bucket is full.
__device__ __noinline__ void spill(Spilled& spilled, const Buckets& to, u32 voxel, u32 points) {
    const u32 at = (voxel ^ voxel >> 7) % SPILLED;
    const u32 before = atomicCAS(&spilled.voxels[at], 0u, voxel + 1);
    if (before == 0) atomicCAS(&spilled.first, 0u, voxel + 1);
    if (before == 0 || before == voxel + 1) {
        atomicAdd(&spilled.points[at], points);
    } else {
        // The kernel before this one may still read what this writes.
        wait_for_earlier_kernels();
        atomicAdd(&to.counts[voxel], points);
    }
}

__device__ __forceinline__ u32 shared_address(const void* at) {
    return static_cast<u32>(__cvta_generic_to_shared(at));
}

// Starts to copy the points of this warp to shared memory. `bytes` is a multiple of 16.
__device__ __forceinline__ void start_copy(u64* arrived, u8* to, const u8* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrived)));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrived)),
                 "r"(bytes)
                 : "memory");
    if (bytes == 0) return;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(arrived))
        : "memory");
#endif
}
__device__ __forceinline__ void wait_for_copy(u64* arrived) {
#if __CUDA_ARCH__ >= 900
    u32 done;
    do {
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(shared_address(arrived))
                     : "memory");
    } while (done == 0);
#endif
}

// What is in shared memory, apart from the buckets and the points.
struct Shared {
    u64 arrived[WARPS]; // barriers of the copies
    u32 dropped[PLAIN_DROPS];
    Spilled spilled;
};

// With the address as one register: the compiler would compute a pointer again for each point.
__device__ __forceinline__ float load_shared(u32 at) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at));
    return value;
}

// The points of a warp, when the copy has arrived.
struct OwnPoints {
    u32 at; // in shared memory
    u32 count;
};
__device__ __forceinline__ OwnPoints fetch(const FillBuckets& job, u8* of_tile, u64* arrived) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 step = job.cloud.point_step, most = job.to.warp_points;
    const u32 first = (blockIdx.x * WARPS + warp) * most;
    const u32 count = first < job.cloud.count ? min(most, job.cloud.count - first) : 0;
    u8* to = of_tile + warp * most * step;
    const u8* from = job.cloud.points + static_cast<u64>(first) * step;
    const u32 bytes = count * step, bulk = bytes & ~15u;
    wait_for_inputs(job.inputs_ready);
    if (lane == 0) start_copy(&arrived[warp], to, from, bulk);
    // The last words of the cloud may be less than a bulk copy takes.
    for (u32 b = bulk + 4 * lane; b < bytes; b += 4 * WARP) {
        *reinterpret_cast<u32*>(to + b) = *reinterpret_cast<const u32*>(from + b);
    }
    return {shared_address(to), count};
}

// Counts points that are in no voxel, and those of the first spilled voxel. All lanes of a warp call it.
__device__ __forceinline__ void
add_of_warp(const FillBuckets& job, Shared& shared, u32 non_finite, u32 outside, u32 owned) {
    if (!__any_sync(ALL_LANES, (non_finite | outside | owned) != 0)) return;
#pragma unroll
    for (u32 d = WARP / 2; d > 0; d /= 2) {
        non_finite += __shfl_xor_sync(ALL_LANES, non_finite, d);
        outside += __shfl_xor_sync(ALL_LANES, outside, d);
        owned += __shfl_xor_sync(ALL_LANES, owned, d);
    }
    if (threadIdx.x % WARP != 0) return;
    if (non_finite != 0) atomicAdd(&shared.dropped[DROP_NON_FINITE], non_finite);
    if (outside != 0) atomicAdd(&shared.dropped[DROP_OUTSIDE], outside);
    if (owned != 0) spill(shared.spilled, job.to, shared.spilled.first - 1, owned);
}

// Puts the points of a warp into the buckets of the tile. All lanes of a warp call it.
__device__ __forceinline__ void
put_points(const FillBuckets& job, const OwnPoints& points, u16* buckets, u32* used, Shared& shared) {
    const u32 lane = threadIdx.x % WARP;
    const u32 step = job.cloud.point_step;
    u32 at = points.at + lane * step;
    u32 non_finite = 0, outside = 0, owned = 0;
#pragma unroll 1
    for (u32 i = lane; i - lane < points.count; i += WARP, at += WARP * step) {
        u32 voxel = NONE;
        if (i < points.count) {
            Coordinates<float> point;
#pragma unroll
            for (u32 c = 0; c < 3; ++c) {
                point.at[c] = load_shared(at + job.cloud.offsets[c]);
            }
            voxel = voxel_of(job.grid, from_origin(job.grid, to_base(job.cloud, point)).at);
            if (voxel == NONE) {
                const bool all = is_finite(point.at[0]) && is_finite(point.at[1]) && is_finite(point.at[2]);
                if (all) ++outside;
                else ++non_finite;
            }
        }
        bool is_full = false;
        if (voxel != NONE && *static_cast<volatile u32*>(&shared.spilled.first) == voxel + 1) {
            ++owned;
        } else if (voxel != NONE) {
            const u32 number = number_of(job.to, voxel);
            const u32 bin = number >> job.to.bin_shift;
            const u32 before = atomicAdd(&used[bin], 1u);
            is_full = before >= BUCKET_POINTS;
            u16* bucket = buckets + bin * PITCH;
            const u32 in_bin = number & ((1u << job.to.bin_shift) - 1);
            if (!is_full) bucket[place_in_bucket(before + 1)] = static_cast<u16>(in_bin);
        }
        if (__any_sync(ALL_LANES, is_full)) {
            const u32 peers = __match_any_sync(ALL_LANES, is_full ? voxel : NONE);
            if (is_full && lane == __ffs(peers) - 1) spill(shared.spilled, job.to, voxel, __popc(peers));
        }
    }
    add_of_warp(job, shared, non_finite, outside, owned);
}

// Takes the points of crowded voxels out of their buckets, too: otherwise each tile's would queue at one count of
// `voxelize_write_buckets`. One warp calls it, when no other one uses the buckets.
__device__ __noinline__ void
take_out_crowded(const Buckets& to, u16* buckets, u32* used, Spilled& spilled) {
    const u32 lane = threadIdx.x % WARP, before = (1u << lane) - 1;
    u32 crowded = __ballot_sync(ALL_LANES, lane < SPILLED && spilled.points[lane % SPILLED] >= BUCKET);
    for (; crowded != 0; crowded &= crowded - 1) {
        const u32 at = __ffs(crowded) - 1, voxel = spilled.voxels[at] - 1;
        const u32 number = number_of(to, voxel), bin = number >> to.bin_shift;
        const u32 in_bin = number & ((1u << to.bin_shift) - 1);
        u16* bucket = buckets + bin * PITCH;
        const u32 points = min(used[bin], BUCKET_POINTS);
        // Two numbers per lane.
        u32 own[BUCKET / WARP], kept = 0, masks[BUCKET / WARP];
#pragma unroll
        for (u32 k = 0; k < BUCKET / WARP; ++k) {
            const u32 i = 1 + lane + k * WARP;
            own[k] = i <= points ? bucket[place_in_bucket(i)] : in_bin;
            masks[k] = __ballot_sync(ALL_LANES, own[k] != in_bin);
        }
        __syncwarp();
#pragma unroll
        for (u32 k = 0; k < BUCKET / WARP; ++k) {
            const u32 i = 1 + kept + __popc(masks[k] & before);
            if ((masks[k] >> lane & 1) != 0) bucket[place_in_bucket(i)] = static_cast<u16>(own[k]);
            kept += __popc(masks[k]);
        }
        __syncwarp();
        if (lane == 0) {
            to.spilled[bin] = 1;
            spilled.points[at] += points - kept;
            used[bin] = kept;
        }
        __syncwarp();
    }
}

// Stores the buckets of the tile. Their unused parts keep what they have.
__device__ __forceinline__ void
store_buckets(const Buckets& to, const u16* buckets, const u32* used) {
    for (u32 i = threadIdx.x; i < to.bin_count * BUCKET_LANES; i += THREADS) {
        const u32 bin = i / BUCKET_LANES, part = i % BUCKET_LANES;
        const u32 points = min(used[bin], BUCKET_POINTS);
        if (part > points) continue;
        const u16* from = buckets + bin * PITCH + part * NUMBERS_PER_LANE;
        uint4 numbers = *reinterpret_cast<const uint4*>(from);
        if (part == 0) {
            numbers.x = (numbers.x & 0xFFFF0000u) | points;
            if (used[bin] > BUCKET_POINTS) to.spilled[bin] = 1;
        }
        const u64 bucket = static_cast<u64>(bin) * to.tiles + blockIdx.x;
        reinterpret_cast<uint4*>(to.all + bucket * BUCKET)[part] = numbers;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    voxelize_fill_buckets(const __grid_constant__ FillBuckets job) {
    extern __shared__ uint4 memory[];
    u16* buckets = reinterpret_cast<u16*>(memory);                          // [bins, PITCH]
    u32* used = reinterpret_cast<u32*>(buckets + job.to.bin_count * PITCH); // [bins]
    u8* of_tile = reinterpret_cast<u8*>(used + job.to.bin_count);           // the points of the tile
    __shared__ Shared shared;
    launch_later_kernels();
    const OwnPoints points = fetch(job, of_tile, shared.arrived);
    const u32 t = threadIdx.x;
    for (u32 bin = t; bin < job.to.bin_count; bin += THREADS) used[bin] = 0;
    if (t < PLAIN_DROPS) shared.dropped[t] = 0;
    if (t < SPILLED) shared.spilled.voxels[t] = shared.spilled.points[t] = 0;
    if (t == 0) shared.spilled.first = 0;
    __syncthreads();
    wait_for_copy(&shared.arrived[t / WARP]);
    put_points(job, points, buckets, used, shared);
    // From here on it writes memory that the kernel before this one may still read.
    wait_for_earlier_kernels();
    __syncthreads();
    if (shared.spilled.first != 0) {
        if (t < WARP) take_out_crowded(job.to, buckets, used, shared.spilled);
        __syncthreads();
    }
    store_buckets(job.to, buckets, used);
    if (t < SPILLED && shared.spilled.points[t] != 0) {
        atomicAdd(&job.to.counts[shared.spilled.voxels[t] - 1], shared.spilled.points[t]);
    }
    add_dropped<PLAIN_DROPS>(job.counters->dropped, shared.dropped);
}

} // namespace voxelize_fill_buckets
