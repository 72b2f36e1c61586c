// Windows of episodes, the twin of crates/ops/src/windows/cpu.rs: one launch writes all streams of all items into
// the packed buffer. A warp writes some steps of one stream of one item, or, if rows are large, a part of a step.
// Each thread of the warp finds the rows of one step. Then all of them write the elements of these steps.
#include "find.cuh"

namespace windows {

constexpr u32 THREADS = 128;
constexpr u32 WARPS = THREADS / WARP;
// Numbers of items that go with the launch itself, at most, and those of a usual batch: the host copies them all at
// every launch.
constexpr u32 WORDS = 448;
constexpr u32 FEW_WORDS = 128;
// Parts begin at multiples of this.
constexpr u64 ALIGNMENT = 64;
// Loads of 16 bytes that a thread has under way at once.
constexpr u32 UNROLL = 4;
constexpr double TURN = 6.28318530717958647692;

enum OperatorKind : u32 { OPERATOR_AFFINE = 0, OPERATOR_CLAMP = 1, OPERATOR_UNWRAP = 2 };

// What a launch writes.
//
// The numbers of the items go with the launch, or are in memory that the device reaches. From the host come instants
// [windows], spans [windows] and, if there are any, latencies [streams, windows]. If `instants` is not null, episodes
// and instants are on the device, and only latencies are numbers.
struct Windows {
    const Stream* streams;
    u8* out;
    const i64* numbers; // null if they go with the launch
    const i64* instants;
    const i64* episodes;
    const i64* epochs; // null for the latest epoch that had begun
    const u32* first_span; // [episodes + 1]
    const i64* span_epoch;
    const i64* span_begin;
    const i64* span_end;
    u32 stream_count;
    u32 windows;
    u32 tasks; // of a window
    u32 has_latency;
    u32 episode_count;
    u32 reserved;
};

// The parameter of `write_windows` and of `write_few_windows`.
struct WithWords {
    Windows job;
    i64 words[WORDS];
};
struct WithFewWords {
    Windows job;
    i64 words[FEW_WORDS];
};

// The rows of a step.
struct Found {
    u32 a;
    u32 b;
    float weight;
    Mode mode;
};

// Where a stream's parts are.
struct Parts {
    u8* values;
    u8* coordinates;
    i64* ages;
    u32* counts;
    u8* valid;
};

__device__ __forceinline__ u32 size_of(u32 dtype) {
    return dtype == DTYPE_U8 ? 1 : dtype == DTYPE_F16 || dtype == DTYPE_BF16 ? 2 : 4;
}

__device__ __forceinline__ u8* part(u8*& at, u64 bytes) {
    u8* const begin = at;
    at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return begin;
}

// The parts of a stream, from where they begin; moves `at` to the next stream's.
__device__ __forceinline__ Parts parts_of(const Stream& stream, u64 windows, u8*& at) {
    Parts parts = {};
    const u64 steps = windows * stream.steps;
    parts.values = part(at, steps * stream.step_len * size_of(stream.dtype));
    if (stream.sparse) parts.coordinates = part(at, steps * stream.coordinates * sizeof(i32));
    parts.ages = reinterpret_cast<i64*>(part(at, steps * sizeof(i64)));
    if (stream.sparse) parts.counts = reinterpret_cast<u32*>(part(at, steps * sizeof(u32)));
    parts.valid = part(at, steps);
    return parts;
}

// The number of an item's span; `NONE` for an unknown episode or epoch.
__device__ inline u32 span_of(const Windows& job, const i64* numbers, u32 item, i64 instant) {
    if (job.instants == nullptr) return static_cast<u32>(numbers[job.windows + item]);
    const i64 episode = job.episodes[item];
    if (episode < 0 || episode >= job.episode_count) return NONE;
    const u32 first = job.first_span[episode];
    const u32 end = job.first_span[episode + 1];
    u32 found = job.epochs == nullptr ? first : NONE;
    for (u32 span = first; span < end; ++span) {
        if (job.epochs == nullptr ? job.span_begin[span] <= instant
                                  : job.span_epoch[span] == job.epochs[item]) {
            found = span;
        }
    }
    return found;
}

// ---- Elements -----------------------------------------------------------------------------------

// Writes what `made` makes of `count` units of rows to steps that follow each other. A step without a row gets that of a
// unit of zeros. A thread has LOADS loads under way at once.
template <u32 LOADS, class In, class Out, class Made>
__device__ __forceinline__ void write_units(
    const Found* found, u32 steps, const In* rows, Out* out, u32 row_units, u32 first, u32 count, Made made) {
    const u32 all = steps * count;
    for (u32 base = threadIdx.x % WARP; base < all; base += WARP * LOADS) {
        In units[LOADS];
#pragma unroll
        for (u32 k = 0; k < LOADS; ++k) {
            const u32 at = base + k * WARP;
            const u32 step = steps == 1 ? 0 : at / count;
            units[k] = In{};
            if (at < all && found[step].mode != MODE_NOTHING) {
                units[k] = rows[static_cast<u64>(found[step].a) * row_units + first + (at - step * count)];
            }
        }
#pragma unroll
        for (u32 k = 0; k < LOADS; ++k) {
            const u32 at = base + k * WARP;
            const u32 step = steps == 1 ? 0 : at / count;
            if (at < all) out[static_cast<u64>(step) * row_units + first + (at - step * count)] = made(units[k]);
        }
    }
}

// Copies bytes `first..end` of rows of `row_bytes` to steps that follow each other, in the widest units that fit.
__device__ inline void copy_bytes(
    const Found* found, u32 steps, const u8* rows, u8* out, u64 row_bytes, u32 first, u32 end) {
    if (end <= first) return;
    const u32 width = static_cast<u32>(row_bytes) | first | end;
    const auto copy = [&](auto unit) {
        using Unit = decltype(unit);
        constexpr u32 size = sizeof(Unit);
        write_units<UNROLL>(
            found, steps, reinterpret_cast<const Unit*>(rows), reinterpret_cast<Unit*>(out),
            static_cast<u32>(row_bytes / size), first / size, (end - first) / size, [](Unit same) { return same; });
    };
    if (width % 16 == 0) {
        copy(uint4{});
    } else if (width % 8 == 0) {
        copy(uint2{});
    } else if (width % 4 == 0) {
        copy(u32{});
    } else {
        copy(u8{});
    }
}

// byte / 255, rounded to nearest. The product of a byte and the upper bits of 1/255 is exact, and the rest is small
// enough that the sum is rounded as the quotient is: a test has all bytes. A division takes several times as long.
__device__ __forceinline__ float unit_of(u8 byte) {
    constexpr float HIGH = 0x1.01p-8f, LOW = 0x1.010102p-24f;
    const float value = static_cast<float>(byte);
    return __fmaf_rn(value, HIGH, value * LOW);
}

// Writes bytes `first..end` of rows of `row_len` bytes as floats in 0..1 to steps that follow each other.
template <class Out>
__device__ __noinline__ void write_scaled(
    const Found* found, u32 steps, const u8* rows, u8* out, u32 row_len, u32 first, u32 end) {
    if (end <= first) return;
    const auto scale = [&](auto unit) {
        using Bytes = decltype(unit);
        constexpr u32 size = sizeof(Bytes);
        using Floats = Pack<Out, size>;
        // A load brings a quarter of the bytes of one in `copy_bytes`.
        write_units<2 * UNROLL>(
            found, steps, reinterpret_cast<const Bytes*>(rows), reinterpret_cast<Floats*>(out), row_len / size,
            first / size, (end - first) / size, [](const Bytes& bytes) {
                float values[size];
#pragma unroll
                for (u32 i = 0; i < size; ++i) values[i] = unit_of(bytes.at[i]);
                Floats floats;
                from_floats(values, floats);
                return floats;
            });
    };
    if ((row_len | first | end) % 4 == 0) {
        scale(Pack<u8, 4>{});
    } else {
        scale(Pack<u8, 1>{});
    }
}

// Elements `first..end` of a ring's part, of steps that follow each other. All lanes are linear.
template <class In, class Out>
__device__ inline void write_linear(
    const Stream& stream, const Ring& ring, const Found* found, u32 steps, const In* rows, Out* out,
    u32 first, u32 end) {
    if (end <= first) return;
    const u32 count = end - first;
    const u32 all = steps * count;
#pragma unroll 4
    for (u32 at = threadIdx.x % WARP; at < all; at += WARP) {
        const u32 step = at / count;
        const u32 element = first + (at - step * count);
        const u32 place = ring.places == nullptr ? element : ring.places[element];
        if (place == NONE) continue;
        const Found own = found[step];
        const In* a = rows + static_cast<u64>(own.a) * ring.row_len + element;
        const In* b = rows + static_cast<u64>(own.b) * ring.row_len + element;
        Fetched<In, 1> in;
        fetch(in, own.mode, a, b, 0);
        put(in, own.mode, own.weight, out + static_cast<u64>(step) * stream.step_len, place);
    }
}

// An element of a row; rows are floats of the type of the ring.
__device__ inline float element_of(const Ring& ring, const u8* rows, u64 at) {
    switch (ring.dtype) {
        case DTYPE_F16: return to_float(reinterpret_cast<const F16*>(rows)[at]);
        case DTYPE_BF16: return to_float(reinterpret_cast<const Bf16*>(rows)[at]);
        default: return to_float(reinterpret_cast<const F32*>(rows)[at]);
    }
}

// Stores a float as the type of the stream, or zeros if `some` is false.
__device__ inline void store(const Stream& stream, u8* out, u64 at, bool some, float value) {
    const auto put = [&](auto result) {
        using Out = decltype(result);
        if (some) from_float(value, result);
        reinterpret_cast<Out*>(out)[at] = result;
    };
    switch (stream.dtype) {
        case DTYPE_F16: put(F16{}); break;
        case DTYPE_BF16: put(Bf16{}); break;
        default: put(F32{}); break;
    }
}

// An element of a row at a target, before operators.
__device__ __noinline__ float value_of(
    const Ring& ring, const u8* rows, const Found& found, u32 element) {
    const u64 a = static_cast<u64>(found.a) * ring.row_len;
    if (found.mode == MODE_ROW) return element_of(ring, rows, a + element);
    const u64 b = static_cast<u64>(found.b) * ring.row_len;
    const u32 lane = ring.lanes == nullptr ? LANE_LINEAR : ring.lanes[element];
    if (lane >= LANE_QUATERNION) {
        const u32 k = lane - LANE_QUATERNION;
        float p[4], q[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            p[i] = element_of(ring, rows, a + element - k + i);
            q[i] = element_of(ring, rows, b + element - k + i);
        }
        return slerp(p, q, found.weight, k);
    }
    const float x = element_of(ring, rows, a + element);
    const float y = element_of(ring, rows, b + element);
    return between(lane, x, y, found.weight);
}

// An entry of the rotation matrix of a quaternion (x, y, z, w).
__device__ inline double rotation_entry(double x, double y, double z, double w, u32 entry) {
    const double two = 2.0 / (((x * x + y * y) + z * z) + w * w);
    switch (entry) {
        case 0: return 1.0 - two * (y * y + z * z);
        case 1: return two * (x * y - z * w);
        case 2: return two * (x * z + y * w);
        case 3: return two * (x * y + z * w);
        case 4: return 1.0 - two * (x * x + z * z);
        case 5: return two * (y * z - x * w);
        case 6: return two * (x * z - y * w);
        case 7: return two * (y * z + x * w);
        default: return 1.0 - two * (x * x + y * y);
    }
}

// The value of an element after its operators.
__device__ inline double operated(const Ring& ring, const Element& element, double value) {
    for (u32 i = 0; i < element.operators; ++i) {
        const Operator& operation = ring.operators[element.first_operator + i];
        if (operation.kind == OPERATOR_AFFINE) {
            value = (value - operation.a) * operation.b + operation.c;
        } else if (operation.kind == OPERATOR_CLAMP) {
            value = value > operation.a ? value : operation.a;
            value = value < operation.b ? value : operation.b;
        }
    }
    return value;
}

// The value of a number of a part before its operators.
__device__ inline double source_of(
    const Ring& ring, const u8* rows, const Found& found, u32 number) {
    const auto value = [&](u32 at) { return static_cast<double>(value_of(ring, rows, found, at)); };
    if (ring.elements == nullptr) return value(number);
    const Element& element = ring.elements[number];
    const u32 at = element.at;
    if (element.rotation == 0) return value(at);
    return rotation_entry(
        value(at), value(at + 1), value(at + 2), value(at + 3), element.rotation - 1);
}

// Elements `first..end` of a ring's part, whatever its lanes and operators, of steps that follow each other.
__device__ __noinline__ void write_any(
    const Stream& stream, const Ring& ring, const Found* found, u32 steps, const u8* rows, u8* out,
    u32 first, u32 end) {
    if (end <= first) return;
    const u32 count = end - first;
    const u32 all = steps * count;
    for (u32 at = threadIdx.x % WARP; at < all; at += WARP) {
        const u32 step = at / count;
        const u32 number = first + (at - step * count);
        const u32 place = ring.places == nullptr ? number : ring.places[number];
        if (place == NONE) continue;
        const bool some = found[step].mode != MODE_NOTHING;
        double value = some ? source_of(ring, rows, found[step], number) : 0.0;
        if (some && ring.elements != nullptr) value = operated(ring, ring.elements[number], value);
        const u64 to = static_cast<u64>(step) * stream.step_len + place;
        store(stream, out, to, some, static_cast<float>(value));
    }
}

// ---- Steps --------------------------------------------------------------------------------------

// One window of one stream.
struct Window {
    const Stream& stream;
    u32 span;
    i64 instant;
    Found* found; // of 32 steps, shared by the warp
    i64 begin; // the first instant of the span, and the last
    i64 end;

