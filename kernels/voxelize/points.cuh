// Points of a cloud: their fields as f32, and the voxel that a point is in. The twin of
// crates/ops/src/voxelize/cpu/block.rs. crates/ops/src/voxelize/cpu.rs explains the arithmetic.
#pragma once
#include "../common.cuh"

constexpr float MAX_SUMMED = 1048576.0f; // 2^20
constexpr float MAX_FINITE = 3.402823466e38f;
constexpr double MAX_FINITE_DOUBLE = 1.7976931348623157e308;

enum FieldType : u32 { INT8, UINT8, INT16, UINT16, INT32, UINT32, FLOAT32, FLOAT64 };

struct Field {
    u32 offset;
    u32 type_code;
};

// Columns whose offsets the launch parameters hold.
constexpr u32 INLINE_COLUMNS = 8;

struct Cloud {
    const u8* points;
    const Field* fields; // of the columns: x, y, z and those that channels take
    u64 row_step;
    u32 width;
    u32 count;
    u32 point_step;
    u32 column_count;
    u32 big_endian;
    u32 reserved;
    u32 offsets[INLINE_COLUMNS]; // of the first columns
    float t[3][4];               // from the cloud's frame to the base frame
    double wide_t[3][4];         // the same, for coordinates in double
};

struct Grid {
    float origin[3];
    float size;
    float inverse; // 1 / size, rounded to nearest; 0 if `quotient` must not be used
    float shape[3];
    u32 row;   // voxels along x
    u32 plane; // voxels along x and y
    u32 volume;
    u32 reserved;
    double wide_origin[3]; // for coordinates in double
};

template <class T>
__device__ __forceinline__ T read_bytes(const u8* bytes, bool big_endian) {
    u64 bits = 0;
#pragma unroll
    for (u32 i = 0; i < sizeof(T); ++i) {
        const u32 at = big_endian ? sizeof(T) - 1 - i : i;
        bits |= static_cast<u64>(bytes[at]) << 8 * i;
    }
    if constexpr (sizeof(T) == 8) return __longlong_as_double(static_cast<i64>(bits));
    else return static_cast<T>(bits);
}

// A field as float or double, rounded to nearest.
template <class Number>
__device__ __noinline__ Number read_field(const u8* point, Field field, bool big_endian) {
    const u8* at = point + field.offset;
    switch (field.type_code) {
        case INT8:
            return static_cast<Number>(static_cast<signed char>(at[0]));
        case UINT8:
            return static_cast<Number>(at[0]);
        case INT16:
            return static_cast<Number>(read_bytes<short>(at, big_endian));
        case UINT16:
            return static_cast<Number>(read_bytes<u16>(at, big_endian));
        case INT32:
            return static_cast<Number>(read_bytes<i32>(at, big_endian));
        case UINT32:
            return static_cast<Number>(read_bytes<u32>(at, big_endian));
        case FLOAT32:
            return static_cast<Number>(__uint_as_float(read_bytes<u32>(at, big_endian)));
        default:
            return static_cast<Number>(read_bytes<double>(at, big_endian));
    }
}

__device__ __forceinline__ bool is_finite(float value) {
    return fabsf(value) <= MAX_FINITE;
}
__device__ __forceinline__ bool is_finite(double value) {
    return fabs(value) <= MAX_FINITE_DOUBLE;
}

// One coordinate in the base frame.
__device__ __forceinline__ float to_base(const Cloud& cloud, u32 axis, float x, float y, float z) {
    const float* r = cloud.t[axis];
    return ((r[0] * x + r[1] * y) + r[2] * z) + r[3];
}
__device__ __forceinline__ double
to_base(const Cloud& cloud, u32 axis, double x, double y, double z) {
    const double* r = cloud.wide_t[axis];
    return ((r[0] * x + r[1] * y) + r[2] * z) + r[3];
}

// Points that follow each other, all of whose columns are little-endian floats at multiples of 4
// bytes. A point is named by its number, and a column by its offset.
struct F32Points {
    using Number = float;
    static __device__ __forceinline__ u32 at(const Cloud& cloud, u32 i) {
        return i;
    }
    static __device__ __forceinline__ u32 key(const Cloud& cloud, u32 c) {
        return c < INLINE_COLUMNS ? cloud.offsets[c] : cloud.fields[c].offset;
    }
    static __device__ __forceinline__ float read(const Cloud& cloud, u32 i, u32 key) {
        // The first sum is the same for all points.
        const u8* column = cloud.points + key;
        return *reinterpret_cast<const float*>(column + static_cast<u64>(i) * cloud.point_step);
    }
    static __device__ __forceinline__ float coordinate(const Cloud& cloud, u32 i, u32 c) {
        return read(cloud, i, key(cloud, c));
    }
};

// Points of any layout. A point is named by its address, and a column by its number.
struct AnyPoints {
    using Number = float;
    static __device__ __forceinline__ const u8* at(const Cloud& cloud, u32 i) {
        return cloud.points + i / cloud.width * cloud.row_step +
               static_cast<u64>(i % cloud.width) * cloud.point_step;
    }
    static __device__ __forceinline__ u32 key(const Cloud& cloud, u32 c) {
        return c;
    }
    static __device__ __forceinline__ float read(const Cloud& cloud, const u8* point, u32 key) {
        return read_field<float>(point, cloud.fields[key], cloud.big_endian);
    }
    static __device__ __forceinline__ float
    coordinate(const Cloud& cloud, const u8* point, u32 c) {
        return read_field<float>(point, cloud.fields[c], cloud.big_endian);
    }
};

