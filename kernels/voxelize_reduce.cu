// Reduces a sorted cloud, unit by unit, and writes it into a row; kernels/voxels.cuh says what for.
//
// Most voxels hold one point or none. A block counts the points of its unit per voxel, puts the values
// of lone points straight into the tile, adds those of voxels with several to accumulators, one for
// each such voxel, and writes the tile. Points stay in registers if they are as few as they mostly are.
// A unit with so many points or voxels that counts or lists would not hold them takes another way
// (`reduce_crowd`): accumulators for all voxels, a part of the unit at a time.
#include "voxels.cuh"

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / WARP;
// Points that a thread holds, and those of a block.
constexpr u32 SLOTS = 5;
constexpr u32 CHUNK = SLOTS * THREADS;
// Most points of a unit that counts of 16 bits hold.
constexpr u32 MOST_POINTS = 0xFFFF;
// Voxels with several points that are listed, and the channels of them that have accumulators at once.
constexpr u32 LISTED = 2048;
constexpr u32 ACCUMULATORS = 2048;
// Tiles whose runs are listed at once: one per thread.
constexpr u32 TILES = THREADS;
// Words with a bit for each brick of the largest unit.
constexpr u32 BRICK_WORDS = 8;

// Written by the host: src/backend/cuda/voxelize/job.rs.
struct Reduce {
    Bins bins;
    Sorted from;
    Channels channels;
    u32* held; // [units, bricks / 32]: which bricks of the row hold something
    void* row; // [channels, volume]
    Counters* counters;
    Report* report; // pinned host memory
    u32 volume;
    u32 all_means; // whether all channels are means, SLICE of them
};

// Channels that a block has in shared memory at once.
template <class Out>
constexpr u32 GROUP = 8 / sizeof(Out);

// What a point has for a group.
template <class Out>
struct alignas(4 * GROUP<Out>) Values {
    float at[GROUP<Out>];
};

// The runs of a unit's bin: point i of them is the `from[r] + i`th of all for the last run r with
// `before[r] <= i`.
struct Runs {
    u32 before[TILES];
    u32 from[TILES];
};

// A voxel with several points. Its count in the unit becomes LISTED_BIT and its place in the list.
struct Several {
    u16 voxel;
    u16 count;
};
constexpr u32 LISTED_BIT = 0x8000u;

struct Shared {
    Runs runs;
    u32 held[BRICK_WORDS]; // bricks of the row before
    u32 now[BRICK_WORDS];  // and of this cloud
    u32 warp_sums[WARPS];
    u32 several; // voxels with several points
    u32 wanted;  // parts of the unit that have points
    u32 reserved[2];
    Several list[LISTED];
};

// Zeros words of shared memory, four at a time.
template <u32 FOURS>
__device__ __forceinline__ void clear_memory(void* memory) {
    constexpr u32 WHOLE = FOURS / THREADS * THREADS;
    uint4* own = static_cast<uint4*>(memory) + threadIdx.x;
    if constexpr (WHOLE != 0) {
#pragma unroll
        for (u32 i = 0; i < WHOLE; i += THREADS) own[i] = make_uint4(0, 0, 0, 0);
    }
    if constexpr (WHOLE != FOURS) {
        if (threadIdx.x < FOURS - WHOLE) own[WHOLE] = make_uint4(0, 0, 0, 0);
    }
}

// What else is in shared memory, for units of up to VOXELS voxels.
template <class Out, u32 VOXELS>
struct Unit {
    // Elements of the tile from channel to channel: padding keeps them in different banks.
    static constexpr u32 STRIDE = VOXELS + 32 / sizeof(Out);

    Shared shared;
    u16 counts[VOXELS]; // of points per voxel
    Out tile[GROUP<Out>][STRIDE];
    // Of the channels of listed voxels: sums, or maxima in the lower half.
    u32 lower[ACCUMULATORS];
    u32 upper[ACCUMULATORS];

    __device__ __forceinline__ void clear_tile() {
        clear_memory<sizeof(tile) / 16>(tile);
    }

