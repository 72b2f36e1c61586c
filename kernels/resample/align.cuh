// From a target time to the rows that give its value: the twin of crates/ops/src/align.rs.
#pragma once
#include "interpolate.cuh"

enum Strategy : u32 { STRATEGY_HOLD = 0, STRATEGY_NEAREST = 1, STRATEGY_INTERPOLATE = 2 };
enum Fill : u32 { FILL_ZERO = 0, FILL_LAST = 1, FILL_FIRST = 2 };

constexpr i64 NO_AGE = 0x7FFFFFFFFFFFFFFFll;

// An instant of a caller's array in nanoseconds; of seconds the product as a double, to the nearest, ties to
// even, as in crates/ops/src/resample/times.rs. What 64 bits do not hold becomes the closest instant, a NaN the earliest.
__device__ __forceinline__ i64 nanos(i64 time) {
    return time;
}
__device__ __forceinline__ i64 nanos(double seconds) {
    return __double2ll_rn(seconds * 1e9);
}
__device__ __forceinline__ i64 nanos(float seconds) {
    return nanos(static_cast<double>(seconds));
}

struct AlignRule {
    i64 max_age_ns;
    i64 max_gap_ns;
    u32 strategy;
    u32 fill;
};

struct Aligned {
    u32 a;
    u32 b;
    float weight;
    Mode mode;
    bool valid;
    i64 age_ns;
    i64 held_age_ns; // if it is between two rows: since the one that is held,
    i64 gap_ns;      // and from that one to the next
};

// a - b, saturating.
__device__ __forceinline__ i64 since(i64 a, i64 b) {
    const i64 difference = static_cast<i64>(static_cast<u64>(a) - static_cast<u64>(b));
    const bool overflow = ((a ^ b) & (a ^ difference)) < 0;
    return !overflow ? difference : a < 0 ? -NO_AGE - 1 : NO_AGE;
}

__device__ __forceinline__ i64 magnitude(i64 value) {
    return value >= 0 ? value : value == -NO_AGE - 1 ? NO_AGE : -value;
}

// The rows for `target`, without the weight. The first `after` of `len` rows are at or before it.
// `stamp_held` is the stamp of row `after - 1` and `stamp_next` that of row `after`, if these rows
// exist.
__device__ inline Aligned align_rows(
    const AlignRule& rule, i64 stamp_held, i64 stamp_next, u32 len, u32 after, i64 target) {
    Aligned out = {0, 0, 0.0f, MODE_NOTHING, false, NO_AGE, 0, 1};
    if (after == 0) {
        if (rule.fill == FILL_FIRST && len != 0) {
            out.mode = MODE_ROW;
            out.age_ns = since(target, stamp_next);
        }
        return out;
    }
    const u32 held = after - 1;
    const i64 held_age = since(target, stamp_held);
    u32 row = held;
    i64 row_age = held_age;
    bool alone = true;
    // An exact hit needs no neighbour, and a target after the newest row has none.
    if (after < len && held_age != 0 && rule.strategy != STRATEGY_HOLD) {
        if (rule.strategy == STRATEGY_NEAREST) {
            if (since(stamp_next, target) < held_age) {
                row = after;
                row_age = since(target, stamp_next);
            }
        } else {
            alone = false;
            out.held_age_ns = held_age;
            out.gap_ns = since(stamp_next, stamp_held);
            out.valid = out.gap_ns <= rule.max_gap_ns;
            out.age_ns = since(target, stamp_next);
        }
    }
    if (alone) {
        out.valid = magnitude(row_age) <= rule.max_age_ns;
        out.age_ns = row_age;
    }
    if (out.valid) {
        out.mode = alone ? MODE_ROW : MODE_BETWEEN;
        out.a = row;
        out.b = alone ? row : after;
    } else if (rule.fill != FILL_ZERO) {
        out.mode = MODE_ROW;
        out.a = held;
        out.b = held;
        out.age_ns = held_age;
    }
    return out;
}

// The weight of row b, if the target is between two rows. It is a separate function, because the
// division takes long.
__device__ __forceinline__ float weight_of(const Aligned& rows) {
    return static_cast<float>(
        static_cast<double>(rows.held_age_ns) / static_cast<double>(rows.gap_ns));
}

// The same with the weight.
__device__ inline Aligned align(
    const AlignRule& rule, i64 stamp_held, i64 stamp_next, u32 len, u32 after, i64 target) {
    Aligned out = align_rows(rule, stamp_held, stamp_next, len, after, target);
    if (out.mode == MODE_BETWEEN) out.weight = weight_of(out);
    return out;
}
