// Moves the points of a sweep to the reference stamp, in place, before they are voxelized. The twin of
// crates/ops/src/voxelize/cpu/sweep.rs, which explains the arithmetic.
#include "rows.cuh"

namespace voxelize_deskew {

constexpr u32 THREADS = 256;

struct Knot {
    float rotation[4];
    float translation[4];
};

struct Deskew {
    u8* points;
    const Knot* knots;
    Counters* counters;
    u64 row_step;
    double origin;
    double rate;
    u32 width;
    u32 count;
    u32 point_step;
    u32 big_endian;
    Field time;
    u32 offsets[3]; // of the coordinates
    u32 knot_count;
};

template <class Number>
__device__ __forceinline__ void write_bytes(u8* to, Number value, bool big_endian) {
    u64 bits;
    if constexpr (sizeof(Number) == 8) bits = static_cast<u64>(__double_as_longlong(value));
    else bits = __float_as_uint(value);
#pragma unroll
    for (u32 i = 0; i < sizeof(Number); ++i) {
        to[big_endian ? sizeof(Number) - 1 - i : i] = static_cast<u8>(bits >> 8 * i);
    }
}

__device__ __forceinline__ float read_number(const u8* from, bool big_endian, float) {
    return __uint_as_float(read_bytes<u32>(from, big_endian));
}
__device__ __forceinline__ double read_number(const u8* from, bool big_endian, double) {
    return read_bytes<double>(from, big_endian);
}

// Whether all coordinates are at multiples of their size in little-endian points.
template <class Number>
__device__ __forceinline__ bool aligned(const Deskew& job) {
    const u64 all = reinterpret_cast<u64>(job.points) | job.row_step | job.point_step |
                    job.offsets[0] | job.offsets[1] | job.offsets[2];
    return all % sizeof(Number) == 0 && !job.big_endian;
}

template <class Number>
__device__ __forceinline__ void deskew(const Deskew& job) {
    launch_later_kernels();
    // The copies of the points and the knots come earlier on the stream, and this kernel writes the points.
    wait_for_earlier_kernels();
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= job.count) return;
    u8* point = job.points + i / job.width * job.row_step +
                static_cast<u64>(i % job.width) * job.point_step;
    const double last = static_cast<double>(job.knot_count - 1);
    const double u = (read_field<double>(point, job.time, job.big_endian) - job.origin) * job.rate;
    const bool simple = aligned<Number>(job);
    Number p[3];
    if (!(u >= 0.0 && u <= last)) {
        // Its x becomes NaN, so it is also counted as not finite. The host subtracts it from that count.
        atomicAdd(&job.counters->dropped[DROP_NOT_SWEPT], 1u);
        write_bytes(point + job.offsets[0], static_cast<Number>(__uint_as_float(0x7FC00000u)),
                    job.big_endian);
        return;
    }
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
        const u8* from = point + job.offsets[c];
        p[c] = simple ? *reinterpret_cast<const Number*>(from)
                      : read_number(from, job.big_endian, Number());
    }
    const double floored = fmin(floor(u), last - 1.0);
    const float w = static_cast<float>(u - floored);
    const Knot* knots = job.knots + static_cast<u32>(floored);
    const Knot a = knots[0], b = knots[1];
    float q[4], t[3];
#pragma unroll
    for (u32 c = 0; c < 4; ++c) q[c] = a.rotation[c] + w * (b.rotation[c] - a.rotation[c]);
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
        t[c] = a.translation[c] + w * (b.translation[c] - a.translation[c]);
    }
    const Number s = 2.0f / (((q[0] * q[0] + q[1] * q[1]) + q[2] * q[2]) + q[3] * q[3]);
    const Number qx = q[0], qy = q[1], qz = q[2], qw = q[3];
    const Number cx = qy * p[2] - qz * p[1], cy = qz * p[0] - qx * p[2], cz = qx * p[1] - qy * p[0];
    const Number dx = qy * cz - qz * cy, dy = qz * cx - qx * cz, dz = qx * cy - qy * cx;
    const Number moved[3] = {
        (p[0] + s * (qw * cx + dx)) + static_cast<Number>(t[0]),
        (p[1] + s * (qw * cy + dy)) + static_cast<Number>(t[1]),
        (p[2] + s * (qw * cz + dz)) + static_cast<Number>(t[2]),
    };
#pragma unroll
    for (u32 c = 0; c < 3; ++c) {
        u8* to = point + job.offsets[c];
        if (simple) *reinterpret_cast<Number*>(to) = moved[c];
        else write_bytes(to, moved[c], job.big_endian);
    }
}

#define DESKEW(NAME, NUMBER)                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)     \
        NAME(const __grid_constant__ Deskew job) {            \
        deskew<NUMBER>(job);                                  \
    }
DESKEW(voxelize_deskew_f32, float)
DESKEW(voxelize_deskew_f64, double)

} // namespace voxelize_deskew
