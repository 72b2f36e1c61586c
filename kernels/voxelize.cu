// A point cloud into a row of the tensor: the twin of src/backend/cpu/voxelize.rs, which states
// the arithmetic and its bounds.
//
// `voxelize_scatter` adds every point to dense accumulators of the whole grid, which are all zero
// between clouds, and lists the bricks that it touches: runs of 32 voxels, as wide as the memory's
// own grain, so that a brick costs no more to write than a voxel. `voxelize_finish` writes the
// listed bricks into the row, returns their accumulators to zero, and zeros the bricks that the
// row held before and no longer does. Cost: points plus occupied bricks, never the grid.
//
// Sums are integers and the maximum has no ties, so that the order of the atomics does not show.
#include "common.cuh"

constexpr u32 THREADS = 256;
constexpr u32 WARPS = THREADS / WARP;
constexpr u32 BRICK = 32;
constexpr float MAX_SUMMED = 1048576.0f;
constexpr double ONE = 1048576.0; // 2^20
// 1.5 * 2^52: the sum with a number of at most 2^51 rounds to an integer, ties to even.
constexpr double ROUNDER = 6755399441055744.0;
// Sums per voxel up to which those of a warp are gathered before they are added.
constexpr u32 MOST_GATHERED = 4;

enum FieldType : u32 { INT8, UINT8, INT16, UINT16, INT32, UINT32, FLOAT32, FLOAT64 };
enum ChannelKind : u32 { CHANNEL_COUNT, CHANNEL_OCCUPANCY, CHANNEL_MEAN, CHANNEL_MAX };

// All of these are written by the host: src/backend/cuda/voxelize.rs.
struct Field {
    u32 offset;
    u32 type;
};

struct Channel {
    u32 kind;
    u32 entry; // which sum or maximum
};

// Where the values of a column go; NONE where they are not asked for.
struct Column {
    u32 sum;
    u32 max;
};

struct Counters {
    u32 non_finite;
    u32 out_of_range;
    u32 outside;
    u32 beyond; // 1 + a channel with a value that the element type cannot hold
    u32 beyond_bits;
    u32 blocks_done;
    u32 reserved[2];
};

struct Grid {
    float origin[3];
    float size;
    float shape[3];
    u32 row;    // voxels along x
    u32 plane;  // voxels along x and y
    u32 volume;
};

struct Accumulators {
    u32* counts;   // [volume]
    i64* sums;     // [volume, sum_stride]
    u32* maxima;   // [volume, max_count], ordered bits, 0 for none
    u32* epochs;   // [bricks]: the last cloud that touched it
    u32 sum_count;
    u32 sum_shift; // log2 of sum_stride
    u32 max_count;
    u32 epoch;     // this cloud
};

struct Scatter {
    const u8* points;
    const Field* fields;   // of the columns
    const Column* columns; // likewise
    u64 row_step;
    u32 width;
    u32 count;
    u32 point_step;
    u32 column_count;
    u32 big_endian;
    u32 words;             // whether all fields are aligned little-endian floats
    float t[3][4];
    Grid grid;
    Accumulators to;
    u32* bricks;           // the list, and its length
    u32* brick_count;
    Counters* counters;
};

