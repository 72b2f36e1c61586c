// One step of the output from the rows that give it: the twin of crates/ops/src/resample/cpu.rs.
#pragma once
#include "../common.cuh"

// How one element of a row is interpolated. LANE_QUATERNION + k is component k of a quaternion.
enum Lane : u32 { LANE_LINEAR = 0, LANE_ANGULAR = 1, LANE_HELD = 2, LANE_QUATERNION = 3 };

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
    // An index at run time would put the arrays into local memory.
    const float x = k == 0 ? a[0] : k == 1 ? a[1] : k == 2 ? a[2] : a[3];
    const float y = k == 0 ? b[0] : k == 1 ? b[1] : k == 2 ? b[2] : b[3];
    return x * from_a + y * from_b;
}

// Between two values of a lane that is no part of a quaternion.
__device__ inline float between(u32 lane, float a, float b, float weight) {
    if (lane == LANE_HELD) return a;
    return lane == LANE_ANGULAR ? angular(a, b, weight) : linear(a, b, weight);
}

// ---- A value from its rows ----------------------------------------------------------------------

// How a value follows from rows: `Value` in crates/ops/src/align.rs. A NaN is for times of which one is none; a core
// refuses these.
enum Mode : u32 { MODE_NOTHING = 0, MODE_ROW = 1, MODE_BETWEEN = 2, MODE_NAN = 3 };

// The inputs of N elements. A thread loads all of them before it uses the first, so that many loads
// are under way.
template <class In, int N>
struct Fetched {
    Pack<In, N> a;
    Pack<In, N> b;
};

template <class In, int N>
__device__ __forceinline__ void fetch(
    Fetched<In, N>& in, Mode mode, const In* a, const In* b, u32 element) {
    if (mode != MODE_NOTHING) in.a = *reinterpret_cast<const Pack<In, N>*>(a + element);
    if (mode == MODE_BETWEEN) in.b = *reinterpret_cast<const Pack<In, N>*>(b + element);
}

template <class In, class Out, int N>
__device__ __forceinline__ void put(
    const Fetched<In, N>& in, Mode mode, float weight, Out* out, u32 element) {
    Pack<Out, N> result;
    if (mode == MODE_BETWEEN) {
        float values[N];
#pragma unroll
        for (int i = 0; i < N; ++i) {
            values[i] = linear(to_float(in.a.at[i]), to_float(in.b.at[i]), weight);
        }
        from_floats(values, result);
    } else if (mode == MODE_NOTHING) {
#pragma unroll
        for (int i = 0; i < N; ++i) result.at[i].bits = 0;
    } else if (mode == MODE_NAN) {
#pragma unroll
        for (int i = 0; i < N; ++i) from_float(__uint_as_float(0x7FC00000u), result.at[i]);
    } else if constexpr (SAME<In, Out>) {
        result = in.a;
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) from_float(to_float(in.a.at[i]), result.at[i]);
    }
    if constexpr (sizeof(result) == 16) {
        // No kernel reads the output again, so it must not push rows out of the caches.
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
    return between(lane, to_float(a[element]), to_float(b[element]), weight);
}
