// Rows of voxels, as `voxelize_write_counts` and `voxelize_reduce` write them: channels, elements,
// and the voxel blocks that are occupied. Also the points that are in no voxel. README.md explains
// the words.
#pragma once
#include "points.cuh"

// Voxels of a voxel block: they follow each other in the row, and are written together.
constexpr u32 VOXEL_BLOCK = 32;
// Voxels that a lane writes: they follow each other in the row.
constexpr u32 VOXELS_PER_LANE = 8;

// ---- Points that are in no voxel ----------------------------------------------------------------

// Why a point is in no voxel.
enum Drop : u32 {
    DROP_NON_FINITE = 0,
    DROP_OUT_OF_RANGE = 1,
    DROP_OUTSIDE = 2,
    DROP_NOT_SWEPT = 3, // also counted as not finite
    // Only sifted clouds have these.
    DROP_OUT_OF_REACH = 4,
    DROP_CROPPED = 5,
    DROP_ON_ROBOT = 6,
    DROP_TOO_FEW = 7,
};
// Reasons of clouds that are not sifted, and all reasons.
constexpr u32 PLAIN_DROPS = 4;
constexpr u32 DROPS = 8;

struct Counters {
    u32 dropped[PLAIN_DROPS]; // by `Drop`
};

// The counters of a sifted cloud. They start with those of any other one.
struct Tally {
    u32 dropped[DROPS]; // by `Drop`
    u32 listed;         // voxels in the list
    u32 reserved[3];
};
__device__ __forceinline__ u32* drops_of(Counters* counters) {
    return counters->dropped;
}
__device__ __forceinline__ u32* drops_of(Tally* tally) {
    return tally->dropped;
}

// What the host reads when the cloud is done.
struct alignas(8) Report {
    Counters counters;
    u32 beyond; // 1 + a channel with a value that the element type cannot hold
    u32 beyond_bits;
    // Only sifted clouds have these.
    u32 left_out[DROPS - PLAIN_DROPS];
    u32 voxels; // occupied ones, of a sparse row
    u32 reserved;
};

// Counts a point that is in no voxel.
__device__ __noinline__ void drop(u32* dropped, bool all_finite, bool inside) {
    const Drop reason = !all_finite ? DROP_NON_FINITE : !inside ? DROP_OUTSIDE : DROP_OUT_OF_RANGE;
    atomicAdd(&dropped[reason], 1u);
}

// The drops of a thread's points in one word, DROP_BITS for each of the first three reasons. So a warp may have up
// to 1,023 points.
constexpr u32 DROP_BITS = 10;
__device__ __forceinline__ u32 one_drop(bool all_finite, bool inside) {
    const Drop reason = !all_finite ? DROP_NON_FINITE : !inside ? DROP_OUTSIDE : DROP_OUT_OF_RANGE;
    return 1u << DROP_BITS * reason;
}

// Counts the drops of a warp at once. All its lanes call it.
__device__ __forceinline__ void add_drops_of_warp(u32* dropped, u32 drops) {
    if (!__any_sync(ALL_LANES, drops != 0)) return;
#pragma unroll
    for (u32 d = WARP / 2; d > 0; d /= 2) drops += __shfl_xor_sync(ALL_LANES, drops, d);
    const u32 reason = threadIdx.x % WARP;
    if (reason >= PLAIN_DROPS - 1) return;
    const u32 points = drops >> DROP_BITS * reason & ((1u << DROP_BITS) - 1);
    if (points != 0) atomicAdd(&dropped[reason], points);
}

// Adds a block's drops to those of the cloud.
template <u32 COUNT>
__device__ __forceinline__ void add_dropped(u32* all, const u32* dropped) {
    if (threadIdx.x < COUNT && dropped[threadIdx.x] != 0) {
        atomicAdd(&all[threadIdx.x], dropped[threadIdx.x]);
    }
}

