// Reduces a sorted cloud, unit by unit, and writes it into a row; kernels/voxels.cuh says what for.
//
// Most voxels hold one point or none. A block counts the points of its unit per voxel, puts the values
// of lone points straight into the tile, adds those of voxels with several to accumulators, one for
// each such voxel, and writes the tile. Points stay in registers if they are as few as they mostly are.
// A unit with so many points, tiles or voxels that counts or lists would not hold them takes another
// way (`reduce_crowd`): accumulators for all voxels, a part of the unit at a time.
#include "voxelize_crowd.cuh"

// The points of this thread in a chunk of those of the unit's bin: their voxels in the unit, NONE for
// what is no point of it, and their values of a group of channels.
template <class Out>
struct Points {
    u32 voxels[SLOTS];
    Values<Out> values[SLOTS];
};

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
