// Episodes of several lengths, as concatenated elements with the offsets of each episode.
#pragma once
#include "../common.cuh"

// Number of the first `len` values at or before `value`. Each step makes seven independent reads.
__device__ __forceinline__ u32 count_until(const i64* values, u32 len, i64 value) {
    u32 low = 0;
    u32 size = len;
    while (size != 0) {
        const u32 stride = size / 8 + 1;
        u32 steps = 0;
#pragma unroll
        for (u32 k = 1; k < 8; ++k) {
            const u32 at = k * stride - 1;
            steps += at < size && values[low + at] <= value;
        }
        low += steps * stride;
        size = min(size - steps * stride, stride - 1);
    }
    return low;
}

// Elements of an episode: the first and one past the last.
struct Span {
    u32 first;
    u32 end;
};

// The elements that the offsets give to an episode. Elements beyond the number `all` are left out, so
// that wrong offsets lead to no wrong access.
__device__ __forceinline__ Span span(const i64* offsets, u32 episode, u32 each, u32 all) {
    if (offsets == nullptr) return {episode * each, (episode + 1) * each};
    const i64 first = min(max(offsets[episode], 0ll), static_cast<i64>(all));
    const i64 end = min(max(offsets[episode + 1], first), static_cast<i64>(all));
    return {static_cast<u32>(first), static_cast<u32>(end)};
}

// The episode of an element, given [B + 1] offsets, or `each` elements per episode. If offsets are wrong
// and no episode has the element, it is `NONE`.
__device__ __forceinline__ u32 episode_of(const i64* offsets, u32 episodes, u32 each, u32 element) {
    if (offsets == nullptr) return element / each;
    const u32 begun = count_until(offsets, episodes + 1, element);
    return begun != 0 && begun <= episodes ? begun - 1 : NONE;
}
