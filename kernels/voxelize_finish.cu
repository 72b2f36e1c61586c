// Writes a cloud whose points have claimed their voxels into a row; kernels/voxels.cuh says how.
#include "voxels.cuh"

constexpr u32 THREADS = 128;
constexpr u32 WARPS = THREADS / WARP;
// Blocks of a multiprocessor: more of them are slower, as they get fewer registers.
constexpr u32 BLOCKS_AT_ONCE = 8;
constexpr u32 BRICK = 32;
// log2 of the voxels of a unit, which is what a warp takes: 8 bricks.
constexpr u32 UNIT_SHIFT = 8;
constexpr u32 UNIT = 1 << UNIT_SHIFT;
constexpr u32 BRICKS = UNIT / BRICK;
// Voxels of a lane, in a row.
constexpr u32 PER_LANE = UNIT / WARP;
// Channels that a warp has in shared memory at once; a power of two.
constexpr u32 GROUP = 4;
// Values that a lane has under way at once.
constexpr u32 UNROLL = 4;

enum ChannelKind : u32 { CHANNEL_COUNT, CHANNEL_OCCUPANCY, CHANNEL_MEAN, CHANNEL_MAX };

// The structures of this file are written by the host: src/backend/cuda/voxelize/job.rs.
struct Channel {
    u32 kind;
    u32 column; // of its values; any where it has none
    u32 entry;  // which sum or maximum
    u32 offset; // of the column in a point
};

// What the host reads when the cloud is done.
struct alignas(8) Report {
    Counters counters;
    u32 beyond; // 1 + a channel with a value that the element type cannot hold
    u32 beyond_bits;
};

// Channels that the launch parameters have room for.
constexpr u32 INLINE_CHANNELS = 8;

struct Finish {
    Cloud cloud;
    Accumulators from;
    u8* held;            // [units]: which bricks of the row hold something
    const Channel* more; // channels from INLINE_CHANNELS on
    void* row;           // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 channel_count;
    u32 volume;
    Channel first[INLINE_CHANNELS];
};

__device__ __forceinline__ Channel channel_at(const Finish& job, u32 c) {
    return c < INLINE_CHANNELS ? job.first[c] : job.more[c - INLINE_CHANNELS];
}

// The occupied voxels of a unit. An item is a claim whose lower 23 bits, 1 + the first point, stand 8
// places higher, above the voxel in the unit; its highest bit still is SEVERAL.
struct Occupied {
    u32 items[UNIT];
    u16 several[UNIT]; // which of the items have later points
};

struct Found {
    u32 count;
    u32 several;
    u32 bricks; // a bit for each that has something
};

__device__ __forceinline__ u32 voxel_of(u32 item) {
    return item & (UNIT - 1);
}
__device__ __forceinline__ u32 point_of(u32 item) {
    return ((item & ~SEVERAL) >> UNIT_SHIFT) - 1;
}

template <class Out>
struct alignas(16) Tile {
    Out at[GROUP][UNIT];
};

// A value that the element type cannot hold, if there was one.
struct Beyond {
    float value;

    template <class Out>
    __device__ __forceinline__ Out element(float value) {
        if constexpr (!SAME<Out, F32>) {
            if (fabsf(value) >= BEYOND<Out>) this->value = value;
        }
        Out out;
        from_float(value, out);
        return out;
    }

    // Any one of them will do, whole.
    __device__ __forceinline__ void report(const Finish& job, u32 channel) const {
        if (value == 0.0f) return;
        *reinterpret_cast<volatile u64*>(&job.report->beyond) =
            static_cast<u64>(__float_as_uint(value)) << 32 | (channel + 1);
    }
};

// The mean as f32 of the quotient in double. Division by a power of two is exact as a
// multiplication. Up to 2^51, an integer becomes a double by an addition, which is quicker than the
// conversion.
__device__ __forceinline__ float mean(i64 sum, u32 count) {
    const double total = count <= 2048
                             ? __longlong_as_double(sum + __double_as_longlong(ROUNDER)) - ROUNDER
                             : static_cast<double>(sum);
    if ((count & (count - 1)) == 0) {
        const i64 exponent = 1023 - 20 - (31 - __clz(count));
        return static_cast<float>(total * __longlong_as_double(exponent << 52));
    }
    return static_cast<float>(total / (static_cast<double>(count) * ONE));
}

// The mean of one value: its fixed point, of which an f32 holds all.
__device__ __forceinline__ float mean_of_one(float value) {
    return rintf(value * static_cast<float>(ONE)) * static_cast<float>(1.0 / ONE) + 0.0f;
}