// Hands the drops to the host and zeros them for the next cloud. One thread calls it, and waits for
// a read of device memory. The host sets its report to zero before, because a write to its memory
// takes longer.
__device__ __forceinline__ void report_dropped(Report* report, Counters* counters) {
    const Counters all = *counters;
    if ((all.dropped[0] | all.dropped[1] | all.dropped[2]) == 0) return;
    report->counters = all;
    *counters = Counters{};
}

// The same for a sifted cloud.
__device__ __forceinline__ void report_tally(Report* report, Tally* tally, u32 voxels) {
    const Tally all = *tally;
#pragma unroll
    for (u32 i = 0; i < PLAIN_DROPS; ++i) report->counters.dropped[i] = all.dropped[i];
#pragma unroll
    for (u32 i = PLAIN_DROPS; i < DROPS; ++i) report->left_out[i - PLAIN_DROPS] = all.dropped[i];
    report->voxels = voxels;
    *tally = Tally{};
}

// ---- Channels -----------------------------------------------------------------------------------

enum ChannelKind : u32 {
    CHANNEL_COUNT,
    CHANNEL_OCCUPANCY,
    CHANNEL_MEAN,
    CHANNEL_MAX,
    // Only sifted clouds have these.
    CHANNEL_MIN,
    CHANNEL_SUM,
    CHANNEL_LAST,
};

struct Channel {
    u32 kind;
    u32 column;  // of its values, or NONE
    float limit; // the greatest magnitude of these values
    u32 place;   // if the kind is CHANNEL_LAST: number among those of this kind
};

// Channels that the launch parameters hold.
constexpr u32 INLINE_CHANNELS = 8;

struct Channels {
    const Channel* more; // from INLINE_CHANNELS on
    u32 count;
    u32 reserved;
    Channel first[INLINE_CHANNELS];
};

__device__ __forceinline__ Channel channel_at(const Channels& channels, u32 c) {
    return c < INLINE_CHANNELS ? channels.first[c] : channels.more[c - INLINE_CHANNELS];
}

// Reports to the host a value that the element type cannot hold. One access writes both words, so
// that the host reads the channel and the value of the same voxel.
__device__ __noinline__ void report_beyond(Report* report, u32 channel, float value) {
    *reinterpret_cast<volatile u64*>(&report->beyond) =
        static_cast<u64>(__float_as_uint(value)) << 32 | (channel + 1);
}

// A value as the row holds it. Reports one that the element type cannot hold.
template <class Out>
__device__ __forceinline__ Out element(Report* report, u32 channel, float value) {
    if constexpr (!SAME<Out, F32>) {
        if (fabsf(value) >= BEYOND<Out>) report_beyond(report, channel, value);
    }
    Out out;
    from_float(value, out);
    return out;
}

// Writes a lane's elements of a channel. `elements` is at a multiple of 16 bytes.
template <class Out>
__device__ __forceinline__ void write_elements(
    void* row, u32 volume, u32 channel, u32 voxel, const Out* elements) {
    Out* to = static_cast<Out*>(row) + static_cast<u64>(channel) * volume + voxel;
    if (volume % VOXELS_PER_LANE == 0) {
        constexpr u32 PACK = 16 / sizeof(Out);
        if (voxel >= volume) return;
#pragma unroll
        for (u32 i = 0; i < VOXELS_PER_LANE; i += PACK) {
            __stcs(reinterpret_cast<uint4*>(to + i), *reinterpret_cast<const uint4*>(elements + i));
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < VOXELS_PER_LANE; ++i) {
            if (voxel + i < volume) to[i] = elements[i];
        }
    }
}

// A bit for each voxel block of a warp: set if at least one of its four lanes is occupied (`some`).
__device__ __forceinline__ u32 voxel_blocks_of(bool some) {
    u32 bits = __ballot_sync(ALL_LANES, some);
    bits |= bits >> 1;
    bits |= bits >> 2;
    bits &= 0x11111111u;
    // From every fourth place to places side by side.
    bits = (bits | bits >> 3) & 0x03030303u;
    bits = (bits | bits >> 6) & 0x000F000Fu;
    return (bits | bits >> 12) & 0xFFu;
}