    __device__ Place place(const Ring& ring) const {
        if (span == NONE) return {0, 0, instant};
        const SpanRows rows = ring.spans[span];
        return {rows.begin, static_cast<u32>(rows.end - rows.begin), instant};
    }

    __device__ i64 target(u32 step) const { return later(instant, stream.offsets_ns[step]); }

    // Whether a target is before the first row of a ring in the span, or after its last one.
    __device__ bool beyond(const Ring& ring, i64 target) const {
        const Place own = place(ring);
        if (own.len == 0) return false;
        const i64* stamps = ring.stamp_ns + own.begin;
        return target < stamps[0] || target > stamps[own.len - 1];
    }

    // Whether a step is filled whatever the rows around it: it is beyond its span or the rows that a ring has there, or a
    // ring of several has no valid value.
    __device__ bool refused(u32 step) const {
        if (stream.within) {
            bool outside = target(step) < begin || target(step) > end;
            for (u32 ring = 0; ring < stream.ring_count; ++ring) {
                outside = outside || beyond(stream.rings[ring], target(step));
            }
            if (outside) return true;
        }
        if (stream.ring_count == 1) return false;
        bool valid = true;
        for (u32 ring = 0; ring < stream.ring_count; ++ring) {
            valid = valid && find(stream, stream.rings[ring], place(stream.rings[ring]), target(step), false).valid;
        }
        return !valid;
    }

