// What the kernels share: element types, interpolation, and the rule that finds the rows of a target.
//
// Every function here is the twin of one on the CPU and must give the same bits. The kernels are
// therefore compiled without fused multiply-add (-fmad=false) and with IEEE division, and all
// expressions keep the order of their twins.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

constexpr u32 NONE = 0xFFFFFFFFu;
constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xFFFFFFFFu;

// ---- From one launch to the next ----------------------------------------------------------------

// The launches of a stream may overlap: a kernel starts while the one before it ends, does what
// does not depend on it, and then waits here until everything before it is done and visible. On chips
// older than Hopper it is not started before that. Every kernel calls this, so that "everything before
// it" holds for the whole stream: before it writes memory, and before it reads what earlier kernels
// may write.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel be started as soon as all blocks have called this or ended.
__device__ __forceinline__ void launch_later_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- Element types (src/dtype.rs) ---------------------------------------------------------------

// The codes by which the host names element types.
enum DType : u32 { DTYPE_F32 = 0, DTYPE_F16 = 1, DTYPE_BF16 = 2 };

struct F32 {
    u32 bits;
};
struct F16 {
    u16 bits;
};
struct Bf16 {
    u16 bits;
};

__device__ __forceinline__ float to_float(F32 value) {
    return __uint_as_float(value.bits);
}
__device__ __forceinline__ float to_float(F16 value) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
    return out;
}
__device__ __forceinline__ float to_float(Bf16 value) {
    return __uint_as_float(static_cast<u32>(value.bits) << 16);
}

__device__ __forceinline__ void from_float(float value, F32& out) {
    out.bits = __float_as_uint(value);
}
__device__ __forceinline__ void from_float(float value, F16& out) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
}
// To nearest, ties to even; rows hold no NaN, for which adding to the bits would not be right.
__device__ __forceinline__ void from_float(float value, Bf16& out) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#else
    const u32 bits = __float_as_uint(value);
    out.bits = static_cast<u16>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// The least magnitude that an element type rounds to infinity: half way between its greatest value
// and what would be the next one. An f32 has none.
template <class T>
constexpr float BEYOND = 0.0f;
template <>
constexpr float BEYOND<F16> = 65520.0f;
template <>
constexpr float BEYOND<Bf16> = 3.39617752923046005526e38f; // 0x7F7F8000

// N elements that are loaded and stored as one access, of 16 bytes at most.
template <class T, int N>
struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Pack {
    T at[N];
};

// ---- Interpolation (src/backend/cpu/interpolate.rs) ----------------------------------------------

// How one element of a row is interpolated. QUATERNION + k is component k of a quaternion.
enum Lane : u32 { LANE_LINEAR = 0, LANE_ANGULAR = 1, LANE_QUATERNION = 2 };

__device__ __forceinline__ float linear(float a, float b, float weight) {
    return a + weight * (b - a);
}

// An angle along the shorter arc; between two angles of one turn the result stays in that turn.
__device__ inline float angular(float a, float b, float weight) {
    constexpr float PI = 3.14159274101257324219f;
    constexpr float TAU = 6.28318548202514648438f;
    const float difference = b - a;
    const float turns = rintf(difference / TAU);
    const float angle = a + weight * (difference - turns * TAU);
    if (fabsf(a) <= PI && fabsf(b) <= PI) {
        if (angle > PI) return angle - TAU;
        if (angle < -PI) return angle + TAU;
    }
    return angle;
}

constexpr int SLERP_TERMS = 14;
constexpr double SLERP_ONE_PLUS_MU = 1.9066013587525636;

// Eberly's u and v of term I = 1.., computed in double and rounded once.
template <int I>
struct SlerpTerm {
    static constexpr double scale = I == SLERP_TERMS ? SLERP_ONE_PLUS_MU : 1.0;
    static constexpr float u = static_cast<float>(scale * (1.0 / I) / (2.0 * I + 1.0));
    static constexpr float v =
        static_cast<float>(scale * static_cast<double>(I) / (2.0 * I + 1.0));
};

// The terms I.. of the series, the last one innermost.
template <int I>
__device__ __forceinline__ float slerp_series(float square, float cosine_less_one) {
    if constexpr (I > SLERP_TERMS) {
        return 1.0f;
    } else {
        const float rest = slerp_series<I + 1>(square, cosine_less_one);
        constexpr float u = SlerpTerm<I>::u;
        constexpr float v = SlerpTerm<I>::v;
        return 1.0f + ((u * square - v) * cosine_less_one) * rest;
    }
}

// sin(t*theta) / sin(theta) for cosine_less_one = cos(theta) - 1.
__device__ __forceinline__ float sine_ratio(float t, float cosine_less_one) {
    return t * slerp_series<1>(t * t, cosine_less_one);
}

