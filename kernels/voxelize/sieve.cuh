// Only sifted clouds have these: a filter of points, computed features, and values whose order
// counts. The twin of crates/ops/src/voxelize/cpu/sieve.rs, and of the features in
// crates/ops/src/voxelize/cpu/block.rs. crates/ops/src/voxelize/cpu.rs explains the arithmetic.
#pragma once
#include "bins.cuh"

// ---- The filter ---------------------------------------------------------------------------------

enum ShapeAction : u32 { SHAPE_KEEP, SHAPE_REMOVE, SHAPE_ROBOT };

// A shape of the filter, where it is for one cloud.
struct Shape {
    double wide_t[3][4]; // takes a point of the cloud to the shape's frame, in double
    float t[3][4];       // and in float
    float corners[2][3]; // of a box; of a sphere, the first number is the radius
    u32 action;
    u32 is_sphere;
};

constexpr u32 LIMIT_LEAST = 1;
constexpr u32 LIMIT_GREATEST = 2;

struct Sieve {
    const Shape* shapes;
    u32 count;
    u32 keeps;  // whether a shape says what is kept
    u32 limits; // which of the two distances there are
    float least;
    float greatest;
    u32 reserved;
};

template <class Number>
__device__ __forceinline__ Number square_of(Number x, Number y, Number z) {
    return (x * x + y * y) + z * z;
}

__device__ __forceinline__ const float* row_of(const Shape& shape, u32 axis, float) {
    return shape.t[axis];
}
__device__ __forceinline__ const double* row_of(const Shape& shape, u32 axis, double) {
    return shape.wide_t[axis];
}

// Whether a point of the cloud is in a shape.
template <class Number>
__device__ __forceinline__ bool holds(const Shape& shape, const Coordinates<Number>& point) {
    Number own[3];
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) {
        const Number* r = row_of(shape, axis, Number());
        own[axis] = ((r[0] * point.at[0] + r[1] * point.at[1]) + r[2] * point.at[2]) + r[3];
    }
    if (shape.is_sphere) {
        const Number radius = shape.corners[0][0];
        return square_of(own[0], own[1], own[2]) <= radius * radius;
    }
    bool inside = true;
#pragma unroll
    for (u32 axis = 0; axis < 3; ++axis) {
        const Number least = shape.corners[0][axis], greatest = shape.corners[1][axis];
        inside &= own[axis] >= least && own[axis] <= greatest;
    }
    return inside;
}

// Why the filter leaves a point out, or NONE. The point is one of the cloud.
template <class Number>
__device__ __forceinline__ u32 left_out(const Sieve& sieve, const Coordinates<Number>& point) {
    if (sieve.limits != 0) {
        const Number distance = square_of(point.at[0], point.at[1], point.at[2]);
        const Number least = sieve.least, greatest = sieve.greatest;
        const bool near = (sieve.limits & LIMIT_LEAST) != 0 && distance < least * least;
        const bool far = (sieve.limits & LIMIT_GREATEST) != 0 && distance > greatest * greatest;
        if (near || far) return DROP_OUT_OF_REACH;
    }
    bool kept = sieve.keeps == 0, removed = false, on_robot = false;
#pragma unroll 1
    for (u32 s = 0; s < sieve.count; ++s) {
        const Shape& shape = sieve.shapes[s];
        const bool inside = holds(shape, point);
        kept |= inside && shape.action == SHAPE_KEEP;
        removed |= inside && shape.action == SHAPE_REMOVE;
        on_robot |= inside && shape.action == SHAPE_ROBOT;
    }
    return !kept || removed ? DROP_CROPPED : on_robot ? DROP_ON_ROBOT : NONE;
}

// Counts the points of a warp that are dropped, each by its reason or NONE. All lanes call it.
__device__ __forceinline__ void drop_in_warp(u32* dropped, u32 reason) {
    if (!__any_sync(ALL_LANES, reason != NONE)) return;
#pragma unroll
    for (u32 which = 0; which < DROPS; ++which) {
        const u32 lanes = __ballot_sync(ALL_LANES, reason == which);
        const u32 count = __popc(lanes);
        if (count != 0 && threadIdx.x % WARP == 0) atomicAdd(&dropped[which], count);
    }
}

// ---- Features -----------------------------------------------------------------------------------

// Names of computed features, instead of a column. There are three offsets, one for each axis.
constexpr u32 COLUMN_RANGE = 0xFFFFFF00u;
constexpr u32 COLUMN_OFFSET = 0xFFFFFF01u;

__device__ __forceinline__ bool is_field(u32 column) {
    return column >= 3 && column < COLUMN_RANGE;
}

__device__ __forceinline__ float square_root(float value) {
    return __fsqrt_rn(value);
}
__device__ __forceinline__ double square_root(double value) {
    return __dsqrt_rn(value);
}

// A point in all frames that features need.
template <class Number>
struct Placed {
    Coordinates<Number> own;     // in the cloud
    Coordinates<Number> in_base; // in the base frame
    Coordinates<float> d;        // from the origin of the grid
};

template <class Number>
__device__ __forceinline__ Placed<Number>
find_place(const Cloud& cloud, const Grid& grid, const Coordinates<Number>& own) {
    Placed<Number> placed;
    placed.own = own;
    placed.in_base = to_base(cloud, own);
    placed.d = from_origin(grid, placed.in_base);
    return placed;
}

// A computed feature: a coordinate in the base frame, the distance from the sensor, or the coordinate
// from the centre of the voxel. For a point outside of the grid, the last one has no meaning.
template <class Number>
__device__ __forceinline__ float
feature(const Grid& grid, const Placed<Number>& point, u32 column) {
    if (column < 3) {
        const auto& base = point.in_base.at;
        return static_cast<float>(column == 0 ? base[0] : column == 1 ? base[1] : base[2]);
    }
    if (column == COLUMN_RANGE) {
        const auto& own = point.own.at;
        return static_cast<float>(square_root(square_of(own[0], own[1], own[2])));
    }
    const u32 axis = column - COLUMN_OFFSET;
    const float d = axis == 0 ? point.d.at[0] : axis == 1 ? point.d.at[1] : point.d.at[2];
    return d - (floorf(d / grid.size) + 0.5f) * grid.size;
}

// The value of point i that a channel takes.
template <class Layout>
__device__ __noinline__ float
value_of(const Cloud& cloud, const Grid& grid, u32 i, u32 column) {
    const auto at = Layout::at(cloud, i);
    if (is_field(column)) return raw<Layout>(cloud, at, column);
    return feature(grid, find_place(cloud, grid, coordinates<Layout>(cloud, at)), column);
}

// ---- Values -------------------------------------------------------------------------------------

// The values of CHANNEL_LAST, in the order of the cloud.
struct Last {
    float* values; // [channels of this kind, stride]
    u64 stride;
};

// The value of point i as `voxelize_reduce_sifted` takes it: that of a voxel with this point alone.
// For CHANNEL_LAST it is the bits of i + 1 instead, and the value is kept by itself.
__device__ __forceinline__ float
sifted_value(const Last& last, const Channel& channel, float value, u32 i) {
    if (channel.kind == CHANNEL_MEAN || channel.kind == CHANNEL_SUM) return mean_of_one(value);
    if (channel.kind != CHANNEL_LAST) return value + 0.0f;
    last.values[channel.place * last.stride + i] = value + 0.0f;
    return __uint_as_float(i + 1);
}