// The value of a channel for a point.
template <bool FAST>
__device__ __forceinline__ float value_of(const Finish& job, const Channel& channel, u32 point) {
    if constexpr (FAST) {
        // All bytes of the cloud are within 32 bits of its first one.
        return *reinterpret_cast<const float*>(
            job.cloud.points + channel.offset + point * job.cloud.point_step);
    } else {
        if (channel.kind != CHANNEL_MEAN && channel.kind != CHANNEL_MAX) return 0.0f;
        return column<Fields>(job.cloud, point, channel.column);
    }
}

// The value of a channel in a voxel with one point.
__device__ __forceinline__ float evaluate_one(const Channel& channel, float value) {
    return channel.kind == CHANNEL_MEAN  ? mean_of_one(value)
           : channel.kind == CHANNEL_MAX ? value + 0.0f
                                         : 1.0f;
}

// What a voxel with later points holds of a channel.
struct Held {
    float value; // of the first point
    u32 count;   // of later points
    u64 more;    // their sum, or the greatest of them
};

template <bool FAST>
__device__ __forceinline__ Held
fetch_several(const Finish& job, const Channel& channel, u32 first, u32 item) {
    const Accumulators& all = job.from;
    const u64 voxel = first + voxel_of(item);
    Held held = {value_of<FAST>(job, channel, point_of(item)), all.counts[voxel], 0};
    if (channel.kind == CHANNEL_MEAN) {
        held.more = static_cast<u64>(all.sums[(voxel << all.sum_shift) + channel.entry]);
    } else if (channel.kind == CHANNEL_MAX) {
        held.more = all.maxima[voxel * all.max_count + channel.entry];
    }
    return held;
}

__device__ __forceinline__ float evaluate_several(const Channel& channel, const Held& held) {
    if (channel.kind == CHANNEL_OCCUPANCY) return 1.0f;
    if (channel.kind == CHANNEL_COUNT) return static_cast<float>(1 + held.count);
    if (channel.kind == CHANNEL_MAX)
        return unordered(max(static_cast<u32>(held.more), ordered(held.value)));
    return mean(static_cast<i64>(held.more) + fixed_point(held.value), 1 + held.count);
}

// Returns to zero what later points have added to voxels.
__device__ __forceinline__ void clear_several(
    const Accumulators& all, u32 first, const Occupied& occupied, u32 count, u32 lane) {
#pragma unroll 1
    for (u32 i = lane; i < count; i += WARP) {
        const u64 voxel = first + voxel_of(occupied.items[occupied.several[i]]);
        all.counts[voxel] = 0;
#pragma unroll 1
        for (u32 s = 0; s < all.sum_count; ++s) all.sums[(voxel << all.sum_shift) + s] = 0;
#pragma unroll 1
        for (u32 m = 0; m < all.max_count; ++m) all.maxima[voxel * all.max_count + m] = 0;
    }
}

// Writes a lane's elements of a channel.
template <class Out>
__device__ __forceinline__ void write_elements(
    const Finish& job, u32 channel, u32 voxel, const Out (&elements)[PER_LANE]) {
    Out* row = static_cast<Out*>(job.row) + static_cast<u64>(channel) * job.volume + voxel;
    if (job.volume % PER_LANE == 0) {
        constexpr u32 PACK = 16 / sizeof(Out);
        if (voxel >= job.volume) return;
#pragma unroll
        for (u32 i = 0; i < PER_LANE; i += PACK) {
            __stcs(
                reinterpret_cast<uint4*>(row + i), *reinterpret_cast<const uint4*>(elements + i));
        }
    } else {
#pragma unroll
        for (u32 i = 0; i < PER_LANE; ++i) {
            if (voxel + i < job.volume) row[i] = elements[i];
        }
    }
}

// Takes the claims of a unit, and returns them to zero; lists the occupied voxels.
__device__ __forceinline__ Found take_claims(u32* claims, Occupied& occupied, u32 lane) {
    u32 own[BRICKS];
    claims += lane;
#pragma unroll
    for (u32 b = 0; b < BRICKS; ++b) own[b] = claims[b * BRICK];
    const u32 earlier = (1u << lane) - 1;
    u32 count = 0, several = 0, bricks = 0;
#pragma unroll
    for (u32 b = 0; b < BRICKS; ++b) {
        const bool is_some = own[b] != 0;
        const u32 some = __ballot_sync(ALL_LANES, is_some);
        if (is_some) claims[b * BRICK] = 0;
        const u32 item = (own[b] << UNIT_SHIFT | (own[b] & SEVERAL)) + b * BRICK + lane;
        const u32 place = count + __popc(some & earlier);
        if (is_some) occupied.items[place] = item;
        const bool is_several = (own[b] & SEVERAL) != 0;
        const u32 more = __ballot_sync(ALL_LANES, is_several);
        if (is_several) occupied.several[several + __popc(more & earlier)] = place;
        several += __popc(more);
        count += __popc(some);
        if (some != 0) bricks |= 1u << b;
    }
    return {count, several, bricks};
}

