// Resamples whole episodes at once, as training reads them: streams [B, S, D] with stamps [B, S]
// become [B, T, sum of D] at targets [B, T]. Streams follow each other along the last dimension.
//
// A thread block takes consecutive targets of one episode and stream: its tile. First it finds the
// brackets of all these targets. So it searches once per target, not once per element.
//
// 1. It guesses where the targets are among the stamps, as if both advanced evenly. It fetches the
//    stamps around that place into shared memory, in one round of independent loads.
// 2. One thread per target searches there. If a target is elsewhere, the block fetches a sample of
//    all stamps, and the thread goes on from there in device memory.
// 3. All threads stream the rows.
//
// If episodes differ in length, rows and targets follow one another, [sum of S, D] and [sum of T], and
// offsets [B + 1] say where each episode starts. A tile is then of consecutive targets, whatever their
// episodes, and each thread searches for the episode of its target and among its rows.
//
// Stamps and targets are nanoseconds, or the seconds of a caller: then each is converted as it is read.
#include "align.cuh"
#include "ragged.cuh"

namespace resample {

constexpr u32 THREADS = 256;
// The most stamps in shared memory, and the most stamps for which the search saves its first step.
constexpr u32 WINDOW = 1023;
constexpr u32 SMALL_WINDOW = 511;
// Packs that a thread has under way at once.
constexpr int UNROLL = 2;
// Streams of one launch at most. The host starts several launches for more streams.
constexpr u32 STREAMS_PER_LAUNCH = 4;

// Division by a number that the host knows, as a multiplication. It is exact below 2^31.
struct Divisor {
    u32 by;
    u32 magic;
    u32 shift;
    u32 reserved;