struct Finish {
    Accumulators from;
    const u32* bricks;
    u32* brick_count;
    const u32* old_bricks;
    u32* old_count;
    const Channel* channels;
    void* row;             // [channels, volume]
    Counters* counters;
    Counters* report;      // pinned host memory
    u32 channel_count;
    u32 volume;
    u32 dtype;
    u32 reserved;
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

// A field as f32, rounded to nearest.
__device__ inline float read_field(const u8* point, Field field, bool big_endian) {
    const u8* at = point + field.offset;
    switch (field.type) {
        case INT8: return static_cast<float>(static_cast<signed char>(at[0]));
        case UINT8: return static_cast<float>(at[0]);
        case INT16: return static_cast<float>(read_bytes<short>(at, big_endian));
        case UINT16: return static_cast<float>(read_bytes<u16>(at, big_endian));
        case INT32: return static_cast<float>(read_bytes<i32>(at, big_endian));
        case UINT32: return static_cast<float>(read_bytes<u32>(at, big_endian));
        case FLOAT32: return __uint_as_float(read_bytes<u32>(at, big_endian));
        default: return static_cast<float>(read_bytes<double>(at, big_endian));
    }
}

__device__ __forceinline__ bool finite(float value) {
    return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u;
}

__device__ __forceinline__ i64 fixed_point(float value) {
    const double rounded = static_cast<double>(value) * ONE + ROUNDER;
    return __double_as_longlong(rounded) - __double_as_longlong(ROUNDER);
}

// Bits that are ordered as the values are, and above 0.
__device__ __forceinline__ u32 ordered(float value) {
    const u32 bits = __float_as_uint(value + 0.0f); // -0.0 + 0.0 is 0.0
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(u32 bits) {
    return __uint_as_float(bits & 0x80000000u ? bits & 0x7FFFFFFFu : ~bits);
}

// The columns of one point: COLUMNS of them in registers, or any number read again for each use.
template <u32 COLUMNS>
struct Values {
    float at[COLUMNS == 0 ? 3 : COLUMNS];
    const u8* point;

    __device__ __forceinline__ float column(const Scatter& job, u32 c) const {
        if constexpr (COLUMNS != 0) return at[c];
        else if (c < 3) return c == 0 ? at[0] : c == 1 ? at[1] : at[2];
        else return read_field(point, job.fields[c], job.big_endian);
    }
};

// Calls `use(c)` for every column, unrolled where their number is known.
template <u32 COLUMNS, class Use>
__device__ __forceinline__ void for_columns(const Scatter& job, Use use) {
    if constexpr (COLUMNS != 0) {
#pragma unroll
        for (u32 c = 0; c < COLUMNS; ++c) use(c);
    } else {
        for (u32 c = 0; c < job.column_count; ++c) use(c);
    }
}

// Why a point is in no voxel.
struct Dropped {
    bool non_finite;
    bool out_of_range;
    bool outside;
};

// Reads point i and takes it to the base frame; returns its voxel, or NONE, and why.
template <u32 COLUMNS>
__device__ __forceinline__ u32 locate(
    const Scatter& job, u32 i, Values<COLUMNS>& values, Dropped& dropped) {
    const u64 at = job.row_step == 0
                       ? static_cast<u64>(i) * job.point_step
                       : i / job.width * job.row_step + static_cast<u64>(i % job.width) * job.point_step;
    const u8* point = job.points + at;
    values.point = point;
    bool all_finite = true;
    for_columns<COLUMNS>(job, [&](u32 c) {
        float value;
        if (COLUMNS != 0 && job.words) {
            value = *reinterpret_cast<const float*>(point + job.fields[c].offset);
        } else {
            value = read_field(point, job.fields[c], job.big_endian);
        }
        if (COLUMNS != 0 || c < 3) values.at[COLUMNS != 0 || c < 3 ? c : 0] = value;
        all_finite &= finite(value);
    });
    const float x = values.at[0], y = values.at[1], z = values.at[2];
    float g[3];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const float* r = job.t[axis];
        values.at[axis] = ((r[0] * x + r[1] * y) + r[2] * z) + r[3];
        g[axis] = (values.at[axis] - job.grid.origin[axis]) / job.grid.size;
    }
    bool inside = true;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) inside &= g[axis] >= 0.0f && g[axis] < job.grid.shape[axis];
    if (!all_finite) {
        dropped.non_finite = true;
        return NONE;
    }
    if (!inside) {
        dropped.outside = true;
        return NONE;
    }
    bool in_range = true;
    for_columns<COLUMNS>(job, [&](u32 c) {
        if (job.columns[c].sum != NONE) in_range &= fabsf(values.column(job, c)) <= MAX_SUMMED;
    });
    if (!in_range) {
        dropped.out_of_range = true;
        return NONE;
    }
    return static_cast<u32>(g[2]) * job.grid.plane + static_cast<u32>(g[1]) * job.grid.row +
           static_cast<u32>(g[0]);
}

// Lists the brick of every lane's voxel, once per cloud.
__device__ __forceinline__ void touch(const Scatter& job, u32 voxel, u32 lane) {
    const u32 brick = voxel == NONE ? NONE : voxel / BRICK;
    const u32 before = __shfl_up_sync(ALL_LANES, brick, 1);
    bool fresh = false;
    if (brick != NONE && (lane == 0 || before != brick) &&
        job.to.epochs[brick] != job.to.epoch) {
        fresh = atomicExch(&job.to.epochs[brick], job.to.epoch) != job.to.epoch;
    }
    const u32 all = __ballot_sync(ALL_LANES, fresh);
    if (all == 0) return;
    const u32 leader = __ffs(all) - 1;
    u32 first = 0;
    if (lane == leader) first = atomicAdd(job.brick_count, __popc(all));
    first = __shfl_sync(ALL_LANES, first, leader);
    if (fresh) job.bricks[first + __popc(all & ((1u << lane) - 1))] = brick;
}