// Puts `group` channels, from number `from` on, of the occupied voxels into the tile.
template <class Out, bool FAST>
__device__ __forceinline__ void fill_tile(
    const Finish& job, u32 from, u32 group, u32 first, const Occupied& occupied, const Found& found,
    Tile<Out>& tile, u32 lane) {
    // A lane stays with one channel, the lanes of an item stand side by side.
    const u32 shift = group == 1 ? 0 : group == 2 ? 1 : 2;
    const u32 c = lane & ((1u << shift) - 1);
    if (c >= group) return;
    const Channel channel = channel_at(job, from + c);
    const u32 step = WARP >> shift;
    Out* out = tile.at[c];
    Beyond beyond = {0.0f};
    // Mostly these are all: what they take a while to fetch is asked for before the rest.
    u32 at = lane >> shift;
    u32 item = NONE;
    Held held;
    if (at < found.several) {
        item = occupied.items[occupied.several[at]];
        held = fetch_several<FAST>(job, channel, first, item);
    }
#pragma unroll 1
    for (u32 i = lane >> shift; i < found.count; i += step * UNROLL) {
        u32 items[UNROLL];
        float values[UNROLL];
        // What is beyond the end is the last one once more, and not written.
#pragma unroll
        for (u32 u = 0; u < UNROLL; ++u)
            items[u] = occupied.items[min(i + u * step, found.count - 1)];
#pragma unroll
        for (u32 u = 0; u < UNROLL; ++u)
            values[u] = value_of<FAST>(job, channel, point_of(items[u]));
#pragma unroll
        for (u32 u = 0; u < UNROLL; ++u) {
            // Those with later points follow below: one value may be beyond what their mean is.
            if (i + u * step >= found.count || (items[u] & SEVERAL) != 0) continue;
            out[voxel_of(items[u])] = beyond.element<Out>(evaluate_one(channel, values[u]));
        }
    }
#pragma unroll 1
    while (at < found.several) {
        out[voxel_of(item)] = beyond.element<Out>(evaluate_several(channel, held));
        at += step;
        if (at >= found.several) break;
        item = occupied.items[occupied.several[at]];
        held = fetch_several<FAST>(job, channel, first, item);
    }
    beyond.report(job, from + c);
}

// Writes a unit; returns its bricks.
template <class Out, bool FAST>
__device__ __forceinline__ u32 write_values(
    const Finish& job, bool now, u32 held, u32 first, Occupied& occupied, Tile<Out>& tile,
    u32 lane) {
    Found found = {0, 0, 0};
    if (now) found = take_claims(job.from.claims + first, occupied, lane);
    const bool write = ((found.bricks | held) >> lane / (BRICK / PER_LANE) & 1) != 0;
    Out* own = &tile.at[0][lane * PER_LANE];
#pragma unroll 1
    for (u32 from = 0; from < job.channel_count; from += GROUP) {
        const u32 group = min(GROUP, job.channel_count - from);
#pragma unroll
        for (u32 c = 0; c < GROUP; ++c) {
#pragma unroll
            for (u32 i = 0; i < PER_LANE * sizeof(Out) / 16; ++i) {
                reinterpret_cast<uint4*>(own + c * UNIT)[i] = make_uint4(0, 0, 0, 0);
            }
        }
        __syncwarp();
        fill_tile<Out, FAST>(job, from, group, first, occupied, found, tile, lane);
        __syncwarp();
        if (write) {
#pragma unroll
            for (u32 c = 0; c < GROUP; ++c) {
                if (c >= group) break;
                alignas(16) Out elements[PER_LANE];
#pragma unroll
                for (u32 i = 0; i < PER_LANE * sizeof(Out) / 16; ++i) {
                    reinterpret_cast<uint4*>(elements)[i] =
                        reinterpret_cast<const uint4*>(own + c * UNIT)[i];
                }
                write_elements(job, from + c, first + lane * PER_LANE, elements);
            }
        }
        __syncwarp();
    }
    clear_several(job.from, first, occupied, found.several, lane);
    __syncwarp();
    return found.bricks;
}

