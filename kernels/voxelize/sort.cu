// Sorts the points of a cloud by bins, tile by tile. README.md explains why.
#include "crowd.cuh"
#include "sieve.cuh"

namespace voxelize_sort {

constexpr u32 THREADS = 512;
constexpr u32 WARPS = THREADS / WARP;

// Where the values of the first channels come from.
struct Sources {
    u32 keys[CHANNEL_PACK]; // of the fields: names of columns in the layout of the points
    u32 fields;      // a bit for each channel that takes one
    u32 coordinates; // for each that takes a coordinate
    u32 means;       // and for each that is a mean
    u32 reserved;
};

struct Sort {
    Cloud cloud;
    Grid grid;
    Bins bins;
    Sources sources;
    Channels channels;
    Sorted to;
    Counters* counters;
    u32 inputs_ready; // whether no kernel that may still run writes the cloud
    u32 reserved;
};

// The parameter for a sifted cloud. Kernels for others have `Sort` alone, and no code for the rest.
struct Sifted {
    Sort sort;
    Sieve sieve;
    Last last;
    Tally* tally;
    u64 reserved;
};
template <class Job>
constexpr bool SIFTS = SAME<Job, Sifted>;
__device__ __forceinline__ const Sort& sort_of(const Sort& job) {
    return job;
}
__device__ __forceinline__ const Sort& sort_of(const Sifted& job) {
    return job.sort;
}

// A point: first its fields as they were read, later the values of its first channels.
template <class Number>
struct Point {
    Coordinates<Number> place;
    float values[CHANNEL_PACK];
};

template <class Layout>
__device__ __forceinline__ Point<typename Layout::Number> load(const Sort& job, u32 i) {
    // Beyond the last point, it loads the last one. No thread uses that copy.
    const auto bytes = Layout::at(job.cloud, min(i, job.cloud.count - 1));
    Point<typename Layout::Number> point;
    point.place = coordinates<Layout>(job.cloud, bytes);
#pragma unroll
    for (u32 c = 0; c < CHANNEL_PACK; ++c) {
        const bool is_field = (job.sources.fields >> c & 1) != 0;
        point.values[c] = is_field ? Layout::read(job.cloud, bytes, job.sources.keys[c]) : 1.0f;
    }
    return point;
}

// Whether all fields and coordinates of a point are finite.
template <class Layout>
__device__ __noinline__ bool all_finite(const Sort& job, u32 i) {
    const auto bytes = Layout::at(job.cloud, i);
    bool all = true;
    for (u32 c = 0; c < 3; ++c) all &= is_finite(Layout::coordinate(job.cloud, bytes, c));
    for (u32 c = 3; c < job.cloud.column_count; ++c) {
        all &= is_finite(raw<Layout>(job.cloud, bytes, c));
    }
    return all;
}

// A value as `voxelize_reduce` takes it: that of a voxel with this point alone. For a channel without a
// field it is 1, both as an occupancy and as a count.
__device__ __forceinline__ float of_one(bool is_mean, float value) {
    return is_mean ? mean_of_one(value) : value + 0.0f;
}

// The number of a point's voxel, or NONE, which is added to the drops (`one_drop`). Also turns fields into
// values.
template <class Layout>
__device__ __forceinline__ u32
locate(const Sort& job, u32 i, Point<typename Layout::Number>& point, u32& drops) {
    if (i >= job.cloud.count) return NONE;
    // Before fields become values.
    bool fields_finite = true;
#pragma unroll
    for (u32 c = 0; c < CHANNEL_PACK; ++c) fields_finite &= is_finite(point.values[c]);
    const auto in_base = to_base(job.cloud, point.place);
    if (job.sources.coordinates != 0) {
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) {
            const u32 axis = job.channels.first[c].column;
            if (axis >= 3) continue;
            const auto& base = in_base.at;
            point.values[c] = static_cast<float>(
                axis == 0 ? base[0] : axis == 1 ? base[1] : base[2]);
        }
    }
    // Limits are finite, and a point with a coordinate that is not is in no voxel.
    bool in_range = true;
#pragma unroll
    for (u32 c = 0; c < CHANNEL_PACK; ++c) {
        in_range &= fabsf(point.values[c]) <= job.channels.first[c].limit;
    }
    if (job.sources.means == (1u << CHANNEL_PACK) - 1) {
        // To choose for each of them would take longer.
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) point.values[c] = mean_of_one(point.values[c]);
    } else {
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) {
            point.values[c] = of_one((job.sources.means >> c & 1) != 0, point.values[c]);
        }
    }