    __device__ __forceinline__ void clear_all() {
        clear_memory<sizeof(counts) / 16>(counts);
        clear_tile();
    }
};

// The first voxel of brick `brick` of a unit.
__device__ __forceinline__ u32 voxel_at(const Reduce& job, u32 brick) {
    const u32 number = (blockIdx.x << job.bins.unit_shift) / BRICK + brick;
    return unspread(job.bins, number) * BRICK;
}

// ---- Means and maxima ----------------------------------------------------------------------------

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

// What a channel makes of the points of a voxel: their sum in fixed point, or the greatest of their
// ordered bits.
__device__ __forceinline__ u64 start_with(u32 kind, float value) {
    return kind == CHANNEL_MEAN  ? static_cast<u64>(fixed_point(value))
           : kind == CHANNEL_MAX ? ordered(value)
                                 : 0;
}
__device__ __forceinline__ u64 together(u32 kind, u64 a, u64 b) {
    return kind == CHANNEL_MEAN ? a + b : max(a, b);
}
__device__ __forceinline__ float of_several(u32 kind, u64 all, u32 count) {
    return kind == CHANNEL_MEAN    ? mean(static_cast<i64>(all), count)
           : kind == CHANNEL_MAX   ? unordered(static_cast<u32>(all))
           : kind == CHANNEL_COUNT ? static_cast<float>(count)
                                   : 1.0f;
}

// ---- Points of a unit ----------------------------------------------------------------------------

// The run of the unit's bin in a tile, or one without points.
__device__ __forceinline__ u32 run_in(const Reduce& job, u32 tile) {
    const u32 bin = blockIdx.x >> (job.bins.bin_shift - job.bins.unit_shift);
    const u64 at = static_cast<u64>(tile) * job.bins.bin_count + bin;
    return tile < job.from.tiles ? job.from.runs[at] : 0;
}

// Lists the runs in the tiles from number `first` on, of which each thread has one, and returns how
// many points they have. All threads call it, and it ends with all of them having the list.
__device__ __forceinline__ u32 list_runs(const Reduce& job, u32 first, u32 run, Shared& shared) {
    const u32 tile = first + threadIdx.x;
    u32 total;
    const u32 before = sum_before<WARPS>(run >> 16, shared.warp_sums, total);
    shared.runs.before[threadIdx.x] = before;
    shared.runs.from[threadIdx.x] = tile * job.from.tile_points + (run & 0xFFFFu) - before;
    __syncthreads();
    return total;
}

// Where the values of points stand for channels from number `from` on.
template <class Out>
__device__ __forceinline__ const Values<Out>* values_of(const Reduce& job, u32 from) {
    const u64 all = static_cast<u64>(job.from.tiles) * job.from.tile_points;
    const float4* slice = job.from.values + from / SLICE * all;
    return reinterpret_cast<const Values<Out>*>(
        reinterpret_cast<const float*>(slice) + from % SLICE);
}

// Values of a group stand SLICE floats apart.
template <class Out>
constexpr u32 APART = SLICE / GROUP<Out>;

// A voxel's number in the unit, or NONE if it is in another one of the bin.
__device__ __forceinline__ u32 in_unit(const Reduce& job, u32 number) {
    const u32 units = (1u << (job.bins.bin_shift - job.bins.unit_shift)) - 1;
    const bool mine = number >> job.bins.unit_shift == (blockIdx.x & units);
    return mine ? number & ((1u << job.bins.unit_shift) - 1) : NONE;
}

// Words with a bit for each brick of a unit.
__device__ __forceinline__ u32 brick_words(const Reduce& job) {
    return max(1u, (1u << job.bins.unit_shift) / (BRICK * 32));
}

// Puts back what is now in the row.
__device__ __forceinline__ void keep_held(const Reduce& job, const Shared& shared) {
    const u32 words = brick_words(job);
    const u32 w = threadIdx.x;
    if (w < words && shared.now[w] != shared.held[w]) {
        job.held[blockIdx.x * words + w] = shared.now[w];
    }
}