    __device__ __forceinline__ u32 quotient(u32 n) const {
        return static_cast<u32>(static_cast<u64>(n) * magic >> shift);
    }
};

struct Stream {
    const void* rows;  // [B, S, D]
    const void* stamps; // [B, S], of the kernel's type Time
    const u8* lanes;   // [D], null where all are linear or nothing is interpolated
    const i64* row_offsets; // [B + 1], null if all episodes have as many rows
    AlignRule rule;
    u32 len;           // S, if all episodes have as many rows
    u32 all_rows;      // of all episodes
    u32 dim;           // D
    u32 out_at;        // first element inside a row of the output
    u32 dtype;         // of the rows
    u32 pack;          // elements per access
    u32 packs;         // accesses per row: D / pack
    u32 tile_targets;  // targets of one tile
    u32 tile_packs;    // accesses per row of one tile
    u32 step_targets;  // from a thread's pack to its next one: THREADS / tile_packs targets
    u32 step_packs;    // and THREADS % tile_packs packs
    u32 window;        // stamps that a block fetches
    float rows_per_target; // S / T
    u32 reserved;
    Divisor target_tiles; // blocks along T
    Divisor pack_tiles;   // blocks along a row
    Divisor per_row;      // tile_packs
};

struct Batch {
    const void* targets; // [B, T], of the kernel's type Time
    const i64* target_offsets; // [B + 1], null if all episodes have as many targets
    void* out;          // [B, T, row]
    u8* valid;          // [streams, B, T], or null, and then no ages either
    i64* age_ns;        // [streams, B, T]
    u32 episodes;       // B
    u32 steps;          // T, if all episodes have as many targets
    u32 all_steps;      // targets of all episodes
    u32 row;            // elements of a row of the output
    u32 streams;
    u32 inputs_ready;   // whether no kernel that may still run writes rows, stamps or targets
    // Side by side, because a read of a parameter waits for memory unless it is near the last one.
    u32 first_block[STREAMS_PER_LAUNCH]; // of each stream, NONE for a missing stream
    Stream of[STREAMS_PER_LAUNCH];
};

struct Bracket {
    u32 a;    // if the target is between two rows, b is the row after a
    u32 mode;
};

// Where stamp `i` is in shared memory. A search reads every eighth stamp at once, or every 64th. With a
// gap after each eight stamps, these are in different banks.
__device__ __forceinline__ constexpr u32 place_of(u32 i) {
    return i + i / 8;
}

struct Shared {
    i64 stamps[place_of(WINDOW) + 1];
    Bracket brackets[THREADS];
    float weights[THREADS];
};

constexpr i64 LATEST = 0x7FFFFFFFFFFFFFFFll;

// Loads `count` stamps, every `stride`-th, and fills the rest up to `size` with the latest possible
// stamp.
template <class Time>
__device__ __forceinline__ void fetch_stamps(
    Shared& shared, const Time* stamps, u32 count, u32 stride, u32 size) {
    i64 own[(WINDOW + 1) / THREADS];
#pragma unroll
    for (u32 i = 0; i < (WINDOW + 1) / THREADS; ++i) {
        const u32 at = i * THREADS + threadIdx.x;
        own[i] = at < count ? nanos(stamps[static_cast<u64>(at) * stride]) : LATEST;
    }
#pragma unroll
    for (u32 i = 0; i < (WINDOW + 1) / THREADS; ++i) {
        if (i * THREADS < size) shared.stamps[place_of(i * THREADS + threadIdx.x)] = own[i];
    }
}

// One step of a search: how far it goes in steps of STRIDE. `low` is a multiple of 8 * STRIDE.
template <u32 STRIDE>
__device__ __forceinline__ u32 step(const i64* stamps, u32 low, i64 target) {
    const i64* first = stamps + place_of(low);
    u32 steps = 0;
#pragma unroll
    for (u32 k = 1; k < 8; ++k) steps += first[place_of(k * STRIDE - 1)] <= target;
    return low + steps * STRIDE;
}

// Number of fetched stamps at or before `target`. Each step makes seven independent reads: a binary
// search would wait for each of its reads.
__device__ __forceinline__ u32 search(const i64* stamps, u32 count, i64 target) {
    u32 low = 0;
    if (count > SMALL_WINDOW && stamps[place_of(SMALL_WINDOW)] <= target) low = SMALL_WINDOW + 1;
    if (count >= 64) low = step<64>(stamps, low, target);
    low = step<8>(stamps, low, target);
    low = step<1>(stamps, low, target);
    return min(low, count);
}

// Number of stamps of the whole episode at or before `target`. `shared` holds every `stride`-th of
// them, `count` in all.
template <class Time>
__device__ __forceinline__ u32 search_all(
    const Shared& shared, u32 count, u32 stride, const Time* stamps, u32 len, i64 target) {
    const u32 sample = search(shared.stamps, count, target);
    if (sample == 0) return 0;
    // Between the last sample at or before the target and the next one.
    u32 first = (sample - 1) * stride + 1;
    u32 end = min(sample * stride, len);
    while (first < end) {
        const u32 middle = (first + end) / 2;
        if (nanos(stamps[middle]) <= target) first = middle + 1;
        else end = middle;
    }
    return first;
}

struct Found {
    u32 after;
    i64 held; // stamps of the rows before and after the target, if they exist
    i64 next;
};

// Finds the target of this thread among the stamps, if the thread has one. All threads call it.
template <class Time>
__device__ __forceinline__ Found find(
    const Stream& stream, const Time* stamps, u32 first, u32 count, bool mine, i64 target,
    Shared& shared) {
    const u32 window = stream.window;
    u32 start = 0;
    if (window < stream.len) {
        const float centre = (static_cast<float>(first) + 0.5f * count) * stream.rows_per_target;
        const float before = fmaxf(centre - 0.5f * window, 0.0f);
        start = min(static_cast<u32>(before), stream.len - window);
    }
    const u32 size = window > SMALL_WINDOW ? WINDOW + 1 : SMALL_WINDOW + 1;
    fetch_stamps(shared, stamps + start, window, 1, size);
    __syncthreads();
    Found found = {0, 0, 0};
    bool here = mine;
    if (window < stream.len) {
        here = mine && (start == 0 || shared.stamps[0] <= target) &&
               (start + window == stream.len || target < shared.stamps[place_of(window - 1)]);
    }
    if (here) {
        const u32 at = search(shared.stamps, window, target);
        found.after = start + at;
        found.held = shared.stamps[place_of(at == 0 ? 0 : at - 1)];
        found.next = shared.stamps[place_of(at)];
    }
    if (window < stream.len && __syncthreads_or(mine && !here)) {
        const u32 stride = (stream.len + WINDOW - 1) / WINDOW;
        const u32 samples = (stream.len + stride - 1) / stride;
        fetch_stamps(shared, stamps, samples, stride, WINDOW + 1);
        __syncthreads();
        if (mine && !here) {
            found.after = search_all(shared, samples, stride, stamps, stream.len, target);
            if (found.after != 0) found.held = nanos(stamps[found.after - 1]);
            if (found.after != stream.len) found.next = nanos(stamps[found.after]);
        }
    }
    return found;
}

// True if a time at the target is none. As seconds, a NaN is the earliest instant, and what is infinite or too large is the
// earliest or the latest one. Then stamps are in no order, so the search may end anywhere. If the rest increases, a
// bracket without doubt is still that of the neighbours. Equal stamps are in doubt too: an f32 cannot hold a clock's time.
template <class Time>
__device__ __forceinline__ bool is_in_doubt(const Found& found, const Time* stamps, u32 len, i64 target) {
    constexpr i64 LATEST = NO_AGE, EARLIEST = -NO_AGE - 1;
    if (target == EARLIEST || target == LATEST) return true;
    const u32 after = found.after;
    if (after != 0 && (found.held == EARLIEST || found.held > target)) return true;
    if (after < len && (found.next == LATEST || found.next <= target)) return true;
    return (after > 1 && nanos(stamps[after - 2]) >= found.held) ||
           (after + 1 < len && nanos(stamps[after + 1]) <= found.next);
}

// The report of a target, and its weight, which may be computed later.
struct Pending {
    Aligned row;
    u64 at; // among the targets of all streams
    bool mine;
};

// The thread that has found the rows of a target gives them to the other threads, counted from
// `first_row`. With WEIGHT it also gives the weight.
template <bool WEIGHT>
__device__ __forceinline__ void share(const Pending& pending, u32 first_row, Shared& shared) {
    if (pending.mine) {
        shared.brackets[threadIdx.x] = {first_row + pending.row.a, pending.row.mode};
        if (WEIGHT) shared.weights[threadIdx.x] = weight_of(pending.row);
    }
    __syncthreads();
}

// Finds the brackets of the `count` targets of an episode that start with number `first`.
template <class Time, bool WEIGHT>
__device__ __forceinline__ Pending find_brackets(
    const Batch& batch, const Stream& stream, u32 stream_at, u32 episode, u32 first, u32 count,
    Shared& shared) {
    const Time* stamps =
        static_cast<const Time*>(stream.stamps) + static_cast<u64>(episode) * stream.len;
    const u64 at = static_cast<u64>(episode) * batch.steps + first + threadIdx.x;
    const bool mine = threadIdx.x < count;
    i64 target = 0;
    if (mine) target = nanos(static_cast<const Time*>(batch.targets)[at]);
    const Found found = find(stream, stamps, first, count, mine, target, shared);
    Pending pending = {{}, static_cast<u64>(stream_at) * batch.episodes * batch.steps + at, mine};
    if (mine) {
        pending.row = align_rows(stream.rule, found.held, found.next, stream.len, found.after, target);
        if constexpr (!SAME<Time, i64>) {
            if (stream.len != 0 && is_in_doubt(found, stamps, stream.len, target)) {
                pending.row = {0, 0, 0.0f, MODE_NAN, false, NO_AGE, 0, 1};
            }
        }
    }
    share<WEIGHT>(pending, 0, shared);
    return pending;
}

// Finds the brackets of the `count` targets that start with number `first` of all targets. Rows are
// counted from the first row of all episodes. Times are nanoseconds.
__device__ __forceinline__ Pending find_ragged_brackets(
    const Batch& batch, const Stream& stream, u32 stream_at, u32 first, u32 count, Shared& shared) {
    const u32 at = first + threadIdx.x;
    Pending pending = {{}, static_cast<u64>(stream_at) * batch.all_steps + at, threadIdx.x < count};
    Span rows = {0, 0};
    if (pending.mine) {
        const i64 target = static_cast<const i64*>(batch.targets)[at];
        const u32 episode = episode_of(batch.target_offsets, batch.episodes, batch.steps, at);
        if (episode != NONE) rows = span(stream.row_offsets, episode, stream.len, stream.all_rows);
        const u32 len = rows.end - rows.first;
        const i64* stamps = static_cast<const i64*>(stream.stamps) + rows.first;
        const u32 after = count_until(stamps, len, target);
        const i64 held = after == 0 ? 0 : stamps[after - 1];
        const i64 next = after == len ? 0 : stamps[after];
        pending.row = align_rows(stream.rule, held, next, len, after, target);
    }
    share<true>(pending, rows.first, shared);
    return pending;
}

// Writes the report of a target. From here on the block writes memory that earlier kernels may still
// read.
__device__ __forceinline__ void tell(const Batch& batch, const Pending& pending, bool report) {
    wait_for_earlier_kernels();
    if (pending.mine && report && batch.valid != nullptr) {
        batch.valid[pending.at] = pending.row.valid;
        batch.age_ns[pending.at] = pending.row.age_ns;
    }
}

// What a thread block works on.
struct Tile {
    u32 targets;
    u32 first_pack;
    u32 packs;
    bool report; // whether it writes validity and ages
};

// Streams the rows of a tile. `rows` are those of the episode, `out` is the row of the tile's first
// target. Without WEIGHT the weights are not known yet: they are computed while the first rows are on
// their way.
template <class In, class Out, int N, bool WEIGHT>
__device__ __forceinline__ void write_rows(
    const Batch& batch, const Stream& stream, const Tile& tile, const Pending& pending,
    const In* rows, Out* out, Shared& shared) {
    u32 target = stream.per_row.quotient(threadIdx.x);
    u32 pack = threadIdx.x - target * stream.tile_packs;
    bool is_first = true;
    do {
        Fetched<In, N> in[UNROLL];
        Mode mode[UNROLL];
        u32 element[UNROLL];
        u32 row[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            row[i] = target;
            const bool inside = target < tile.targets && pack < tile.packs;
            element[i] = inside ? (tile.first_pack + pack) * N : NONE;
            if (inside) {
                const Bracket bracket = shared.brackets[target];
                mode[i] = static_cast<Mode>(bracket.mode);
                const In* a = rows + static_cast<u64>(bracket.a) * stream.dim;
                fetch(in[i], mode[i], a, a + stream.dim, element[i]);
            }
            target += stream.step_targets;
            pack += stream.step_packs;
            if (pack >= stream.tile_packs) {
                pack -= stream.tile_packs;
                ++target;
            }
        }
        // By now the loads of the first rows are under way.
        if (is_first) {
            if (!WEIGHT && pending.mine && pending.row.mode == MODE_BETWEEN) {
                shared.weights[threadIdx.x] = weight_of(pending.row);
            }
            tell(batch, pending, tile.report);
            if (!WEIGHT) __syncthreads();
        }
        is_first = false;
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            if (element[i] == NONE) continue;
            const float weight = mode[i] == MODE_BETWEEN ? shared.weights[row[i]] : 0.0f;
            put(in[i], mode[i], weight, out + static_cast<u64>(row[i]) * batch.row, element[i]);
        }
    } while (target < tile.targets);
}