// Component k of the quaternion at `weight` of the shorter way from a to b.
__device__ inline float slerp(const float (&a)[4], const float (&b)[4], float weight, u32 k) {
    const float dot = ((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]) + a[3] * b[3];
    const float cosine = dot < 0.0f ? -dot : dot;
    const float sign = dot < 0.0f ? -1.0f : 1.0f;
    const float from_a = sine_ratio(1.0f - weight, cosine - 1.0f);
    const float from_b = sine_ratio(weight, cosine - 1.0f) * sign;
    // A run-time index would put the arrays into local memory.
    const float x = k == 0 ? a[0] : k == 1 ? a[1] : k == 2 ? a[2] : a[3];
    const float y = k == 0 ? b[0] : k == 1 ? b[1] : k == 2 ? b[2] : b[3];
    return x * from_a + y * from_b;
}

// ---- One step of the output from the rows that give it --------------------------------------------

// How a value follows from rows: `Value` in src/align.rs.
enum Mode : u32 { MODE_NOTHING = 0, MODE_ROW = 1, MODE_BETWEEN = 2 };

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// The inputs of N elements, fetched before any is used, so that many loads are under way at once.
template <class In, int N>
struct Inputs {
    Pack<In, N> a;
    Pack<In, N> b;
};

template <class In, int N>
__device__ __forceinline__ void fetch(
    Inputs<In, N>& in, Mode mode, const In* a, const In* b, u32 element) {
    if (mode != MODE_NOTHING) in.a = *reinterpret_cast<const Pack<In, N>*>(a + element);
    if (mode == MODE_BETWEEN) in.b = *reinterpret_cast<const Pack<In, N>*>(b + element);
}

template <class In, class Out, int N>
__device__ __forceinline__ void put(
    const Inputs<In, N>& in, Mode mode, float weight, Out* out, u32 element) {
    Pack<Out, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if (mode == MODE_BETWEEN) {
            from_float(linear(to_float(in.a.at[i]), to_float(in.b.at[i]), weight), result.at[i]);
        } else if (mode == MODE_NOTHING) {
            result.at[i].bits = 0;
        } else if constexpr (SAME<In, Out>) {
            result.at[i] = in.a.at[i];
        } else {
            from_float(to_float(in.a.at[i]), result.at[i]);
        }
    }
    if constexpr (sizeof(result) == 16) {
        // Nothing here reads the output again: it should not push rows out of the caches.
        __stcs(reinterpret_cast<uint4*>(out + element), *reinterpret_cast<const uint4*>(&result));
    } else {
        *reinterpret_cast<Pack<Out, N>*>(out + element) = result;
    }
}

// One element of an interpolated row whose lanes are not all linear.
template <class In>
__device__ inline float between_lane(
    const In* a, const In* b, float weight, const u8* lanes, u32 element) {
    const u32 lane = lanes[element];
    if (lane >= LANE_QUATERNION) {
        const u32 k = lane - LANE_QUATERNION;
        const u32 first = element - k;
        float p[4], q[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            p[i] = to_float(a[first + i]);
            q[i] = to_float(b[first + i]);
        }
        return slerp(p, q, weight, k);
    }
    const float x = to_float(a[element]);
    const float y = to_float(b[element]);
    return lane == LANE_ANGULAR ? angular(x, y, weight) : linear(x, y, weight);
}

// ---- From a target to rows (src/align.rs) ---------------------------------------------------------

enum Strategy : u32 { STRATEGY_HOLD = 0, STRATEGY_NEAREST = 1, STRATEGY_INTERPOLATE = 2 };
enum Fill : u32 { FILL_ZERO = 0, FILL_LAST = 1 };

constexpr i64 NO_AGE = 0x7FFFFFFFFFFFFFFFll;

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

// The rows for `target`, of which the first `after` of `len` stand at or before it. `stamp_held` and
// `stamp_next` are those of row `after - 1` and of row `after`, where there are such.
__device__ inline Aligned align(
    const AlignRule& rule, i64 stamp_held, i64 stamp_next, u32 len, u32 after, i64 target) {
    Aligned out = {0, 0, 0.0f, MODE_NOTHING, false, NO_AGE};
    if (after == 0) return out;
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
            const i64 gap = since(stamp_next, stamp_held);
            out.weight = static_cast<float>(
                static_cast<double>(held_age) / static_cast<double>(gap));
            out.valid = gap <= rule.max_gap_ns;
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
    } else if (rule.fill == FILL_LAST) {
        out.mode = MODE_ROW;
        out.a = held;
        out.b = held;
        out.age_ns = held_age;
    }
    return out;
}
