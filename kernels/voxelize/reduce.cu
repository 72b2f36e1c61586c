// Reduces a sorted cloud, sub-bin by sub-bin, and writes it into a row. README.md explains why.
//
// Most voxels hold one point or none. A thread block counts the points of its sub-bin per voxel. It
// stages the values of lone points as elements, adds those of voxels with several points to
// accumulators, and writes what is staged. Points stay in registers if they fit, as they mostly do.
// If counts or lists would overflow, the thread block takes another way (`reduce_overflow`).
#include "overflow.cuh"

namespace voxelize_reduce {

// The points of this thread in a chunk of the bin's points: their voxels in the sub-bin, and their
// values for a channel group. The voxel is NONE for a point of another sub-bin.
template <class Out>
struct Points {
    u32 voxels[POINTS_PER_THREAD];
    Values<Out> values[POINTS_PER_THREAD];
};

// Loads the points of a chunk. The bin has `count` points in all.
template <class Out>
__device__ __forceinline__ void load_points(
    const Reduce& job, const Segments& segments, u32 chunk, u32 count, u32 from,
    Points<Out>& points) {
    const u32 first = chunk * CHUNK + threadIdx.x;
    const u32 of_warp = first - threadIdx.x % WARP;
    u32 at[POINTS_PER_THREAD];
    if (of_warp + THREADS >= count) find_segments<1>(job, segments, first, at);
    else if (of_warp + 4 * THREADS >= count) find_segments<4>(job, segments, first, at);
    else find_segments<POINTS_PER_THREAD>(job, segments, first, at);
    const Values<Out>* values = values_of<Out>(job, from);
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) {
        const u32 i = first + k * THREADS;
        points.voxels[k] = NONE;
        if (i >= count) continue;
        at[k] = segments.from[at[k]] + i;
        points.voxels[k] = job.from.voxels[at[k]];
        points.values[k] = values[at[k] * APART<Out>];
    }
    if (job.bins.sub_bin_shift == job.bins.bin_shift) return;
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) {
        if (points.voxels[k] != NONE) points.voxels[k] = in_sub_bin(job, points.voxels[k]);
    }
}

// Counts the points per voxel, and lists the voxels with several: the second point of a voxel lists
// it.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void count_points(
    SubBin<Out, VOXELS>& sub_bin, const u32 (&voxels)[POINTS_PER_THREAD]) {
    u32 before[POINTS_PER_THREAD];
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) {
        before[k] = 0;
        if (voxels[k] == NONE) continue;
        // A word has two counts. The lower one cannot overflow into the upper one (MOST_POINTS).
        u32* word = reinterpret_cast<u32*>(sub_bin.counts) + voxels[k] / 2;
        const u32 shift = voxels[k] % 2 * 16;
        before[k] = atomicAdd(word, 1u << shift) >> shift & 0xFFFFu;
    }
    u32 seconds = 0;
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) seconds += before[k] == 1 ? 1u : 0u;
    if (seconds == 0) return;
    u32 at = atomicAdd(&sub_bin.shared.several, seconds);
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) {
        if (before[k] != 1) continue;
        if (at < LISTED) sub_bin.shared.list[at].voxel = voxels[k];
        ++at;
    }
}

// Empties a voxel with too few points. `points` is their number, at least 1.
__device__ __forceinline__ bool
is_emptied(const Plain& job, u32 points, u16& count, Shared& shared) {
    return false;
}
__device__ __forceinline__ bool
is_emptied(const Sifted& job, u32 points, u16& count, Shared& shared) {
    if (points >= job.min_points) return false;
    atomicAdd(&shared.too_few, points);
    count = 0;
    return true;
}