// ---- Many points ---------------------------------------------------------------------------------

// Accumulators of a part of the unit.
struct Part {
    u32 voxels;
    u32* counts;
    u32* lower; // [channels of a group, voxels]: of sums, or maxima
    u32* upper; // of sums
};

// Adds to a sum in two halves: one carry for every time that the lower one overflows.
__device__ __forceinline__ void add_sum(u32* lower, u32* upper, u64 value) {
    const u32 low = static_cast<u32>(value);
    const u32 before = atomicAdd(lower, low);
    const u32 high = static_cast<u32>(value >> 32) + (before + low < low ? 1u : 0u);
    if (high != 0) atomicAdd(upper, high);
}

// Adds the points of a warp's lanes, those with a voxel.
template <class Out>
__device__ __forceinline__ void add_points(
    const Part& part, u32 voxel, const Values<Out>& values, const u32 (&kinds)[GROUP<Out>],
    u32 lane) {
    // Where the whole warp has one voxel, atomics would queue.
    const u32 first = __shfl_sync(ALL_LANES, voxel, 0);
    const bool as_one = __all_sync(ALL_LANES, voxel != NONE && voxel == first);
    if (voxel != NONE && (!as_one || lane == 0)) {
        atomicAdd(&part.counts[voxel], as_one ? WARP : 1u);
    }
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        if (kinds[c] != CHANNEL_MEAN && kinds[c] != CHANNEL_MAX) continue;
        u64 all = start_with(kinds[c], values.at[c]);
        if (as_one) {
#pragma unroll
            for (u32 d = WARP / 2; d > 0; d /= 2) {
                all = together(kinds[c], all, __shfl_xor_sync(ALL_LANES, all, d));
            }
        }
        if (voxel == NONE || (as_one && lane != 0)) continue;
        u32* lower = &part.lower[c * part.voxels + voxel];
        if (kinds[c] == CHANNEL_MAX) atomicMax(lower, static_cast<u32>(all));
        else add_sum(lower, &part.upper[c * part.voxels + voxel], all);
    }
}

// Points that a thread has under way at once.
constexpr u32 BATCH = 4;

// Calls `use(voxels in the unit, places)` for the points of the unit, BATCH at a time, with whole
// warps; the voxel is NONE for what is no point of the unit.
template <class Use>
__device__ __forceinline__ void for_all_points(const Reduce& job, Shared& shared, Use use) {
    const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 first = 0; first < job.from.tiles; first += TILES) {
        // Nobody still reads the list before.
        __syncthreads();
        const u32 count = list_runs(job, first, run_in(job, first + threadIdx.x), shared);
#pragma unroll 1
        for (u32 i = threadIdx.x; i - lane < count; i += BATCH * THREADS) {
            u32 at[BATCH], voxels[BATCH];
#pragma unroll
            for (u32 k = 0; k < BATCH; ++k) at[k] = 0;
#pragma unroll 1
            for (u32 step = TILES / 2; step != 0; step /= 2) {
#pragma unroll
                for (u32 k = 0; k < BATCH; ++k) {
                    if (shared.runs.before[at[k] + step] <= i + k * THREADS) at[k] += step;
                }
            }
#pragma unroll
            for (u32 k = 0; k < BATCH; ++k) {
                at[k] = shared.runs.from[at[k]] + i + k * THREADS;
                voxels[k] = i + k * THREADS < count ? in_unit(job, job.from.voxels[at[k]]) : NONE;
            }
            use(voxels, at);
        }
    }
    __syncthreads();
}