#pragma unroll 1
    for (u32 c = CHANNEL_PACK; c < job.channels.count; ++c) {
        const Channel channel = channel_at(job.channels, c);
        if (channel.column == NONE) continue;
        in_range &= fabsf(column<Layout>(job.cloud, i, channel.column)) <= channel.limit;
    }
    const u32 voxel = voxel_of(job.grid, from_origin(job.grid, in_base).at);
    if (voxel != NONE && in_range) {
        return hash_block(job.bins, voxel / VOXEL_BLOCK) * VOXEL_BLOCK + voxel % VOXEL_BLOCK;
    }
    if (job.channels.count <= CHANNEL_PACK) {
        // All fields are at hand: to read them again would take longer.
#pragma unroll
        for (u32 c = 0; c < 3; ++c) fields_finite &= is_finite(point.place.at[c]);
    } else {
        fields_finite = all_finite<Layout>(job, i);
    }
    drops += one_drop(fields_finite, voxel != NONE);
    return NONE;
}

// Like `locate`, for a sifted cloud. All lanes of a warp call it. If a rule drops the point, the function
// searches for the first such rule, in the order of crates/ops/src/voxelize/cpu.rs.
template <class Layout>
__device__ __forceinline__ u32
sift(const Sifted& all, u32 i, Point<typename Layout::Number>& point, u32* dropped) {
    const Sort& job = all.sort;
    u32 number = NONE, reason = NONE;
    if (i < job.cloud.count) {
        const auto placed = find_place(job.cloud, job.grid, point.place);
        bool in_range = true;
#pragma unroll
        for (u32 c = 0; c < CHANNEL_PACK; ++c) {
            const Channel& channel = job.channels.first[c];
            float value = point.values[c];
            if (channel.column != NONE && !is_field(channel.column)) {
                value = feature(job.grid, placed, channel.column);
            }
            in_range &= fabsf(value) <= channel.limit;
            point.values[c] = sifted_value(all.last, channel, value, i);
        }
#pragma unroll 1
        for (u32 c = CHANNEL_PACK; c < job.channels.count; ++c) {
            const Channel channel = channel_at(job.channels, c);
            if (channel.column == NONE) continue;
            const float value = value_of<Layout>(job.cloud, job.grid, i, channel.column);
            in_range &= fabsf(value) <= channel.limit;
        }
        const u32 voxel = voxel_of(job.grid, placed.d.at);
        const u32 why = left_out(all.sieve, point.place);
        if (voxel != NONE && in_range && why == NONE) {
            number = hash_block(job.bins, voxel / VOXEL_BLOCK) * VOXEL_BLOCK + voxel % VOXEL_BLOCK;
        } else {
            reason = !all_finite<Layout>(job, i) ? DROP_NON_FINITE
                     : why != NONE               ? why
                     : voxel == NONE             ? DROP_OUTSIDE
                                                 : DROP_OUT_OF_RANGE;
        }
    }
    drop_in_warp(dropped, reason);
    return number;
}