// Notes in the list the number of points of each voxel, and in the counts the place of each voxel in the
// list. Zeros the accumulators that these voxels will need.
template <class Job, class Out, u32 VOXELS>
__device__ __forceinline__ void
number_several(const Job& all, SubBin<Out, VOXELS>& sub_bin, bool crowded) {
    const u32 several = min(sub_bin.shared.several, LISTED);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < several; i += THREADS) {
        Several& entry = sub_bin.shared.list[i];
        u16& count = sub_bin.counts[entry.voxel];
        const u32 points =
            SIFTS<Job> ? all_points(crowded, sub_bin.shared, entry.voxel, count) : count;
        if (is_emptied(all, points, count, sub_bin.shared)) {
            entry.count = 0;
            continue;
        }
        entry.count = count;
        count = LISTED_BIT | i;
    }
    const u32 needed = min(several * GROUP<Out>, ACCUMULATORS);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < needed; i += THREADS) sub_bin.lower[i] = sub_bin.upper[i] = 0;
}

// Stages the values of a voxel with one point. It also stages missing channels, which are not
// written.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void put_elements(
    const Reduce& job, SubBin<Out, VOXELS>& sub_bin, u32 from, u32 voxel,
    const Values<Out>& values) {
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
    for (u32 c = 0; c < GROUP<Out>; ++c) from_float(values.at[c], sub_bin.staged[c][voxel]);
}

// Stages the values of lone points, if `lone`. Adds those of listed voxels to the accumulators. These
// belong to the voxels from number `first` on. MEANS: all channels are means.
template <bool MEANS, class Job, class Out, u32 VOXELS>
__device__ __forceinline__ void place_points(
    const Job& all, SubBin<Out, VOXELS>& sub_bin, u32 from, const Points<Out>& points, u32 first,
    bool lone) {
    const Reduce& job = all.reduce;
    u32 kinds[GROUP<Out>];
#pragma unroll
    for (u32 c = 0; c < GROUP<Out>; ++c) kinds[c] = CHANNEL_MEAN;
    if constexpr (!MEANS) kinds_of<Out>(job, from, kinds);
#pragma unroll
    for (u32 k = 0; k < POINTS_PER_THREAD; ++k) {
        const u32 voxel = points.voxels[k];
        if (voxel == NONE) continue;
        const u32 count = sub_bin.counts[voxel];
        if ((count & LISTED_BIT) == 0) {
            // Of a voxel that was emptied there may be several points, and they change nothing.
            if (SIFTS<Job> && count == 0) continue;
            if (is_emptied(all, count, sub_bin.counts[voxel], sub_bin.shared)) continue;
            if (lone) {
                put_elements(
                    job, sub_bin, from, voxel, of_one<Out>(all, from, kinds, points.values[k]));
            }
            continue;
        }
        const u32 at = (count & ~LISTED_BIT) - first;
        if (at >= ACCUMULATORS / GROUP<Out>) continue;
#pragma unroll
        for (u32 c = 0; c < GROUP<Out>; ++c) {
            const u32 place = at * GROUP<Out> + c;
            const u64 own = start_with<SIFTS<Job>>(kinds[c], points.values[k].at[c]);
            if (adds<SIFTS<Job>>(kinds[c])) {
                add_sum(&sub_bin.lower[place], &sub_bin.upper[place], own);
            } else if (takes_greatest<SIFTS<Job>>(kinds[c])) {
                atomicMax(&sub_bin.lower[place], static_cast<u32>(own));
            }
        }
    }
}

