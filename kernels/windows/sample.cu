// The items of the next batch of a sampler: the twin of `WindowSampler.at` in python/robocache/training/sampler.py. The
// counter of batches is on the device, so that a CUDA graph that is replayed takes one batch after the other.
#include "../common.cuh"

namespace windows {

// One block writes a batch, because all of its threads read the counter before one of them moves it on.
constexpr u32 SAMPLE_THREADS = 256;
constexpr u32 ROUNDS = 6;
constexpr u64 GOLDEN = 0x9E3779B97F4A7C15ull;

// The parameter of `sample_windows`.
struct Sample {
    u64* taken; // batches that came before, over all epochs of the training
    i64* items; // [3, batch_size]: episodes, instants, epochs of the clock
    const i64* ends;         // [ranges]: the items of a range and of all before it
    const i64* first_ns;     // [ranges]: its first instant
    const i64* episodes;     // [ranges]: its episode
    const i64* epochs;       // [ranges]: its epoch of the clock
    const i64* episode_ends; // [episodes]: the items of an episode and of all before it; null without weights
    const double* chances;   // [episodes]: the chance of an episode and of all before it; null without weights
    u64 seed;
    u64 period_ns;
    u64 count; // items in all
    u64 batches; // of this rank in an epoch of the training
    u64 batch_size;
    u64 rank;
    u64 world;
    u32 range_count;
    u32 episode_count;
    u32 shuffle;
    u32 reserved;
};

// A hash of 64 bits: `_mix` of the twin.
__device__ __forceinline__ u64 mix(u64 x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// The key of a round, of what `_keys` of the twin begins with.
__device__ __forceinline__ u64 key_of(u64 start, u32 round) {
    return mix(start + (round + 1) * GOLDEN);
}

// Where a permutation of `0..count` takes a position: `_permuted` of the twin.
__device__ inline u64 permuted(u64 position, u64 count, u64 start) {
    const u32 bits = count > 1 ? 64 - __clzll(static_cast<i64>(count - 1)) : 0;
    const u32 half = max(1u, (bits + 1) / 2);
    const u64 low = (1ull << half) - 1;
    do {
        u64 left = position >> half;
        u64 right = position & low;
        for (u32 round = 0; round < ROUNDS; ++round) {
            const u64 next = left ^ (mix(right ^ key_of(start, round)) & low);
            left = right;
            right = next;
        }
        position = (left << half) | right;
    } while (position >= count);
    return position;
}

// How many of ascending numbers are at most `value`.
template <class Number>
__device__ __forceinline__ u32 count_at_most(const Number* numbers, u32 count, Number value) {
    u32 first = 0;
    while (count != 0) {
        const u32 half = count / 2;
        if (numbers[first + half] <= value) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

// Where a slot is between 0 and 1, which is beyond the last: `_shares` of the twin.
__device__ __forceinline__ double share_of(u64 slot, double offset, u64 count) {
    constexpr double BELOW_ONE = 0x1.fffffffffffffp-1;
    const double share = (static_cast<double>(slot) + offset) / static_cast<double>(count);
    return share < BELOW_ONE ? share : BELOW_ONE;
}

// The first slot whose share is not below a chance: `_first_slots` of the twin.
__device__ inline u64 first_slot(double chance, double offset, u64 count) {
    const double guess = floor(chance * static_cast<double>(count) - offset);
    u64 first = guess < 0.0 ? 0 : min(static_cast<u64>(guess), count);
    while (first < count && share_of(first, offset, count) < chance) ++first;
    while (first > 0 && share_of(first - 1, offset, count) >= chance) --first;
    return first;
}

// The item at a position of the order of an epoch.
__device__ inline u64 item_at(const Sample& job, u64 position, u64 epoch) {
    const u64 start = mix(mix(job.seed + GOLDEN) ^ epoch);
    if (job.chances == nullptr) return job.shuffle ? permuted(position, job.count, start) : position;
    const u64 slot = permuted(position, job.count, start);
    const double offset = static_cast<double>(key_of(start, 0) >> 11) * 0x1p-53;
    const u32 episode = count_at_most(job.chances, job.episode_count, share_of(slot, offset, job.count));
    const u64 first = episode == 0 ? 0 : first_slot(job.chances[episode - 1], offset, job.count);
    const u64 own = first_slot(job.chances[episode], offset, job.count) - first;
    const u64 begin = episode == 0 ? 0 : static_cast<u64>(job.episode_ends[episode - 1]);
    const u64 count = static_cast<u64>(job.episode_ends[episode]) - begin;
    const u64 turn = mix(episode ^ key_of(start, 1)) % count;
    return begin + ((slot - first) * count + turn) / own;
}

extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS)
    sample_windows(const __grid_constant__ Sample job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    const u64 taken = *job.taken;
    __syncthreads();
    if (threadIdx.x == 0) *job.taken = taken + 1;
    const u64 epoch = taken / job.batches;
    const u64 number = taken - epoch * job.batches;
    const u64 first = (number * job.world + job.rank) * job.batch_size;
    for (u64 at = threadIdx.x; at < job.batch_size; at += SAMPLE_THREADS) {
        // A last batch that lacks items has an episode that no cache has: its windows are invalid.
        i64 episode = -1;
        i64 instant = 0;
        i64 of_clock = -1;
        if (first + at < job.count) {
            const i64 item = static_cast<i64>(item_at(job, first + at, epoch));
            const u32 range = count_at_most(job.ends, job.range_count, item);
            const i64 before = range == 0 ? 0 : job.ends[range - 1];
            episode = job.episodes[range];
            instant = job.first_ns[range] + (item - before) * static_cast<i64>(job.period_ns);
            of_clock = job.epochs[range];
        }
        job.items[at] = episode;
        job.items[job.batch_size + at] = instant;
        job.items[2 * job.batch_size + at] = of_clock;
    }
}

} // namespace windows