// Writes a group of channels of a part of the unit, which starts at brick `first` of it.
template <class Out>
__device__ __forceinline__ void write_part(
    const Reduce& job, const Part& part, u32 first, u32 from, Shared& shared,
    const u32 (&kinds)[GROUP<Out>]) {
    const u32 lane = threadIdx.x % WARP;
#pragma unroll 1
    for (u32 b = threadIdx.x / WARP; b < part.voxels / BRICK; b += WARPS) {
        const u32 at = b * BRICK + lane, brick = first + b;
        const u32 count = part.counts[at];
        const bool some = __any_sync(ALL_LANES, count != 0);
        if (!some && (shared.held[brick / 32] >> brick % 32 & 1) == 0) continue;
        if (some && lane == 0) atomicOr(&shared.now[brick / 32], 1u << brick % 32);
        const u32 voxel = voxel_at(job, brick) + lane;
        if (voxel >= job.volume) continue;
#pragma unroll 1
        for (u32 c = 0; c < GROUP<Out> && from + c < job.channels.count; ++c) {
            const u32 i = c * part.voxels + at;
            u32 kind = kinds[0];
#pragma unroll
            for (u32 k = 1; k < GROUP<Out>; ++k) kind = k == c ? kinds[k] : kind;
            const u64 all = static_cast<u64>(part.upper[i]) << 32 | part.lower[i];
            const float value = count == 0 ? 0.0f : of_several(kind, all, count);
            Out* row = static_cast<Out*>(job.row) + static_cast<u64>(from + c) * job.volume;
            row[voxel] = element<Out>(job.report, from + c, value);
        }
    }
}

// The kinds of the channels of a group; of those that are not there, one without values.
template <class Out>
__device__ __forceinline__ void kinds_of(const Reduce& job, u32 from, u32 (&kinds)[GROUP<Out>]) {
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) {
        const bool is_there = from + c < job.channels.count;
        kinds[c] = is_there ? channel_at(job.channels, from + c).kind : CHANNEL_OCCUPANCY;
    }
}

// Reduces a unit with any number of points, part by part.
template <class Out>
__device__ __noinline__ void reduce_crowd(const Reduce& job, Shared& shared, u16* memory) {
    const u32 lane = threadIdx.x % WARP;
    const u32 voxels = 1u << job.bins.unit_shift;
    Part part;
    // 4 + 8 bytes per channel of the group: what the counts and the tile leave room for.
    part.voxels = max(voxels / 4, 512u);
    part.counts = reinterpret_cast<u32*>(memory);
    part.lower = part.counts + part.voxels;
    part.upper = part.lower + GROUP<Out> * part.voxels;
    u32 wanted = 0;
    for_all_points(job, shared, [&](const u32(&in)[BATCH], const u32(&)[BATCH]) {
#pragma unroll
        for (u32 k = 0; k < BATCH; ++k) {
            if (in[k] != NONE) wanted |= 1u << in[k] / part.voxels;
        }
    });
    if (wanted != 0) atomicOr(&shared.wanted, wanted);
    __syncthreads();
#pragma unroll 1
    for (u32 p = 0; p < voxels / part.voxels; ++p) {
        const bool some = (shared.wanted >> p & 1) != 0;
        const u32 start = p * part.voxels;
#pragma unroll 1
        for (u32 from = 0; from < job.channels.count; from += GROUP<Out>) {
            u32 kinds[GROUP<Out>];
            kinds_of<Out>(job, from, kinds);
            const u32 fours = part.voxels * (1 + 2 * GROUP<Out>) / 4;
            for (u32 i = threadIdx.x; i < fours; i += THREADS) {
                reinterpret_cast<uint4*>(part.counts)[i] = make_uint4(0, 0, 0, 0);
            }
            __syncthreads();
            const Values<Out>* values = values_of<Out>(job, from);
            if (some) {
                for_all_points(job, shared, [&](const u32(&in)[BATCH], const u32(&at)[BATCH]) {
                    Values<Out> own[BATCH];
                    u32 local[BATCH];
#pragma unroll
                    for (u32 k = 0; k < BATCH; ++k) {
                        // What is below the part becomes more than any of it.
                        local[k] = in[k] == NONE ? NONE : in[k] - start;
                        if (local[k] >= part.voxels) local[k] = NONE;
                        own[k] = Values<Out>{};
                        if (local[k] != NONE) own[k] = values[at[k] * APART<Out>];
                    }
#pragma unroll
                    for (u32 k = 0; k < BATCH; ++k) {
                        add_points<Out>(part, local[k], own[k], kinds, lane);
                    }
                });
            }
            write_part<Out>(job, part, start / BRICK, from, shared, kinds);
            __syncthreads();
        }
    }
    keep_held(job, shared);
}