// Stages the accumulators of the listed voxels from number `first` on, and zeros them.
template <class Job, class Out, u32 VOXELS>
__device__ __forceinline__ void put_several(
    const Job& all, SubBin<Out, VOXELS>& sub_bin, u32 from, u32 first, bool crowded) {
    const Reduce& job = all.reduce;
    // A thread stays with one channel.
    constexpr u32 WIDTH = GROUP<Out>;
    const u32 c = threadIdx.x % WIDTH;
    u32 kind = CHANNEL_MEAN, place = 0;
    if (job.all_means == 0) {
        const bool is_there = from + c < job.channels.count;
        kind = is_there ? channel_at(job.channels, from + c).kind : CHANNEL_OCCUPANCY;
        if (SIFTS<Job> && is_there) place = channel_at(job.channels, from + c).place;
    }
    const u32 count = min(sub_bin.shared.several - first, ACCUMULATORS / WIDTH);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count * WIDTH; i += THREADS) {
        const Several voxel = sub_bin.shared.list[first + i / WIDTH];
        const u64 total = static_cast<u64>(sub_bin.upper[i]) << 32 | sub_bin.lower[i];
        sub_bin.upper[i] = sub_bin.lower[i] = 0;
        if (SIFTS<Job> && voxel.count == 0) continue;
        const u32 points = all_points(crowded, sub_bin.shared, voxel.voxel, voxel.count);
        const float value = of_several(all, kind, place, total, points);
        sub_bin.staged[c][voxel.voxel] = element<Out>(job.report, from + c, value);
    }
}

// Writes a staged channel group.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void
write_staged(const Reduce& job, SubBin<Out, VOXELS>& sub_bin, u32 from) {
    const u32 lane = threadIdx.x % WARP;
    Shared& shared = sub_bin.shared;
    const u32 lanes = (1u << job.bins.sub_bin_shift) / VOXELS_PER_LANE;
#pragma unroll 2
    for (u32 g = threadIdx.x; g < lanes; g += THREADS) {
        const uint4 counts = reinterpret_cast<const uint4*>(sub_bin.counts)[g];
        const u32 voxel_blocks = voxel_blocks_of((counts.x | counts.y | counts.z | counts.w) != 0);
        const u32 before = reinterpret_cast<const u8*>(shared.occupied_before)[g / WARP];
        if (lane == 0) reinterpret_cast<u8*>(shared.occupied_now)[g / WARP] = voxel_blocks;
        constexpr u32 LANES = VOXEL_BLOCK / VOXELS_PER_LANE;
        if (((voxel_blocks | before) >> lane / LANES & 1) == 0) continue;
        const u32 voxel = voxel_at(job, g / LANES) + g % LANES * VOXELS_PER_LANE;
#pragma unroll
        for (u32 c = 0; c < GROUP<Out>; ++c) {
            if (from + c >= job.channels.count) break;
            const Out* elements = &sub_bin.staged[c][g * VOXELS_PER_LANE];
            write_elements(job.row, job.volume, from + c, voxel, elements);
        }
    }
}

// Puts the occupied voxels of the sub-bin into the list, without their features.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void enter_all(
    const Sifted& all, SubBin<Out, VOXELS>& sub_bin, Entries<VOXELS>& entries) {
    const u32 t = threadIdx.x, lane = t % WARP, warp = t / WARP;
    const u32 voxel_blocks = (1u << all.reduce.bins.sub_bin_shift) / VOXEL_BLOCK;
    Shared& shared = sub_bin.shared;
#pragma unroll 1
    for (u32 b = warp; b < voxel_blocks; b += WARPS) {
        const u32 mask = __ballot_sync(ALL_LANES, sub_bin.counts[b * VOXEL_BLOCK + lane] != 0);
        if (lane == 0) entries.masks[b] = mask;
    }
    __syncthreads();
    const u32 mask = t < voxel_blocks ? entries.masks[t] : 0;
    u32 total;
    const u32 before = sum_before<WARPS>(static_cast<u32>(__popc(mask)), shared.warp_sums, total);
    if (t == 0) shared.entries = atomicAdd(&all.tally->listed, total);
    const u32 now = __ballot_sync(ALL_LANES, mask != 0);
    if (lane == 0 && warp < OCCUPANCY_WORDS) shared.occupied_now[warp] = now;
    __syncthreads();
    if (t >= voxel_blocks) return;
    const u32 first = shared.entries + before;
    entries.firsts[t] = first;
    // The masks of all other voxel blocks are zero already.
    const bool held = (shared.occupied_before[t / 32] >> t % 32 & 1) != 0;
    if (mask != 0 || held) put_mask(all.list, voxel_at(all.reduce, t) / VOXEL_BLOCK, mask, first);
}