// The same, for coordinates that a float cannot hold. GPUs of most workstations compute few doubles
// at a time, so only such clouds use this layout.
struct WidePoints : AnyPoints {
    using Number = double;
    static __device__ __forceinline__ double
    coordinate(const Cloud& cloud, const u8* point, u32 c) {
        return read_field<double>(point, cloud.fields[c], cloud.big_endian);
    }
};

// Column c of the point at `at`, as the message has it, rounded to float.
template <class Layout, class At>
__device__ __forceinline__ float raw(const Cloud& cloud, At at, u32 c) {
    return Layout::read(cloud, at, Layout::key(cloud, c));
}

// The coordinates of a point.
template <class Number>
struct Coordinates {
    Number at[3];
};

// The coordinates of the point at `at`, as the message has them.
template <class Layout, class At>
__device__ __forceinline__ Coordinates<typename Layout::Number>
coordinates(const Cloud& cloud, At at) {
    Coordinates<typename Layout::Number> out;
#pragma unroll
    for (u32 c = 0; c < 3; ++c) out.at[c] = Layout::coordinate(cloud, at, c);
    return out;
}

// The coordinates in the base frame.
template <class Number>
__device__ __forceinline__ Coordinates<Number>
to_base(const Cloud& cloud, const Coordinates<Number>& point) {
    Coordinates<Number> base;
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) {
        base.at[axis] = to_base(cloud, axis, point.at[0], point.at[1], point.at[2]);
    }
    return base;
}

// Where a point in the base frame is from the origin of the grid.
__device__ __forceinline__ Coordinates<float>
from_origin(const Grid& grid, const Coordinates<float>& base) {
    Coordinates<float> d;
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) d.at[axis] = base.at[axis] - grid.origin[axis];
    return d;
}
__device__ __forceinline__ Coordinates<float>
from_origin(const Grid& grid, const Coordinates<double>& base) {
    Coordinates<float> d;
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) {
        d.at[axis] = static_cast<float>(base.at[axis] - grid.wide_origin[axis]);
    }
    return d;
}

// Column c of point i as channels take it: coordinates in the base frame.
template <class Layout>
__device__ __forceinline__ float column(const Cloud& cloud, u32 i, u32 c) {
    const auto point = Layout::at(cloud, i);
    if (c >= 3) return raw<Layout>(cloud, point, c);
    const auto p = coordinates<Layout>(cloud, point);
    return static_cast<float>(c == 0   ? to_base(cloud, 0, p.at[0], p.at[1], p.at[2])
                              : c == 1 ? to_base(cloud, 1, p.at[0], p.at[1], p.at[2])
                                       : to_base(cloud, 2, p.at[0], p.at[1], p.at[2]));
}

// d / size, rounded to nearest, as a product with the reciprocal and two corrections. The first
// correction leaves an error below one unit in the last place, after which the second one rounds
// correctly (Markstein, "Computation of elementary functions on the IBM RISC System/6000
// processor", 1990, theorem 5.3). Both residuals are exact unless they underflow, which `divides`
// rules out. These are the only fused operations of all kernels.
__device__ __forceinline__ float quotient(float d, const Grid& grid) {
    const float first = d * grid.inverse;
    const float second = __fmaf_rn(__fmaf_rn(-first, grid.size, d), grid.inverse, first);
    return __fmaf_rn(__fmaf_rn(-second, grid.size, d), grid.inverse, second);
}

// Whether `quotient` may be used for these three: none is so small that a residual underflows. Very
// large ones overflow or become NaN, as in a division: they are outside either way.
__device__ __forceinline__ bool divides(const Grid& grid, const float (&d)[3]) {
    constexpr float LEAST = 8.6736174e-19f; // 2^-60
    return grid.inverse != 0.0f && fminf(fminf(fabsf(d[0]), fabsf(d[1])), fabsf(d[2])) >= LEAST;
}

// Finds where along x, y and z the voxel of a point is, which is at `d` from the origin of the grid. False if
// it is in none. A coordinate that is not finite makes all of `d` infinite or NaN, so that the point is in none.
__device__ __forceinline__ bool cell_of(const Grid& grid, const float (&d)[3], float (&g)[3]) {
    if (divides(grid, d)) {
#pragma unroll
        for (u32 axis = 0; axis < 3; ++axis) g[axis] = quotient(d[axis], grid);
    } else {
#pragma unroll 1
        for (u32 axis = 0; axis < 3; ++axis) {
            const float q = (axis == 0 ? d[0] : axis == 1 ? d[1] : d[2]) / grid.size;
            if (axis == 0) g[0] = q;
            else if (axis == 1) g[1] = q;
            else g[2] = q;
        }
    }
    bool inside = true;
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) inside &= g[axis] >= 0.0f && g[axis] < grid.shape[axis];
    return inside;
}

// The voxel of such a point, or NONE.
__device__ __forceinline__ u32 voxel_of(const Grid& grid, const float (&d)[3]) {
    float g[3];
    if (!cell_of(grid, d, g)) return NONE;
    return static_cast<u32>(g[2]) * grid.plane + static_cast<u32>(g[1]) * grid.row +
           static_cast<u32>(g[0]);
}