// The values of point i for the channel pack that starts at channel `first`.
template <class Layout>
__device__ __forceinline__ float4 load_pack(const Sifted& all, u32 i, u32 first) {
    const Sort& job = all.sort;
    float values[CHANNEL_PACK];
#pragma unroll
    for (u32 c = 0; c < CHANNEL_PACK; ++c) {
        values[c] = 1.0f;
        if (first + c >= job.channels.count) continue;
        const Channel channel = channel_at(job.channels, first + c);
        if (channel.column == NONE) continue;
        const float value = value_of<Layout>(job.cloud, job.grid, i, channel.column);
        values[c] = sifted_value(all.last, channel, value, i);
    }
    return make_float4(values[0], values[1], values[2], values[3]);
}
template <class Layout>
__device__ __forceinline__ float4 load_pack(const Sort& job, u32 i, u32 first) {
    float values[CHANNEL_PACK];
#pragma unroll
    for (u32 c = 0; c < CHANNEL_PACK; ++c) {
        values[c] = 1.0f;
        if (first + c >= job.channels.count) continue;
        const Channel channel = channel_at(job.channels, first + c);
        if (channel.column == NONE) continue;
        const float value = column<Layout>(job.cloud, i, channel.column);
        values[c] = of_one(channel.kind == CHANNEL_MEAN, value);
    }
    return make_float4(values[0], values[1], values[2], values[3]);
}

// `starts` has the number of points in each bin. Afterwards it has the place in the tile where the points
// of the bin start. Writes the segments. Notes those with many points, also in the bits above the starts.
// Returns the number of points.
__device__ __forceinline__ u32
start_segments(const Sort& job, u32* starts, u32* warp_sums, Crowds<WARPS>& crowds) {
    const u32 many = least_crowded(job.bins, job.to.tile_points);
    const u32 each = max(1u, job.bins.bin_count / THREADS);
    const u32 first = threadIdx.x * each;
    const u32 end = first < job.bins.bin_count ? first + each : first;
    u32 own = 0, total;
#pragma unroll 1
    for (u32 bin = first; bin < end; ++bin) own += starts[bin];
    u32 start = sum_before<WARPS>(own, warp_sums, total);
    u32* segments = job.to.segments + static_cast<u64>(blockIdx.x) * job.bins.bin_count;
#pragma unroll 1
    for (u32 bin = first; bin < end; ++bin) {
        const u32 count = starts[bin];
        u32 noted = 0;
        if (count >= many) noted = note_bin(crowds, bin, start, count);
        starts[bin] = start | noted << POINTS_SHIFT;
        segments[bin] = segment_of(start, 0, count);
        start += count;
    }
    return total;
}