// Puts a staged channel group into the list.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void list_staged(
    const Sifted& all, SubBin<Out, VOXELS>& sub_bin, Entries<VOXELS>& entries, u32 from) {
    const u32 lane = threadIdx.x % WARP;
    if (from == 0) {
        enter_all(all, sub_bin, entries);
        __syncthreads();
    }
    const u32 voxel_blocks = (1u << all.reduce.bins.sub_bin_shift) / VOXEL_BLOCK;
#pragma unroll 1
    for (u32 b = threadIdx.x / WARP; b < voxel_blocks; b += WARPS) {
        const u32 mask = entries.masks[b];
        if ((mask >> lane & 1) == 0) continue;
        const u32 entry = entry_of(mask, entries.firsts[b], lane);
#pragma unroll
        for (u32 c = 0; c < GROUP<Out>; ++c) {
            if (from + c >= all.reduce.channels.count) break;
            put_feature(all.list, entry, from + c, sub_bin.staged[c][b * VOXEL_BLOCK + lane]);
        }
    }
}

// Writes a staged channel group into the row, or puts it into the list.
template <class Out, u32 VOXELS>
__device__ __forceinline__ void
put_staged(const Plain& all, SubBin<Out, VOXELS>& sub_bin, u32 from) {
    write_staged(all.reduce, sub_bin, from);
}
template <class Out, u32 VOXELS>
__device__ __forceinline__ void
put_staged(const Sifted& all, SubBin<Out, VOXELS>& sub_bin, u32 from) {
    if (all.is_list == 0) write_staged(all.reduce, sub_bin, from);
    else list_staged(all, sub_bin, *reinterpret_cast<Entries<VOXELS>*>(&sub_bin + 1), from);
}

// Counts the points that were left out, because their voxels have too few.
__device__ __forceinline__ void add_too_few(const Plain& job, const Shared& shared) {}
__device__ __forceinline__ void add_too_few(const Sifted& job, const Shared& shared) {
    if (threadIdx.x != 0 || shared.too_few == 0) return;
    atomicAdd(&drops_of(job.tally)[DROP_TOO_FEW], shared.too_few);
}