    // Finds the rows of a ring for `count` steps from `first` on. Returns what this thread found.
    __device__ Aligned look(const Ring& ring, u32 first, u32 count, bool refused) const {
        Aligned own = {0, 0, 0.0f, MODE_NOTHING, false, LEAST};
        const u32 thread = threadIdx.x % WARP;
        __syncwarp();
        if (thread < count) {
            own = find(stream, ring, place(ring), target(first + thread), refused);
            found[thread] = {own.a, own.b, own.weight, own.mode};
        }
        __syncwarp();
        return own;
    }
};

// Angles without jumps: each step follows its neighbour towards the present one. A thread has an element, and
// goes from step to step.
__device__ __noinline__ void write_unwrapped(
    const Window& window, const Ring& ring, const u8* rows, u8* out) {
    const Stream& stream = window.stream;
    const u32 thread = threadIdx.x % WARP;
    const auto look = [&](u32 chunk) {
        const u32 first = chunk * WARP;
        const u32 count = min(stream.steps - first, WARP);
        const bool refused = thread < count && window.refused(first + thread);
        const Aligned own = window.look(ring, first, count, refused);
        return __ballot_sync(ALL_LANES, thread < count && own.mode != MODE_NOTHING);
    };
    u32 anchor = NONE;
    const u32 middle = stream.present / WARP;
    for (u32 chunk = middle + 1; chunk-- != 0 && anchor == NONE;) {
        u32 filled = look(chunk);
        if (chunk == middle) filled &= ALL_LANES >> (WARP - 1 - stream.present % WARP);
        if (filled != 0) anchor = chunk * WARP + WARP - 1 - __clz(filled);
    }
    for (u32 chunk = middle; chunk * WARP < stream.steps && anchor == NONE; ++chunk) {
        const u32 filled = look(chunk);
        if (filled != 0) anchor = chunk * WARP + __ffs(filled) - 1;
    }
    if (anchor == NONE) anchor = 0;
    for (u32 group = 0; group < ring.part_len; group += WARP) {
        const u32 number = group + thread;
        const bool mine = number < ring.part_len;
        const u32 place = !mine ? NONE : ring.places == nullptr ? number : ring.places[number];
        double reference = 0.0;
        const auto write = [&](u32 step) {
            if (place == NONE) return;
            const Found& own = window.found[step % WARP];
            const bool some = own.mode != MODE_NOTHING;
            double value = 0.0;
            if (some) {
                const Element& element = ring.elements[number];
                value = source_of(ring, rows, own, number);
                if (element.unwraps) {
                    if (step != anchor) value += rint((reference - value) / TURN) * TURN;
                    reference = value;
                }
                value = operated(ring, element, value);
            }
            const u64 to = static_cast<u64>(step) * stream.step_len + place;
            store(stream, out, to, some, static_cast<float>(value));
        };
        const u32 own = anchor / WARP;
        for (u32 chunk = own; chunk * WARP < stream.steps; ++chunk) {
            look(chunk);
            const u32 end = min(stream.steps, (chunk + 1) * WARP);
            for (u32 step = max(anchor, chunk * WARP); step < end; ++step) write(step);
        }
        for (u32 chunk = own + 1; chunk-- != 0;) {
            look(chunk);
            if (chunk == own) write(anchor);
            for (u32 step = min(anchor, (chunk + 1) * WARP); step-- > chunk * WARP;) write(step);
        }
    }
}

// The part of a stream that a task writes.
struct Task {
    u32 first; // step
    u32 steps;
    u32 tile;
};

template <class In, class Out>
__device__ __forceinline__ void write_floats(
    const Window& window, const Ring& ring, const Task& task, const u8* rows, u8* out, u32 first, u32 end) {
    write_linear<In, Out>(
        window.stream, ring, window.found, task.steps, reinterpret_cast<const In*>(rows),
        reinterpret_cast<Out*>(out), first, end);
}

template <class In>
__device__ __forceinline__ void write_floats_of(
    const Window& window, const Ring& ring, const Task& task, const u8* rows, u8* out, u32 first, u32 end) {
    switch (window.stream.dtype) {
        case DTYPE_F16: write_floats<In, F16>(window, ring, task, rows, out, first, end); break;
        case DTYPE_BF16: write_floats<In, Bf16>(window, ring, task, rows, out, first, end); break;
        default: write_floats<In, F32>(window, ring, task, rows, out, first, end); break;
    }
}

// A ring's part of a task's steps.
__device__ inline void write_ring(
    const Window& window, const Ring& ring, const Task& task, u8* values) {
    const Stream& stream = window.stream;
    const u32 size = size_of(stream.dtype);
    const u64 row_bytes = static_cast<u64>(ring.row_len) * size_of(ring.dtype);
    const u8* rows = ring.rows + window.place(ring).begin * row_bytes;
    u8* out = values + static_cast<u64>(task.first) * stream.step_len * size;
    const u32 first = task.tile * stream.tile;
    const u32 end = min(first + stream.tile, ring.part_len);
    const bool interpolates = stream.rule.strategy == STRATEGY_INTERPOLATE;
    if (stream.scaled) {
        switch (stream.dtype) {
            case DTYPE_F16: write_scaled<F16>(window.found, task.steps, rows, out, ring.row_len, first, end); break;
            case DTYPE_BF16: write_scaled<Bf16>(window.found, task.steps, rows, out, ring.row_len, first, end); break;
            default: write_scaled<F32>(window.found, task.steps, rows, out, ring.row_len, first, end); break;
        }
    } else if (ring.unwraps) {
        if (task.first == 0) write_unwrapped(window, ring, rows, values);
    } else if (ring.elements != nullptr || (interpolates && ring.lanes != nullptr)) {
        write_any(stream, ring, window.found, task.steps, rows, out, first, end);
    } else if (!interpolates && ring.places == nullptr && ring.dtype == stream.dtype) {
        copy_bytes(window.found, task.steps, rows, out, row_bytes, first * size, end * size);
    } else {
        switch (ring.dtype) {
            case DTYPE_F16: write_floats_of<F16>(window, ring, task, rows, out, first, end); break;
            case DTYPE_BF16: write_floats_of<Bf16>(window, ring, task, rows, out, first, end); break;
            case DTYPE_F32: write_floats_of<F32>(window, ring, task, rows, out, first, end); break;
            default: break; // others are only copied
        }
    }
}

// Coordinates of sparse rows; the tiles of a step share them.
__device__ inline void write_coordinates(
    const Window& window, const Ring& ring, const Task& task, u8* coordinates) {
    const Stream& stream = window.stream;
    const u64 bytes = static_cast<u64>(stream.coordinates) * sizeof(i32);
    const u32 each = (stream.coordinates / stream.tiles + 4) / 4 * 16;
    const u32 first = min(static_cast<u64>(task.tile) * each, bytes);
    const u32 end = task.tile + 1 == stream.tiles ? bytes : min(static_cast<u64>(first) + each, bytes);
    copy_bytes(
        window.found, task.steps, ring.coordinates + window.place(ring).begin * bytes,
        coordinates + task.first * bytes, bytes, first, end);
}

// The steps of a task: their rows, validity and ages.
__device__ inline void write_steps(
    const Window& window, const Task& task, u64 item, const Parts& parts) {
    const Stream& stream = window.stream;
    const u32 thread = threadIdx.x % WARP;
    const u64 first = item * stream.steps;
    u8* values = parts.values + first * stream.step_len * size_of(stream.dtype);
    const bool refused = thread < task.steps && window.refused(task.first + thread);
    bool valid = !refused;
    i64 age = LEAST;
    u32 count = 0;
    for (u32 number = 0; number < stream.ring_count; ++number) {
        const Ring& ring = stream.rings[number];
        const Aligned own = window.look(ring, task.first, task.steps, refused);
        valid = valid && own.valid;
        age = max(age, own.age_ns);
        if (stream.sparse && own.mode != MODE_NOTHING) count = ring.count[window.place(ring).begin + own.a];
        write_ring(window, ring, task, values);
        if (stream.sparse) {
            u8* coordinates = parts.coordinates + first * stream.coordinates * sizeof(i32);
            write_coordinates(window, ring, task, coordinates);
        }
    }
    if (task.tile == 0 && thread < task.steps) {
        const u64 at = first + task.first + thread;
        parts.ages[at] = age;
        parts.valid[at] = valid;
        if (stream.sparse) parts.counts[at] = count;
    }
}

// The task of a warp.
__device__ __forceinline__ void write_task(const Windows& job, const i64* words) {
    __shared__ Found found[WARPS][WARP];
    const u32 warp = threadIdx.x / WARP;
    const u32 task = blockIdx.x * WARPS + warp;
    launch_later_kernels();
    wait_for_earlier_kernels();
    if (task >= job.windows * job.tasks) return;
    const u32 item = task / job.tasks;
    u32 rest = task - item * job.tasks;
    u8* at = job.out;
    u32 number_of = 0;
    Parts parts = parts_of(job.streams[0], job.windows, at);
    while (rest >= job.streams[number_of].tasks) {
        rest -= job.streams[number_of].tasks;
        parts = parts_of(job.streams[++number_of], job.windows, at);
    }
    const Stream& stream = job.streams[number_of];
    const bool on_device = job.instants != nullptr;
    const i64* numbers = job.numbers == nullptr ? words : job.numbers;
    const i64 instant = on_device ? job.instants[item] : numbers[item];
    const u32 span = span_of(job, numbers, item, instant);
    const u32 before = on_device ? 0 : 2 * job.windows;
    const i64 late = job.has_latency ? numbers[before + number_of * job.windows + item] : 0;
    const bool known = span != NONE;
    const Window window = {
        stream, span, since(instant, late), found[warp], known ? job.span_begin[span] : 0,
        known ? job.span_end[span] : 0};
    const u32 chunk = rest / stream.tiles;
    // A window with angles without jumps is one task.
    const u32 end = stream.chunks == 1 ? stream.steps : min((chunk + 1) * stream.chunk, stream.steps);
    for (u32 first = chunk * stream.chunk; first < end; first += WARP) {
        const Task own = {first, min(end - first, WARP), rest - chunk * stream.tiles};
        write_steps(window, own, item, parts);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    write_windows(const __grid_constant__ WithWords all) {
    write_task(all.job, all.words);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    write_few_windows(const __grid_constant__ WithFewWords all) {
    write_task(all.job, all.words);
}

} // namespace windows