// The same for rows with angles or quaternions, element by element.
template <class In, class Out>
__device__ __forceinline__ void write_lanes(
    const Batch& batch, const Stream& stream, const Tile& tile, const Pending& pending,
    const In* rows, Out* out, Shared& shared) {
    tell(batch, pending, tile.report);
    for (u32 i = threadIdx.x; i < tile.targets * stream.tile_packs; i += THREADS) {
        const u32 target = stream.per_row.quotient(i);
        const u32 pack = i - target * stream.tile_packs;
        if (pack >= tile.packs) continue;
        const u32 element = tile.first_pack + pack;
        const Bracket bracket = shared.brackets[target];
        const Mode mode = static_cast<Mode>(bracket.mode);
        const In* a = rows + static_cast<u64>(bracket.a) * stream.dim;
        const In* b = a + stream.dim;
        Out* place = out + static_cast<u64>(target) * batch.row;
        if (mode == MODE_BETWEEN) {
            const float weight = shared.weights[target];
            from_float(between_lane(a, b, weight, stream.lanes, element), place[element]);
        } else {
            Fetched<In, 1> in;
            fetch(in, mode, a, b, element);
            put(in, mode, 0.0f, place, element);
        }
    }
}

// PACK: elements per access, or 0 if the stream says how many; then rows may have lanes, too.
template <class In, class Out, int PACK>
__device__ __forceinline__ void write_tile(
    const Batch& batch, const Stream& stream, u32 episode, u32 first, const Tile& tile,
    const Pending& pending, Shared& shared) {
    const In* rows = static_cast<const In*>(stream.rows) +
                     static_cast<u64>(episode) * stream.len * stream.dim;
    Out* out = static_cast<Out*>(batch.out) + stream.out_at +
               (static_cast<u64>(episode) * batch.steps + first) * batch.row;
    if constexpr (PACK != 0) {
        write_rows<In, Out, PACK, false>(batch, stream, tile, pending, rows, out, shared);
    } else {
        if (stream.lanes != nullptr) {
            write_lanes<In, Out>(batch, stream, tile, pending, rows, out, shared);
            return;
        }
        constexpr int WIDEST = 16 / sizeof(Out);
        switch (stream.pack) {
            case 8:
                if constexpr (WIDEST >= 8)
                    write_rows<In, Out, 8, true>(batch, stream, tile, pending, rows, out, shared);
                break;
            case 4: write_rows<In, Out, 4, true>(batch, stream, tile, pending, rows, out, shared); break;
            case 2: write_rows<In, Out, 2, true>(batch, stream, tile, pending, rows, out, shared); break;
            default: write_rows<In, Out, 1, true>(batch, stream, tile, pending, rows, out, shared);
        }
    }
}