template <class Out, u32 VOXELS, class Job>
__device__ __forceinline__ void reduce(const Job& all) {
    const Reduce& job = all.reduce;
    // The host reserves this much shared memory.
    static_assert(sizeof(SubBin<Out, VOXELS>) <= VOXEL_BYTES * VOXELS + REDUCE_BYTES);
    extern __shared__ uint4 memory[];
    SubBin<Out, VOXELS>& sub_bin = *reinterpret_cast<SubBin<Out, VOXELS>*>(memory);
    Shared& shared = sub_bin.shared;
    const u32 t = threadIdx.x;
    if (!SIFTS<Job> && blockIdx.x == gridDim.x - 1) {
        // This thread block has no sub-bin. Any other one would finish later if it had to report.
        wait_for_earlier_kernels();
        if (t == 0) report_dropped(job.report, job.counters);
        return;
    }
    sub_bin.clear_all();
    if (t < OCCUPANCY_WORDS) shared.occupied_now[t] = 0;
    if (t == 0) shared.several = shared.wanted = 0;
    if (SIFTS<Job> && t == 0) shared.too_few = 0;
    wait_for_earlier_kernels();
    // Both loads are under way before one is used.
    if constexpr (SIFTS<Job>) {
        // The list changes the one, and its thread blocks read the other.
        if (all.is_list != 0 && blockIdx.x == 0 && t == 0) *all.list.before = *all.list.held;
    }
    const u32 segment = segment_in(job, t);
    const u32 words = occupancy_words(job);
    const u32 own = t < words ? job.occupied[blockIdx.x * words + t] : 0;
    if (t < OCCUPANCY_WORDS) shared.occupied_before[t] = own;
    const Listed listed = list_segments(job, 0, segment, shared);
    const u32 count = listed.points;
    const bool crowded = listed.crowds != 0;
    u32 before = 0;
#pragma unroll
    for (u32 w = 0; w < OCCUPANCY_WORDS; ++w) before |= shared.occupied_before[w];
    if (count == 0 && !crowded && job.from.tiles <= TILES && before == 0) return;
    const u32 most = MOST_POINTS - (crowded ? CROWD_COUNT * TILES : 0);
    const u32 most_several = LISTED - (crowded ? CROWDED_ENTRIES : 0);
    if (count > most || job.from.tiles > TILES) {
        reduce_overflow<Out>(all, shared, sub_bin.counts);
        return;
    }
    if (crowded) {
        if (t < CROWDED_ENTRIES) reinterpret_cast<u32*>(&crowded_of(shared))[t] = 0;
        __syncthreads();
    }
    const u32 chunks = (count + CHUNK - 1) / CHUNK;
    Points<Out> points;
#pragma unroll 1
    for (u32 chunk = 0; chunk < chunks; ++chunk) {
        load_points(job, shared.segments, chunk, count, 0, points);
        count_points(sub_bin, points.voxels);
    }
    if (crowded) count_crowds(job, sub_bin);
    __syncthreads();
    // The other way counts again what has too few points.
    if ((!SIFTS<Job> && !crowded) || shared.several <= most_several) {
        number_several(all, sub_bin, crowded);
    }
    __syncthreads();
    if (shared.several > most_several) {
        reduce_overflow<Out>(all, shared, sub_bin.counts);
        return;
    }
#pragma unroll 1
    for (u32 from = 0; from < job.channels.count; from += GROUP<Out>) {
        // Once at least, for lone points.
        u32 first = 0;
        do {
#pragma unroll 1
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                if (chunks > 1 || (from != 0 && first == 0)) {
                    load_points(job, shared.segments, chunk, count, from, points);
                }
                const bool lone = first == 0;
                if (!SIFTS<Job> && job.all_means != 0) {
                    place_points<true>(all, sub_bin, from, points, first, lone);
                } else {
                    place_points<false>(all, sub_bin, from, points, first, lone);
                }
            }
            if (crowded) place_crowds(all, sub_bin, from, first);
            __syncthreads();
            put_several(all, sub_bin, from, first, crowded);
            __syncthreads();
            first += ACCUMULATORS / GROUP<Out>;
        } while (first < shared.several);
        put_staged(all, sub_bin, from);
        if (from + GROUP<Out> < job.channels.count) {
            __syncthreads();
            sub_bin.clear_staged();
            __syncthreads();
        }
    }
    __syncthreads();
    store_occupied(job, shared);
    add_too_few(all, shared);
}

#define REDUCE(NAME, JOB, OUT, VOXELS)                       \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        NAME(const __grid_constant__ JOB job) {              \
        reduce<OUT, VOXELS>(job);                            \
    }
REDUCE(voxelize_reduce_8192_f32, Plain, F32, 8192)
REDUCE(voxelize_reduce_8192_f16, Plain, F16, 8192)
REDUCE(voxelize_reduce_8192_bf16, Plain, Bf16, 8192)
REDUCE(voxelize_reduce_2048_f32, Plain, F32, 2048)
REDUCE(voxelize_reduce_2048_f16, Plain, F16, 2048)
REDUCE(voxelize_reduce_2048_bf16, Plain, Bf16, 2048)
REDUCE(voxelize_reduce_sifted_8192_f32, Sifted, F32, 8192)
REDUCE(voxelize_reduce_sifted_8192_f16, Sifted, F16, 8192)
REDUCE(voxelize_reduce_sifted_8192_bf16, Sifted, Bf16, 8192)
REDUCE(voxelize_reduce_sifted_2048_f32, Sifted, F32, 2048)
REDUCE(voxelize_reduce_sifted_2048_f16, Sifted, F16, 2048)
REDUCE(voxelize_reduce_sifted_2048_bf16, Sifted, Bf16, 2048)

} // namespace voxelize_reduce