// Sorts a tile: PER points for each thread.
template <class Layout, u32 PER, class Job>
__device__ __forceinline__ void sort(const Job& all, const Sort& job) {
    constexpr u32 TILE = THREADS * PER;
    static_assert(TILE <= MOST_TILE_POINTS);
    static_assert(PER * WARP < 1u << DROP_BITS);
    extern __shared__ float4 values[];                       // [TILE]
    u32* voxels = reinterpret_cast<u32*>(values + TILE);     // [TILE]
    u32* starts = voxels + TILE;                             // [bins]
    __shared__ u32 warp_sums[WARPS];
    constexpr u32 REASONS = SIFTS<Job> ? DROPS : PLAIN_DROPS;
    __shared__ u32 dropped[REASONS];
    __shared__ Crowds<WARPS> crowds;
    launch_later_kernels();
    for (u32 bin = threadIdx.x; bin < job.bins.bin_count; bin += THREADS) starts[bin] = 0;
    if (threadIdx.x < REASONS) dropped[threadIdx.x] = 0;
    if (threadIdx.x == 0) crowds.count = 0;
    wait_for_inputs(job.inputs_ready);
    const u32 first = blockIdx.x * TILE + threadIdx.x;
    Point<typename Layout::Number> points[PER];
#pragma unroll
    for (u32 p = 0; p < PER; ++p) points[p] = load<Layout>(job, first + p * THREADS);
    __syncthreads();
    u32 number[PER], place[PER], drops = 0;
#pragma unroll
    for (u32 p = 0; p < PER; ++p) {
        const u32 i = first + p * THREADS;
        if constexpr (SIFTS<Job>) number[p] = sift<Layout>(all, i, points[p], dropped);
        else number[p] = locate<Layout>(job, i, points[p], drops);
        place[p] = number[p] == NONE ? 0 : atomicAdd(&starts[number[p] >> job.bins.bin_shift], 1u);
    }
    if (!SIFTS<Job>) add_drops_of_warp(dropped, drops);
    // From here on it writes memory that the kernel before this one may still read.
    wait_for_earlier_kernels();
    __syncthreads();
    const u32 total = start_segments(job, starts, warp_sums, crowds);
    __syncthreads();
    const bool crowded = crowds.count != 0;
    if (crowded) part_crowds(job.bins, starts, number, place, crowds);
#pragma unroll
    for (u32 p = 0; p < PER; ++p) {
        if (number[p] == NONE) continue;
        place[p] += starts[number[p] >> job.bins.bin_shift];
        const float(&of)[CHANNEL_PACK] = points[p].values;
        voxels[place[p]] = number[p] & ((1u << job.bins.bin_shift) - 1);
        values[place[p]] = make_float4(of[0], of[1], of[2], of[3]);
    }
    __syncthreads();
    if (crowded) add_crowds<SIFTS<Job>>(job.bins, job.channels, job.to, values, 0, crowds);
    const u64 tile = static_cast<u64>(blockIdx.x) * TILE;
    for (u32 k = threadIdx.x; k < total; k += THREADS) job.to.values[tile + k] = values[k];
    // Nothing reads what this writes beyond the last point.
    uint4* to = reinterpret_cast<uint4*>(job.to.voxels + tile);
    for (u32 k = threadIdx.x; k < (total + 3) / 4; k += THREADS) {
        to[k] = reinterpret_cast<const uint4*>(voxels)[k];
    }
#pragma unroll 1
    for (u32 c = CHANNEL_PACK; c < job.channels.count; c += CHANNEL_PACK) {
        __syncthreads();
#pragma unroll 1
        for (u32 p = 0; p < PER; ++p) {
            // An index at run time would put the arrays into local memory.
            u32 at = NONE;
#pragma unroll
            for (u32 q = 0; q < PER; ++q) at = q == p && number[q] != NONE ? place[q] : at;
            if (at != NONE) values[at] = load_pack<Layout>(all, first + p * THREADS, c);
        }
        __syncthreads();
        if (crowded) add_crowds<SIFTS<Job>>(job.bins, job.channels, job.to, values, c, crowds);
        const u64 pack = c / CHANNEL_PACK * static_cast<u64>(job.to.tiles) * TILE;
        float4* to = job.to.values + pack + tile;
        for (u32 k = threadIdx.x; k < total; k += THREADS) to[k] = values[k];
    }
    if constexpr (SIFTS<Job>) add_dropped<REASONS>(drops_of(all.tally), dropped);
    else add_dropped<REASONS>(drops_of(job.counters), dropped);
}

#define SORT(NAME, JOB, LAYOUT, PER)                         \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        NAME(const __grid_constant__ JOB job) {              \
        sort<LAYOUT, PER>(job, sort_of(job));                              \
    }
SORT(voxelize_sort_f32_points_2, Sort, F32Points, 2)
SORT(voxelize_sort_f32_points_4, Sort, F32Points, 4)
SORT(voxelize_sort_any_points_2, Sort, AnyPoints, 2)
SORT(voxelize_sort_any_points_4, Sort, AnyPoints, 4)
SORT(voxelize_sort_wide_points_2, Sort, WidePoints, 2)
SORT(voxelize_sort_wide_points_4, Sort, WidePoints, 4)
SORT(voxelize_sift_f32_points_2, Sifted, F32Points, 2)
SORT(voxelize_sift_f32_points_4, Sifted, F32Points, 4)
SORT(voxelize_sift_any_points_2, Sifted, AnyPoints, 2)
SORT(voxelize_sift_any_points_4, Sifted, AnyPoints, 4)
SORT(voxelize_sift_wide_points_2, Sifted, WidePoints, 2)
SORT(voxelize_sift_wide_points_4, Sifted, WidePoints, 4)

} // namespace voxelize_sort