// A bit for each brick of which one of four lanes has something.
__device__ __forceinline__ u32 bricks_of(bool some) {
    u32 bits = __ballot_sync(ALL_LANES, some);
    bits |= bits >> 1;
    bits |= bits >> 2;
    bits &= 0x11111111u;
    // From every fourth place to places side by side.
    bits = (bits | bits >> 3) & 0x03030303u;
    bits = (bits | bits >> 6) & 0x000F000Fu;
    return (bits | bits >> 12) & 0xFFu;
}

// Writes a unit whose claims are counts, and returns them to zero; returns its bricks.
template <class Out>
__device__ __forceinline__ u32
write_counts(const Finish& job, bool now, u32 held, u32 first, u32 lane) {
    uint4* claims = reinterpret_cast<uint4*>(job.from.claims + first + lane * PER_LANE);
    uint4 fours[2] = {make_uint4(0, 0, 0, 0), make_uint4(0, 0, 0, 0)};
    static_assert(PER_LANE == 8);
    if (now) {
        fours[0] = claims[0];
        fours[1] = claims[1];
    }
    const u32 own[PER_LANE] = {fours[0].x, fours[0].y, fours[0].z, fours[0].w,
                               fours[1].x, fours[1].y, fours[1].z, fours[1].w};
    const bool some[2] = {
        (own[0] | own[1] | own[2] | own[3]) != 0, (own[4] | own[5] | own[6] | own[7]) != 0};
    if (some[0]) claims[0] = make_uint4(0, 0, 0, 0);
    if (some[1]) claims[1] = make_uint4(0, 0, 0, 0);
    const u32 bricks = bricks_of(some[0] || some[1]);
    if (((bricks | held) >> lane / (BRICK / PER_LANE) & 1) == 0) return bricks;
#pragma unroll 1
    for (u32 c = 0; c < job.channel_count; ++c) {
        const bool count = channel_at(job, c).kind == CHANNEL_COUNT;
        alignas(16) Out elements[PER_LANE];
        Beyond beyond = {0.0f};
#pragma unroll
        for (u32 i = 0; i < PER_LANE; ++i) {
            elements[i] = beyond.element<Out>(static_cast<float>(count ? own[i] : own[i] != 0));
        }
        beyond.report(job, c);
        write_elements(job, c, first + lane * PER_LANE, elements);
    }
    return bricks;
}

enum How { COUNTS, WORDS, FIELDS };

template <class Out, How HOW>
__device__ __forceinline__ void finish(const Finish& job) {
    __shared__ Occupied occupied[HOW == COUNTS ? 1 : WARPS];
    __shared__ Tile<Out> tiles[HOW == COUNTS ? 1 : WARPS];
    launch_later_kernels();
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u32 units = (job.volume + UNIT - 1) / UNIT;
    const u32 bin_shift = job.from.bin_shift - UNIT_SHIFT;
    wait_for_earlier_kernels();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        job.report->counters = *job.counters;
        *job.counters = Counters{};
    }
    // The other half of the marks is the next cloud's.
    const u32 words = mark_words(job.from);
    for (u32 w = blockIdx.x * THREADS + threadIdx.x; w < words; w += gridDim.x * THREADS) {
        *mark_at(job.from, job.from.turn ^ 1, w) = 0;
    }
    for (u32 unit = blockIdx.x * WARPS + warp; unit < units; unit += gridDim.x * WARPS) {
        const u32 bin = unit >> bin_shift;
        const u32 held = job.held[unit];
        const u32 mark = *mark_at(job.from, job.from.turn, bin / WARP * COPIES + lane % COPIES);
        const bool now = __any_sync(ALL_LANES, mark >> bin % WARP & 1);
        if (!now && held == 0) continue;
        const u32 first = unit << UNIT_SHIFT;
        u32 bricks;
        if constexpr (HOW == COUNTS) bricks = write_counts<Out>(job, now, held, first, lane);
        else
            bricks = write_values<Out, HOW == WORDS>(
                job, now, held, first, occupied[warp], tiles[warp], lane);
        if (lane == 0 && bricks != held) job.held[unit] = bricks;
    }
}

#define FINISH(NAME, OUT, HOW)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE) \
        NAME(const __grid_constant__ Finish job) {                        \
        finish<OUT, HOW>(job);                                            \
    }
FINISH(voxelize_counts_f32, F32, COUNTS)
FINISH(voxelize_counts_f16, F16, COUNTS)
FINISH(voxelize_counts_bf16, Bf16, COUNTS)
FINISH(voxelize_words_f32, F32, WORDS)
FINISH(voxelize_words_f16, F16, WORDS)
FINISH(voxelize_words_bf16, Bf16, WORDS)
FINISH(voxelize_fields_f32, F32, FIELDS)
FINISH(voxelize_fields_f16, F16, FIELDS)
FINISH(voxelize_fields_bf16, Bf16, FIELDS)