// PACK: as for `write_tile`; if it is not 0, all streams are of type In.
template <class In, class Out, class Time, bool RAGGED, int PACK>
__device__ __forceinline__ void resample(const Batch& batch) {
    __shared__ Shared shared;
    launch_later_kernels();
    u32 at = 0;
#pragma unroll
    for (u32 i = 1; i < STREAMS_PER_LAUNCH; ++i) at += blockIdx.x >= batch.first_block[i];
    const Stream* stream = &batch.of[at];
    const u32 block = blockIdx.x - batch.first_block[at];
    const u32 tile_row = stream->pack_tiles.quotient(block);
    const u32 pack_tile = block - tile_row * stream->pack_tiles.by;
    const u32 episode = stream->target_tiles.quotient(tile_row);
    const u32 target_tile = tile_row - episode * stream->target_tiles.by;
    const u32 first = target_tile * stream->tile_targets;
    Tile tile;
    tile.targets = min(stream->tile_targets, (RAGGED ? batch.all_steps : batch.steps) - first);
    tile.first_pack = pack_tile * stream->tile_packs;
    tile.packs = min(stream->tile_packs, stream->packs - tile.first_pack);
    // If the inputs are ready, only writes wait.
    wait_for_inputs(batch.inputs_ready);
    tile.report = pack_tile == 0;
    Pending pending;
    if constexpr (RAGGED) {
        pending = find_ragged_brackets(batch, *stream, at, first, tile.targets, shared);
    } else {
        pending =
            find_brackets<Time, PACK == 0>(batch, *stream, at, episode, first, tile.targets, shared);
    }
    if constexpr (PACK != 0) {
        write_tile<In, Out, PACK>(batch, *stream, episode, first, tile, pending, shared);
    } else if (stream->dtype == DTYPE_F32) {
        write_tile<F32, Out, 0>(batch, *stream, episode, first, tile, pending, shared);
    } else if constexpr (!SAME<Out, F32>) {
        write_tile<Out, Out, 0>(batch, *stream, episode, first, tile, pending, shared);
    }
}

