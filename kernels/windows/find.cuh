// The rows around a target that an instant sees: the twin of crates/ops/src/windows/find.rs.
#pragma once
#include "../resample/align.cuh"
#include "../resample/ragged.cuh"

namespace windows {

// Which rows a step sees: `Visibility` in crates/ops/src/windows/spec.rs.
enum View : u32 { VIEW_SERVED = 0, VIEW_STRICT = 1, VIEW_ALL = 2 };
// The value between a row of a plan and the next row.
enum Until : u8 { UNTIL_HELD = 1, UNTIL_NOTHING = 2 };
// When a merged row may be used: `ValidWhen` in crates/ops/src/align.rs.
enum When : u32 { WHEN_ALL = 0, WHEN_ANY = 1, WHEN_LISTED = 2 };

constexpr i64 LEAST = -NO_AGE - 1;

// The rows of a span: the first, and the one after the last.
struct SpanRows {
    u64 begin;
    u64 end;
};

// An operator on a value: `Operator` in crates/ops/src/operators/mod.rs.
struct Operator {
    double a;
    double b;
    double c;
    u32 kind;
    u32 reserved;
};

// An element of a part: where it comes from, and its operators.
struct Element {
    u32 at;
    u32 rotation; // 0: the element `at`; otherwise 1 + 3 * row + column of the rotation of the quaternion at `at`
    u32 first_operator;
    u32 operators;
    u32 unwraps; // whether its angle has no jumps from step to step
    u32 reserved;
};

// A ring: its columns, and how a row becomes its part of a step.
struct Ring {
    const u8* rows;
    const u8* coordinates;
    const u32* count;
    const i64* stamp_ns;
    const i64* received_ns;
    const i64* left_ns;
    const i64* received_from;
    const i64* left_until;
    const i64* until_ns;
    const u8* replaced;
    const u8* until_next; // null if rows are no plans
    const SpanRows* spans;
    const u8* lanes;         // null where all are linear
    const u32* places;       // where each element of the part is in the step; null if they are the step
    const Element* elements; // null if the part is the row
    const Operator* operators;
    u32 dtype;
    u32 row_len;
    u32 part_len;
    u32 unwraps;
};

struct Stream {
    const Ring* rings;
    const i64* offsets_ns;
    AlignRule rule;
    u32 ring_count;
    u32 steps;
    u32 step_len;
    u32 dtype;
    u32 view;
    u32 present;
    u32 sparse;
    u32 coordinates; // numbers of a step
    u32 inputs;      // of merged clouds; 0 for others
    u32 when;
    u32 needed;
    u32 chunk;  // steps of a task
    u32 chunks; // of a window
    u32 tile;   // elements of a task
    u32 tiles;  // of a step
    u32 tasks;  // of a window; 0 if this kernel does not write the stream
    u32 within; // whether a step beyond its span, or beyond the rows of a ring in it, is invalid
    u32 scaled; // whether rows are bytes, and become floats in 0..1
};

// a + b, saturating.
__device__ __forceinline__ i64 later(i64 a, i64 b) {
    const i64 sum = static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b));
    const bool overflow = (~(a ^ b) & (a ^ sum)) < 0;
    return !overflow ? sum : a < 0 ? LEAST : NO_AGE;
}

// Whether a merged row can be used at a target. If one of its clouds is too old, it cannot: no cloud
// can be taken out of a row.
__device__ inline bool suffices(const Stream& stream, const i64* until_ns, i64 target) {
    u32 has = 0;
    u32 count = 0;
    for (u32 input = 0; input < stream.inputs; ++input) {
        const i64 until = until_ns[input];
        if (until == LEAST) continue;
        if (until < target) return false;
        if (input < 32) has |= 1u << input;
        count += input < 32;
    }
    switch (stream.when) {
        case WHEN_ALL: return count == stream.inputs;
        case WHEN_ANY: return has != 0;
        default: return (has & stream.needed) == stream.needed;
    }
}

// Where a window looks: the rows of its span, and its instant.
struct Place {
    u64 begin;
    u32 len;
    i64 instant;
};

// The rows of a ring that give the value at a target, counted from the first of the span. `refused` asks
// for the fill.
__device__ inline Aligned find(
    const Stream& stream, const Ring& ring, const Place& place, i64 target, bool refused) {
    const i64* stamps = ring.stamp_ns + place.begin;
    const u32 after = count_until(stamps, place.len, target);
    u32 held = NONE;
    u32 next = NONE;
    if (stream.view == VIEW_ALL || (stream.view == VIEW_SERVED && target > place.instant)) {
        const u8* replaced = ring.replaced + place.begin;
        for (u32 row = after; row-- != 0;) {
            if (replaced[row]) continue;
            held = row;
            break;
        }
        for (u32 row = after; row < place.len; ++row) {
            if (replaced[row]) continue;
            next = row;
            break;
        }
    } else {
        const i64 instant = place.instant;
        const i64* received = ring.received_ns + place.begin;
        const i64* left = ring.left_ns + place.begin;
        // No row beyond these bounds is seen.
        const i64* received_from = ring.received_from + place.begin;
        const i64* left_until = ring.left_until + place.begin;
        for (u32 row = after; row-- != 0 && left_until[row] > instant;) {
            if (received[row] > instant || left[row] <= instant) continue;
            held = row;
            break;
        }
        for (u32 row = after; row < place.len && received_from[row] <= instant; ++row) {
            if (received[row] > instant || left[row] <= instant) continue;
            next = row;
            break;
        }
    }
    const i64 stamp_held = held == NONE ? 0 : stamps[held];
    if (held != NONE && ring.until_next != nullptr && stamp_held < target) {
        const u8 until = ring.until_next[place.begin + held];
        if (until == UNTIL_HELD || until == UNTIL_NOTHING) next = NONE;
        refused |= until == UNTIL_NOTHING;
    }
    const i64 stamp_next = next == NONE ? 0 : stamps[next];
    // As if there were only these two rows.
    const u32 before = held != NONE;
    Aligned out =
        align(stream.rule, stamp_held, stamp_next, before + (next != NONE), before, target);
    if (out.mode == MODE_NOTHING) return out;
    out.a = out.a < before ? held : next;
    out.b = out.b < before ? held : next;
    if (!out.valid) return out;
    if (!refused && stream.inputs != 0 && out.mode == MODE_ROW) {
        refused = !suffices(stream, ring.until_ns + (place.begin + out.a) * stream.inputs, target);
    }
    if (refused) {
        const bool last = stream.rule.fill != FILL_ZERO;
        out.valid = false;
        out.mode = last ? MODE_ROW : MODE_NOTHING;
        out.a = out.b = held;
        if (last) out.age_ns = since(target, stamp_held);
    }
    return out;
}

} // namespace windows