// ---- Few points ----------------------------------------------------------------------------------

// The points of this thread in a chunk of those of the unit's bin: their voxels in the unit, NONE for
// what is no point of it, and their values of a group of channels.
template <class Out>
struct Points {
    u32 voxels[SLOTS];
    Values<Out> values[SLOTS];
};

// The runs that the first COUNT points of this thread are in, from point `first` on.
template <u32 COUNT>
__device__ __forceinline__ void find_runs(
    const Reduce& job, const Runs& runs, u32 first, u32 (&at)[SLOTS]) {
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) at[k] = 0;
    const auto halve = [&](u32 step) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (runs.before[at[k] + step] <= first + k * THREADS) at[k] += step;
        }
    };
    if (job.from.tiles > TILES / 2) halve(TILES / 2);
#pragma unroll
    for (u32 step = TILES / 4; step != 0; step /= 2) halve(step);
}

// Loads the points of a chunk, of which the bin has `count` in all.
template <class Out>
__device__ __forceinline__ void load_points(
    const Reduce& job, const Runs& runs, u32 chunk, u32 count, u32 from, Points<Out>& points) {
    const u32 first = chunk * CHUNK + threadIdx.x;
    const u32 of_warp = first - threadIdx.x % WARP;
    u32 at[SLOTS];
    if (of_warp + THREADS >= count) find_runs<1>(job, runs, first, at);
    else if (of_warp + 4 * THREADS >= count) find_runs<4>(job, runs, first, at);
    else find_runs<SLOTS>(job, runs, first, at);
    const Values<Out>* values = values_of<Out>(job, from);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        const u32 i = first + k * THREADS;
        points.voxels[k] = NONE;
        if (i >= count) continue;
        at[k] = runs.from[at[k]] + i;
        points.voxels[k] = job.from.voxels[at[k]];
        points.values[k] = values[at[k] * APART<Out>];
    }
    if (job.bins.unit_shift == job.bins.bin_shift) return;
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (points.voxels[k] != NONE) points.voxels[k] = in_unit(job, points.voxels[k]);
    }
}

// Counts the points per voxel, and lists the voxels with several: whoever is second in one does.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void count_points(
    Unit<Out, VOXELS>& unit, const u32 (&voxels)[SLOTS]) {
    u32 before[SLOTS];
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        before[k] = 0;
        if (voxels[k] == NONE) continue;
        // Two counts are one word, and none overflows into the other.
        u32* word = reinterpret_cast<u32*>(unit.counts) + voxels[k] / 2;
        const u32 shift = voxels[k] % 2 * 16;
        before[k] = atomicAdd(word, 1u << shift) >> shift & 0xFFFFu;
    }
    u32 seconds = 0;
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) seconds += before[k] == 1 ? 1u : 0u;
    if (seconds == 0) return;
    u32 at = atomicAdd(&unit.shared.several, seconds);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        if (before[k] != 1) continue;
        if (at < LISTED) unit.shared.list[at].voxel = voxels[k];
        ++at;
    }
}

// Notes how many points listed voxels have, and where in the list these are; and zeros the
// accumulators that they will need.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void number_several(Unit<Out, VOXELS>& unit) {
    const u32 several = min(unit.shared.several, LISTED);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < several; i += THREADS) {
        Several& entry = unit.shared.list[i];
        entry.count = unit.counts[entry.voxel];
        unit.counts[entry.voxel] = LISTED_BIT | i;
    }
    const u32 needed = min(several * GROUP<Out>, ACCUMULATORS);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < needed; i += THREADS) unit.lower[i] = unit.upper[i] = 0;
}