#define RESAMPLE(NAME, IN, OUT, TIME, RAGGED, PACK)                \
    extern "C" __global__ void __launch_bounds__(THREADS, 4)       \
        NAME(const __grid_constant__ Batch batch) {                \
        resample<IN, OUT, TIME, RAGGED, PACK>(batch);              \
    }
RESAMPLE(resample_f32, F32, F32, i64, false, 0)
RESAMPLE(resample_f16, F16, F16, i64, false, 0)
RESAMPLE(resample_bf16, Bf16, Bf16, i64, false, 0)
RESAMPLE(resample_ragged_f32, F32, F32, i64, true, 0)
RESAMPLE(resample_ragged_f16, F16, F16, i64, true, 0)
RESAMPLE(resample_ragged_bf16, Bf16, Bf16, i64, true, 0)
// For times in seconds.
RESAMPLE(resample_f32_seconds32, F32, F32, float, false, 0)
RESAMPLE(resample_f16_seconds32, F16, F16, float, false, 0)
RESAMPLE(resample_bf16_seconds32, Bf16, Bf16, float, false, 0)
RESAMPLE(resample_f32_seconds64, F32, F32, double, false, 0)
RESAMPLE(resample_f16_seconds64, F16, F16, double, false, 0)
RESAMPLE(resample_bf16_seconds64, Bf16, Bf16, double, false, 0)
// For streams that all have one type, PACK elements per access, and no lanes. These kernels are
// shorter, and wait less.
RESAMPLE(resample_4_f32_f32, F32, F32, i64, false, 4)
RESAMPLE(resample_4_f32_f16, F32, F16, i64, false, 4)
RESAMPLE(resample_8_f32_f16, F32, F16, i64, false, 8)
RESAMPLE(resample_4_f16_f16, F16, F16, i64, false, 4)
RESAMPLE(resample_8_f16_f16, F16, F16, i64, false, 8)
RESAMPLE(resample_4_f32_bf16, F32, Bf16, i64, false, 4)
RESAMPLE(resample_8_f32_bf16, F32, Bf16, i64, false, 8)
RESAMPLE(resample_4_bf16_bf16, Bf16, Bf16, i64, false, 4)
RESAMPLE(resample_8_bf16_bf16, Bf16, Bf16, i64, false, 8)

} // namespace resample