// Adds the sums of a warp. They are gathered in shared memory first, so that neighbouring lanes
// add to neighbouring sums, and a run of points in one voxel is added as one.
template <u32 COLUMNS>
__device__ __forceinline__ void add_sums(
    const Scatter& job, const Values<COLUMNS>& values, u32 voxel, u32 run, u32 lane, i64* gathered) {
    const u32 shift = job.to.sum_shift;
    for_columns<COLUMNS>(job, [&](u32 c) {
        const u32 sum = job.columns[c].sum;
        if (sum != NONE) {
            gathered[(lane << shift) + sum] = voxel == NONE ? 0 : fixed_point(values.column(job, c));
        }
    });
    __syncwarp();
    for (u32 i = lane; i < WARP << shift; i += WARP) {
        const u32 point = i >> shift;
        const u32 sum = i & ((1u << shift) - 1);
        const u32 to = __shfl_sync(ALL_LANES, voxel, point);
        const u32 length = __shfl_sync(ALL_LANES, run, point);
        if (length == 0 || sum >= job.to.sum_count) continue;
        i64 total = 0;
        for (u32 p = 0; p < length; ++p) total += gathered[(point + p << shift) + sum];
        u64* place = reinterpret_cast<u64*>(job.to.sums) + (static_cast<u64>(to) << shift) + sum;
        if (total != 0) atomicAdd(place, static_cast<u64>(total));
    }
    __syncwarp();
}

// The length of the run of equal voxels that starts at this lane; 0 inside of a run and for NONE.
__device__ __forceinline__ u32 run_length(u32 voxel, u32 lane) {
    const u32 before = __shfl_up_sync(ALL_LANES, voxel, 1);
    const bool head = lane == 0 || before != voxel;
    const u32 heads = __ballot_sync(ALL_LANES, head);
    if (!head || voxel == NONE) return 0;
    const u32 later = lane == 31 ? 0 : heads >> (lane + 1);
    return later == 0 ? WARP - lane : __ffs(later);
}

__device__ __forceinline__ void count_lanes(u32* counter, bool mine, u32 lane) {
    const u32 total = __popc(__ballot_sync(ALL_LANES, mine));
    if (total != 0 && lane == 0) atomicAdd(counter, total);
}

template <u32 COLUMNS>
__device__ __forceinline__ void scatter(const Scatter& job) {
    __shared__ i64 gathered[WARPS][WARP * MOST_GATHERED];
    const u32 lane = threadIdx.x % WARP;
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    Values<COLUMNS> values;
    Dropped dropped = {false, false, false};
    u32 voxel = NONE;
    if (i < job.count) voxel = locate(job, i, values, dropped);
    touch(job, voxel, lane);
    const u32 run = run_length(voxel, lane);
    if (run != 0) atomicAdd(&job.to.counts[voxel], run);
    if (job.to.sum_count != 0) {
        if ((1u << job.to.sum_shift) <= MOST_GATHERED) {
            add_sums(job, values, voxel, run, lane, gathered[threadIdx.x / WARP]);
        } else if (voxel != NONE) {
            for_columns<COLUMNS>(job, [&](u32 c) {
                const u32 sum = job.columns[c].sum;
                if (sum == NONE) return;
                u64* sums = reinterpret_cast<u64*>(job.to.sums);
                const u64 place = (static_cast<u64>(voxel) << job.to.sum_shift) + sum;
                atomicAdd(sums + place, static_cast<u64>(fixed_point(values.column(job, c))));
            });
        }
    }
    if (job.to.max_count != 0 && voxel != NONE) {
        for_columns<COLUMNS>(job, [&](u32 c) {
            const u32 max = job.columns[c].max;
            if (max == NONE) return;
            const u64 place = static_cast<u64>(voxel) * job.to.max_count + max;
            atomicMax(job.to.maxima + place, ordered(values.column(job, c)));
        });
    }
    count_lanes(&job.counters->non_finite, dropped.non_finite, lane);
    count_lanes(&job.counters->out_of_range, dropped.out_of_range, lane);
    count_lanes(&job.counters->outside, dropped.outside, lane);
}