// Puts the values of a voxel with one point into the tile. Channels that are not there have elements,
// too, which are not written.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void put_elements(
    const Reduce& job, Unit<Out, VOXELS>& unit, u32 from, u32 voxel, const Values<Out>& values) {
    if constexpr (!SAME<Out, F32>) {
        float greatest = fabsf(values.at[0]);
#pragma unroll
        for (u32 c = 1; c < GROUP<Out>; ++c) greatest = fmaxf(greatest, fabsf(values.at[c]));
        if (greatest >= BEYOND<Out>) {
#pragma unroll
            for (u32 c = 0; c < GROUP<Out>; ++c) element<Out>(job.report, from + c, values.at[c]);
        }
    }
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) from_float(values.at[c], unit.tile[c][voxel]);
}

// Puts the values of lone points into the tile, if `lone`; and adds those of listed voxels from
// number `first` on to the accumulators, as far as there are some. MEANS: all channels are means.
template <bool MEANS, class Out, u32 VOXELS>
__device__ __forceinline__ void place_points(
    const Reduce& job, Unit<Out, VOXELS>& unit, u32 from, const Points<Out>& points, u32 first,
    bool lone) {
    u32 kinds[GROUP<Out>];
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) kinds[c] = CHANNEL_MEAN;
    if constexpr (!MEANS) kinds_of<Out>(job, from, kinds);
#pragma unroll
    for (u32 k = 0; k < SLOTS; ++k) {
        const u32 voxel = points.voxels[k];
        if (voxel == NONE) continue;
        const u32 count = unit.counts[voxel];
        if ((count & LISTED_BIT) == 0) {
            if (lone) put_elements(job, unit, from, voxel, points.values[k]);
            continue;
        }
        const u32 at = (count & ~LISTED_BIT) - first;
        if (at >= ACCUMULATORS / GROUP<Out>) continue;
#pragma unroll
        for (u32 c = 0; c < GROUP<Out>; ++c) {
            const u32 place = at * GROUP<Out> + c;
            const u64 own = start_with(kinds[c], points.values[k].at[c]);
            if (kinds[c] == CHANNEL_MEAN) add_sum(&unit.lower[place], &unit.upper[place], own);
            else if (kinds[c] == CHANNEL_MAX) atomicMax(&unit.lower[place], static_cast<u32>(own));
        }
    }
}

// Puts what has been added of listed voxels from number `first` on into the tile, and returns the
// accumulators to zero.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void put_several(
    const Reduce& job, Unit<Out, VOXELS>& unit, u32 from, u32 first) {
    // A thread stays with one channel.
    constexpr u32 WIDTH = GROUP<Out>;
    const u32 c = threadIdx.x % WIDTH;
    u32 kind = CHANNEL_MEAN;
    if (job.all_means == 0) {
        const bool is_there = from + c < job.channels.count;
        kind = is_there ? channel_at(job.channels, from + c).kind : CHANNEL_OCCUPANCY;
    }
    const u32 count = min(unit.shared.several - first, ACCUMULATORS / WIDTH);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count * WIDTH; i += THREADS) {
        const Several voxel = unit.shared.list[first + i / WIDTH];
        const u64 all = static_cast<u64>(unit.upper[i]) << 32 | unit.lower[i];
        unit.upper[i] = unit.lower[i] = 0;
        const float value = of_several(kind, all, voxel.count);
        unit.tile[c][voxel.voxel] = element<Out>(job.report, from + c, value);
    }
}

// Writes a group of channels from the tile.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void write_tile(const Reduce& job, Unit<Out, VOXELS>& unit, u32 from) {
    const u32 lane = threadIdx.x % WARP;
    Shared& shared = unit.shared;
    const u32 lanes = (1u << job.bins.unit_shift) / PER_LANE;
#pragma unroll 2
    for (u32 g = threadIdx.x; g < lanes; g += THREADS) {
        const uint4 counts = reinterpret_cast<const uint4*>(unit.counts)[g];
        const u32 bricks = bricks_of((counts.x | counts.y | counts.z | counts.w) != 0);
        const u32 held = reinterpret_cast<const u8*>(shared.held)[g / WARP];
        if (lane == 0) reinterpret_cast<u8*>(shared.now)[g / WARP] = bricks;
        constexpr u32 LANES = BRICK / PER_LANE;
        if (((bricks | held) >> lane / LANES & 1) == 0) continue;
        const u32 voxel = voxel_at(job, g / LANES) + g % LANES * PER_LANE;
#pragma unroll
        for (u32 c = 0; c < GROUP<Out>; ++c) {
            if (from + c >= job.channels.count) break;
            write_elements(job.row, job.volume, from + c, voxel, &unit.tile[c][g * PER_LANE]);
        }
    }
}

template <class Out, u32 VOXELS>
__device__ __forceinline__ void reduce(const Reduce& job) {
    // What the host reserves.
    static_assert(sizeof(Unit<Out, VOXELS>) <= 10 * VOXELS + 28944);
    extern __shared__ uint4 memory[];
    Unit<Out, VOXELS>& unit = *reinterpret_cast<Unit<Out, VOXELS>*>(memory);
    Shared& shared = unit.shared;
    const u32 t = threadIdx.x;
    if (blockIdx.x == gridDim.x - 1) {
        // This block has no unit: any other would finish later for it.
        wait_for_earlier_kernels();
        if (t == 0) report_dropped(job.report, job.counters);
        return;
    }
    unit.clear_all();
    if (t < BRICK_WORDS) shared.now[t] = 0;
    if (t == 0) shared.several = shared.wanted = 0;
    wait_for_earlier_kernels();
    // Both are asked for before one is used.
    const u32 run = run_in(job, t);
    const u32 words = brick_words(job);
    const u32 own_held = t < words ? job.held[blockIdx.x * words + t] : 0;
    if (t < BRICK_WORDS) shared.held[t] = own_held;
    const u32 count = list_runs(job, 0, run, shared);
    u32 held = 0;
#pragma unroll
    for (u32 w = 0; w < BRICK_WORDS; ++w) held |= shared.held[w];
    if (count == 0 && job.from.tiles <= TILES && held == 0) return;
    if (count > MOST_POINTS || job.from.tiles > TILES) {
        reduce_crowd<Out>(job, shared, unit.counts);
        return;
    }
    const u32 chunks = (count + CHUNK - 1) / CHUNK;
    Points<Out> points;
#pragma unroll 1
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
        load_points(job, shared.runs, chunk, count, 0, points);
        count_points(unit, points.voxels);
    }
    __syncthreads();
    number_several(unit);
    __syncthreads();
    if (shared.several > LISTED) {
        reduce_crowd<Out>(job, shared, unit.counts);
        return;
    }
#pragma unroll 1
    for (u32 from = 0; from < job.channels.count; from += GROUP<Out>) {
        // At least once, for lone points.
        u32 first = 0;
        do {
#pragma unroll 1
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                if (chunks > 1 || (from != 0 && first == 0)) {
                    load_points(job, shared.runs, chunk, count, from, points);
                }
                const bool lone = first == 0;
                if (job.all_means != 0) place_points<true>(job, unit, from, points, first, lone);
                else place_points<false>(job, unit, from, points, first, lone);
            }
            __syncthreads();
            put_several(job, unit, from, first);
            __syncthreads();
            first += ACCUMULATORS / GROUP<Out>;
        } while (first < shared.several);
        write_tile(job, unit, from);
        if (from + GROUP<Out> < job.channels.count) {
            __syncthreads();
            unit.clear_tile();
            __syncthreads();
        }
    }
    __syncthreads();
    keep_held(job, shared);
}

#define REDUCE(NAME, OUT, VOXELS)                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        NAME(const __grid_constant__ Reduce job) {           \
        reduce<OUT, VOXELS>(job);                            \
    }
REDUCE(voxelize_reduce_8192_f32, F32, 8192)
REDUCE(voxelize_reduce_8192_f16, F16, 8192)
REDUCE(voxelize_reduce_8192_bf16, Bf16, 8192)
REDUCE(voxelize_reduce_2048_f32, F32, 2048)
REDUCE(voxelize_reduce_2048_f16, F16, 2048)
REDUCE(voxelize_reduce_2048_bf16, Bf16, 2048)