extern "C" __global__ void __launch_bounds__(THREADS) voxelize_scatter_3(const __grid_constant__ Scatter job) {
    scatter<3>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_scatter_4(const __grid_constant__ Scatter job) {
    scatter<4>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_scatter_5(const __grid_constant__ Scatter job) {
    scatter<5>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_scatter_7(const __grid_constant__ Scatter job) {
    scatter<7>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_scatter_any(const __grid_constant__ Scatter job) {
    scatter<0>(job);
}

// The value of a channel in an occupied voxel.
__device__ __forceinline__ float channel_value(const Finish& job, Channel channel, u32 voxel, u32 count) {
    switch (channel.kind) {
        case CHANNEL_COUNT: return static_cast<float>(count);
        case CHANNEL_OCCUPANCY: return 1.0f;
        case CHANNEL_MEAN: {
            const i64 sum = job.from.sums[(static_cast<u64>(voxel) << job.from.sum_shift) + channel.entry];
            return static_cast<float>(static_cast<double>(sum) / (static_cast<double>(count) * ONE));
        }
        default: return unordered(job.from.maxima[static_cast<u64>(voxel) * job.from.max_count + channel.entry]);
    }
}

template <class Out>
__device__ __forceinline__ void write_channels(const Finish& job, u32 voxel, u32 count) {
    for (u32 c = 0; c < job.channel_count; ++c) {
        const float value = count == 0 ? 0.0f : channel_value(job, job.channels[c], voxel, count);
        Out element;
        from_float(value, element);
        if constexpr (!SAME<Out, F32>) {
            if (!finite(to_float(element)) && atomicCAS(&job.counters->beyond, 0, c + 1) == 0) {
                job.counters->beyond_bits = __float_as_uint(value);
            }
        }
        static_cast<Out*>(job.row)[static_cast<u64>(c) * job.volume + voxel] = element;
    }
}

__device__ __forceinline__ void reset(const Accumulators& all, u32 voxel) {
    all.counts[voxel] = 0;
    if (all.sum_count != 0) {
        i64* sums = all.sums + (static_cast<u64>(voxel) << all.sum_shift);
        if (all.sum_shift == 0) {
            sums[0] = 0;
        } else {
            for (u32 i = 0; i < 1u << all.sum_shift; i += 2) {
                *reinterpret_cast<longlong2*>(sums + i) = make_longlong2(0, 0);
            }
        }
    }
    for (u32 i = 0; i < all.max_count; ++i) {
        all.maxima[static_cast<u64>(voxel) * all.max_count + i] = 0;
    }
}

// Bricks that a warp has under way at once.
constexpr u32 UNROLL = 4;

template <class Out>
__device__ __forceinline__ void finish(const Finish& job) {
    const u32 lane = threadIdx.x % WARP;
    const u32 warp = blockIdx.x * WARPS + threadIdx.x / WARP;
    const u32 warps = gridDim.x * WARPS;
    const u32 count = *job.brick_count;
    const u32 old_count = *job.old_count;
    for (u32 first = warp * UNROLL; first < count; first += warps * UNROLL) {
        u32 voxel[UNROLL], points[UNROLL];
#pragma unroll
        for (u32 i = 0; i < UNROLL; ++i) {
            voxel[i] = first + i < count ? job.bricks[first + i] * BRICK + lane : NONE;
        }
#pragma unroll
        for (u32 i = 0; i < UNROLL; ++i) {
            if (voxel[i] >= job.volume) voxel[i] = NONE;
            points[i] = voxel[i] != NONE ? job.from.counts[voxel[i]] : 0;
        }
#pragma unroll
        for (u32 i = 0; i < UNROLL; ++i) {
            if (voxel[i] == NONE) continue;
            write_channels<Out>(job, voxel[i], points[i]);
            if (points[i] != 0) reset(job.from, voxel[i]);
        }
    }
    for (u32 i = warp; i < old_count; i += warps) {
        const u32 brick = job.old_bricks[i];
        const u32 voxel = brick * BRICK + lane;
        if (job.from.epochs[brick] == job.from.epoch || voxel >= job.volume) continue;
        for (u32 c = 0; c < job.channel_count; ++c) {
            static_cast<Out*>(job.row)[static_cast<u64>(c) * job.volume + voxel].bits = 0;
        }
    }
    // The last block to get here reports, and leaves the counters as the next cloud needs them.
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(&job.counters->blocks_done, 1) != gridDim.x - 1) return;
    __threadfence();
    *job.report = *job.counters;
    *job.counters = Counters{};
    *job.old_count = 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) voxelize_finish_f32(const __grid_constant__ Finish job) {
    finish<F32>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_finish_f16(const __grid_constant__ Finish job) {
    finish<F16>(job);
}
extern "C" __global__ void __launch_bounds__(THREADS) voxelize_finish_bf16(const __grid_constant__ Finish job) {
    finish<Bf16>(job);
}
