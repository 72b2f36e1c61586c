// A point cloud into a row of the tensor: the twin of src/backend/cpu/voxelize.rs, which states
// the arithmetic and its bounds.
//
// The grid is cut into bins of some 1,000 voxels, which one block can hold in shared memory.
// `voxelize_scatter` appends every point to the list of its bin, as a record of its voxel and its
// values, and marks the bin as touched. `voxelize_finish` takes a bin per block, adds up its records
// in shared memory, and writes into the row the bricks that hold or held something: runs of 32
// voxels, as wide as the memory's own grain. So no atomic on a sum leaves the multiprocessor, and
// nothing of the grid's size is cleared. Points that a bin has no room for are added to
// accumulators of the whole grid, all zero between clouds, from which the bin's block then starts;
// where no values are asked for, only counts, all points are. Cost: points plus occupied bins; of
// the others a mark of 8 bytes is read.
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
// Bytes of a point up to which those of a block are fetched together, 16 bytes per access.
constexpr u32 STAGED_BYTES = 32;
// Words of a record up to which those of a warp are gathered before they are written.
constexpr u32 MOST_WORDS = 8;

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
    u32* fills;    // [LISTS, bins, FILL_STRIDE]: 0 between clouds; points of this cloud, or
                   // `epoch` where points have no records
    u32* records;  // [bins, LISTS, capacity, record_words]: voxel in the bin, summed values, maxima
    u32 sum_count;
    u32 sum_shift; // log2 of sum_stride
    u32 max_count;
    u32 epoch;     // this cloud
    u32 bin_shift; // log2 of the voxels of a bin
    u32 capacity;  // records of a list; 0 if there are no values
    u32 record_words; // a multiple of 4
    u32 bin_count;
};

// A bin has a list per warp of a block. Which one a point goes to is the number of its warp in its
// block: atomics on one sector of memory queue, so they are spread, bins to sectors of their
// own and the points of a bin to several lists.
constexpr u32 LISTS = WARPS;
constexpr u32 FILL_STRIDE = 8;

__device__ __forceinline__ u32* fill_of(const Accumulators& all, u32 list, u32 bin) {
    return all.fills + (static_cast<u64>(list) * all.bin_count + bin) * FILL_STRIDE;
}

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
    u32 staged;            // whether points also follow each other and fit STAGED_BYTES
    u32 reserved;
    float t[3][4];
    Grid grid;
    Accumulators to;
    Counters* counters;
};

struct Finish {
    Accumulators from;
    u32* held;             // [bins]: which bricks of the row hold something
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
// `staged` is the point in shared memory, if it is there.
template <u32 COLUMNS>
__device__ __forceinline__ u32 locate(
    const Scatter& job, u32 i, const u32* staged, Values<COLUMNS>& values, Dropped& dropped) {
    const u64 at = job.row_step == 0
                       ? static_cast<u64>(i) * job.point_step
                       : i / job.width * job.row_step + static_cast<u64>(i % job.width) * job.point_step;
    const u8* point = job.points + at;
    values.point = point;
    bool all_finite = true;
    for_columns<COLUMNS>(job, [&](u32 c) {
        float value;
        if (COLUMNS != 0 && job.staged) {
            value = __uint_as_float(staged[job.fields[c].offset / 4]);
        } else if (COLUMNS != 0 && job.words) {
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

// Takes a place in the bin of every lane's voxel; returns it, or NONE if the bin is full or the
// lane has none.
__device__ __forceinline__ u32 take_place(const Scatter& job, u32 bin, u32 lane) {
    // One addition for neighbours in one bin.
    const u32 before = __shfl_up_sync(ALL_LANES, bin, 1);
    const bool head = lane == 0 || before != bin;
    const u32 heads = __ballot_sync(ALL_LANES, head);
    const u32 own_head = 31 - __clz(heads & (ALL_LANES >> (31 - lane)));
    const u32 later = lane == 31 ? 0 : heads >> (lane + 1);
    const u32 run = later == 0 ? WARP - lane : __ffs(later);
    u32 first = 0;
    if (head && bin != NONE) first = atomicAdd(fill_of(job.to, threadIdx.x / WARP, bin), run);
    const u32 place = __shfl_sync(ALL_LANES, first, own_head) + lane - own_head;
    return bin != NONE && place < job.to.capacity ? place : NONE;
}

// Marks a bin as touched. Whoever comes first is as good as any other; all write the same.
__device__ __forceinline__ void touch(const Scatter& job, u32 bin) {
    if (bin == NONE) return;
    u32* mark = fill_of(job.to, threadIdx.x / WARP, bin);
    if (*mark != job.to.epoch) *mark = job.to.epoch;
}

// Writes the records of a warp. They are gathered in shared memory first, so that neighbouring
// lanes write neighbouring parts of one record: whole sectors.
template <u32 COLUMNS>
__device__ __forceinline__ void write_records(
    const Scatter& job, const Values<COLUMNS>& values, u32 voxel, u32 place, u32 lane, u32* gathered) {
    const u32 words = job.to.record_words;
    const u32 bin = voxel >> job.to.bin_shift;
    const u32 number = (bin * LISTS + threadIdx.x / WARP) * job.to.capacity + place;
    const u32 in_bin = voxel & ((1u << job.to.bin_shift) - 1);
    const bool wide = words > MOST_WORDS;
    u32* own = wide ? job.to.records + static_cast<u64>(number) * words : gathered + lane * words;
    if (place != NONE) {
        own[0] = in_bin;
        for_columns<COLUMNS>(job, [&](u32 c) {
            const Column column = job.columns[c];
            const u32 bits = __float_as_uint(values.column(job, c));
            if (column.sum != NONE) own[1 + column.sum] = bits;
            if (column.max != NONE) own[1 + job.to.sum_count + column.max] = bits;
        });
    }
    if (wide) return;
    __syncwarp();
    const u32 parts_shift = words == 8 ? 1 : 0;
#pragma unroll
    for (u32 round = 0; round < 2; ++round) {
        if (round > parts_shift) break;
        const u32 part = round * WARP + lane;
        const u32 record = part >> parts_shift;
        const u32 to = __shfl_sync(ALL_LANES, number, record);
        const u32 taken = __shfl_sync(ALL_LANES, place, record);
        if (taken == NONE) continue;
        const uint4 bits = reinterpret_cast<const uint4*>(gathered)[part];
        reinterpret_cast<uint4*>(job.to.records)[(static_cast<u64>(to) << parts_shift) + (part & parts_shift)] = bits;
    }
    __syncwarp();
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

// Adds the points of a warp to the accumulators of the grid.
template <u32 COLUMNS>
__device__ __forceinline__ void accumulate(
    const Scatter& job, const Values<COLUMNS>& values, u32 voxel, u32 lane, i64* gathered) {
    const u32 run = run_length(voxel, lane);
    if (run != 0) atomicAdd(&job.to.counts[voxel], run);
    if (job.to.sum_count != 0) {
        if ((1u << job.to.sum_shift) <= MOST_GATHERED) {
            add_sums(job, values, voxel, run, lane, gathered);
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
}

// Fetches the points of the block.
__device__ __forceinline__ void fetch_points(const Scatter& job, uint4* memory) {
    const u32 first = blockIdx.x * THREADS;
    const u32 bytes = min(job.count - first, THREADS) * job.point_step;
    const u8* points = job.points + static_cast<u64>(first) * job.point_step;
#pragma unroll
    for (u32 round = 0; round < STAGED_BYTES / 16; ++round) {
        const u32 at = (round * THREADS + threadIdx.x) * 16;
        if (at + 16 <= bytes) {
            memory[at / 16] = *reinterpret_cast<const uint4*>(points + at);
        } else {
            for (u32 word = at; word < min(at + 16, bytes); word += 4) {
                reinterpret_cast<u32*>(memory)[word / 4] = *reinterpret_cast<const u32*>(points + word);
            }
        }
    }
}

template <u32 COLUMNS>
__device__ __forceinline__ void scatter(const Scatter& job) {
    // The block's points, and then sums or records of each warp, whichever are under way.
    __shared__ uint4 gathered[WARPS][WARP * 2];
    static_assert(sizeof(gathered) == THREADS * STAGED_BYTES);
    static_assert(MOST_GATHERED * sizeof(i64) == 2 * sizeof(uint4));
    static_assert(MOST_WORDS * sizeof(u32) == 2 * sizeof(uint4));
    uint4* own = gathered[threadIdx.x / WARP];
    const u32 lane = threadIdx.x % WARP;
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    Values<COLUMNS> values;
    Dropped dropped = {false, false, false};
    u32 voxel = NONE;
    if (COLUMNS != 0 && job.staged) {
        fetch_points(job, gathered[0]);
        __syncthreads();
    }
    const u32* staged = reinterpret_cast<const u32*>(gathered) + threadIdx.x * (job.point_step / 4);
    if (i < job.count) voxel = locate(job, i, staged, values, dropped);
    if (COLUMNS != 0 && job.staged) __syncthreads();
    const u32 bin = voxel == NONE ? NONE : voxel >> job.to.bin_shift;
    if (job.to.capacity == 0) {
        touch(job, bin);
        accumulate(job, values, voxel, lane, reinterpret_cast<i64*>(own));
    } else {
        const u32 place = take_place(job, bin, lane);
        write_records(job, values, voxel, place, lane, reinterpret_cast<u32*>(own));
        const u32 left = place == NONE ? voxel : NONE;
        if (__any_sync(ALL_LANES, left != NONE)) {
            accumulate(job, values, left, lane, reinterpret_cast<i64*>(own));
        }
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

// The accumulators of one bin in shared memory. The two halves of a sum are apart, because shared
// memory adds 32 bits in one go and 64 in a loop.
struct Bin {
    u32* counts; // [voxels]
    u32* lows;   // [sum_count, voxels]
    u32* highs;  // likewise
    u32* maxima; // [max_count, voxels]

    __device__ __forceinline__ Bin(const Accumulators& all, u32* memory) {
        const u32 voxels = 1u << all.bin_shift;
        counts = memory;
        lows = counts + voxels;
        highs = lows + all.sum_count * voxels;
        maxima = highs + all.sum_count * voxels;
    }
};

__device__ __forceinline__ void clear_bin(const Accumulators& all, u32* memory) {
    const u32 words = (1 + 2 * all.sum_count + all.max_count) << all.bin_shift;
    for (u32 i = threadIdx.x * 4; i < words; i += THREADS * 4) {
        *reinterpret_cast<uint4*>(memory + i) = make_uint4(0, 0, 0, 0);
    }
}

// Takes what the grid's accumulators hold for a bin, and returns them to zero.
__device__ __forceinline__ void take_over(const Accumulators& all, const Bin& bin, u32 first, u32 volume) {
    const u32 voxels = 1u << all.bin_shift;
    for (u32 v = threadIdx.x; v < voxels; v += THREADS) {
        const u32 voxel = first + v;
        const u32 count = voxel < volume ? all.counts[voxel] : 0;
        bin.counts[v] = count;
        if (count != 0) all.counts[voxel] = 0;
        for (u32 s = 0; s < all.sum_count; ++s) {
            const u64 at = (static_cast<u64>(voxel) << all.sum_shift) + s;
            const u64 sum = count != 0 ? all.sums[at] : 0;
            bin.lows[s * voxels + v] = static_cast<u32>(sum);
            bin.highs[s * voxels + v] = static_cast<u32>(sum >> 32);
            if (count != 0) all.sums[at] = 0;
        }
        for (u32 m = 0; m < all.max_count; ++m) {
            const u64 at = static_cast<u64>(voxel) * all.max_count + m;
            bin.maxima[m * voxels + v] = count != 0 ? all.maxima[at] : 0;
            if (count != 0) all.maxima[at] = 0;
        }
    }
}

// Adds a record to the bin.
__device__ __forceinline__ void add_word(const Accumulators& all, const Bin& bin, u32 v, u32 word, u32 bits) {
    const u32 voxels = 1u << all.bin_shift;
    const float value = __uint_as_float(bits);
    if (word < all.sum_count) {
        const u64 sum = static_cast<u64>(fixed_point(value));
        const u32 low = static_cast<u32>(sum);
        const u32 before = atomicAdd(&bin.lows[word * voxels + v], low);
        const u32 high = static_cast<u32>(sum >> 32) + (before + low < before);
        if (high != 0) atomicAdd(&bin.highs[word * voxels + v], high);
    } else if (word < all.sum_count + all.max_count) {
        atomicMax(&bin.maxima[(word - all.sum_count) * voxels + v], ordered(value));
    }
}

__device__ __forceinline__ void add_record(const Accumulators& all, const Bin& bin, const uint4* record, uint4 first) {
    const u32 v = first.x;
    atomicAdd(&bin.counts[v], 1u);
    add_word(all, bin, v, 0, first.y);
    add_word(all, bin, v, 1, first.z);
    add_word(all, bin, v, 2, first.w);
    for (u32 part = 1; part < all.record_words / 4; ++part) {
        const uint4 bits = record[part];
        add_word(all, bin, v, part * 4 - 1, bits.x);
        add_word(all, bin, v, part * 4, bits.y);
        add_word(all, bin, v, part * 4 + 1, bits.z);
        add_word(all, bin, v, part * 4 + 2, bits.w);
    }
}

// The mean as f32 of the quotient in double. Division by a power of two is exact as a
// multiplication, and most voxels hold one or two points. Up to 2^51, an integer becomes a double
// by an addition, which is quicker than the conversion.
__device__ __forceinline__ float mean(i64 sum, u32 count) {
    const double total = count <= 2048
        ? __longlong_as_double(sum + __double_as_longlong(ROUNDER)) - ROUNDER
        : static_cast<double>(sum);
    if ((count & (count - 1)) == 0) {
        const i64 exponent = 1023 - 20 - (31 - __clz(count));
        return static_cast<float>(total * __longlong_as_double(exponent << 52));
    }
    return static_cast<float>(total / (static_cast<double>(count) * ONE));
}

// Voxels of a bin per thread, in a row.
constexpr u32 PER_THREAD = 4;
constexpr u32 MOST_VOXELS = PER_THREAD * THREADS;

// What the threads of a block tell each other about a bin.
struct Notes {
    u16 occupied[MOST_VOXELS];
    u32 occupied_count;
    u32 bricks; // which hold something
};

// Lists the occupied voxels of a bin and their bricks.
__device__ __forceinline__ void list_occupied(const Accumulators& all, const Bin& bin, Notes& notes) {
    const u32 lane = threadIdx.x % WARP;
    const u32 voxels = 1u << all.bin_shift;
    for (u32 v = threadIdx.x; v < voxels; v += THREADS) {
        const u32 some = __ballot_sync(ALL_LANES, bin.counts[v] != 0);
        if (some == 0) continue;
        u32 first = 0;
        if (lane == 0) {
            first = atomicAdd(&notes.occupied_count, __popc(some));
            atomicOr(&notes.bricks, 1u << v / BRICK);
        }
        first = __shfl_sync(ALL_LANES, first, 0);
        if (some >> lane & 1) notes.occupied[first + __popc(some & ((1u << lane) - 1))] = v;
    }
}

// Puts the values of the occupied voxels, as f32, where their sums and maxima stood. Those of the
// others are 0 already.
__device__ __forceinline__ void evaluate(const Accumulators& all, const Bin& bin, const Notes& notes) {
    const u32 voxels = 1u << all.bin_shift;
    for (u32 i = threadIdx.x; i < notes.occupied_count; i += THREADS) {
        const u32 v = notes.occupied[i];
        const u32 count = bin.counts[v];
        for (u32 s = 0; s < all.sum_count; ++s) {
            const u32 at = s * voxels + v;
            const u64 sum = static_cast<u64>(bin.highs[at]) << 32 | bin.lows[at];
            bin.lows[at] = __float_as_uint(mean(static_cast<i64>(sum), count));
        }
        for (u32 m = 0; m < all.max_count; ++m) {
            u32& bits = bin.maxima[m * voxels + v];
            bits = __float_as_uint(unordered(bits));
        }
    }
}

template <class Out>
__device__ __forceinline__ Out element_of(const Finish& job, u32 channel, float value) {
    Out element;
    from_float(value, element);
    if constexpr (!SAME<Out, F32>) {
        if (!finite(to_float(element)) && atomicCAS(&job.counters->beyond, 0, channel + 1) == 0) {
            job.counters->beyond_bits = __float_as_uint(value);
        }
    }
    return element;
}

// Writes the given bricks of a bin.
template <class Out>
__device__ __forceinline__ void write_bin(const Finish& job, const Bin& bin, u32 first, u32 bricks) {
    const u32 v = threadIdx.x * PER_THREAD;
    if (v >= 1u << job.from.bin_shift || (bricks >> v / BRICK & 1) == 0) return;
    const bool whole = job.volume % PER_THREAD == 0 && first + v < job.volume;
    for (u32 c = 0; c < job.channel_count; ++c) {
        const Channel channel = job.channels[c];
        const u32 plane = channel.entry << job.from.bin_shift;
        const u32* source = channel.kind == CHANNEL_MEAN  ? bin.lows + plane
                            : channel.kind == CHANNEL_MAX ? bin.maxima + plane
                                                          : bin.counts;
        const uint4 words = *reinterpret_cast<const uint4*>(source + v);
        float values[PER_THREAD] = {__uint_as_float(words.x), __uint_as_float(words.y),
                                    __uint_as_float(words.z), __uint_as_float(words.w)};
        if (source == bin.counts) {
#pragma unroll
            for (u32 k = 0; k < PER_THREAD; ++k) {
                const u32 count = __float_as_uint(values[k]);
                values[k] = static_cast<float>(channel.kind == CHANNEL_COUNT ? count : count != 0);
            }
        }
        Pack<Out, PER_THREAD> pack;
#pragma unroll
        for (u32 k = 0; k < PER_THREAD; ++k) pack.at[k] = element_of<Out>(job, c, values[k]);
        Out* row = static_cast<Out*>(job.row) + static_cast<u64>(c) * job.volume + first + v;
        if (whole) {
            *reinterpret_cast<Pack<Out, PER_THREAD>*>(row) = pack;
        } else {
#pragma unroll
            for (u32 k = 0; k < PER_THREAD; ++k) {
                if (first + v + k < job.volume) row[k] = pack.at[k];
            }
        }
    }
}

constexpr u32 OLD = 0x80000000u;

// Zeros the bricks of a bin that hold something.
template <class Out>
__device__ __forceinline__ void zero_bin(const Finish& job, u32 first, u32 held) {
    const u32 lane = threadIdx.x % WARP;
    for (u32 brick = threadIdx.x / WARP; brick < 32; brick += WARPS) {
        const u32 voxel = first + brick * BRICK + lane;
        if ((held >> brick & 1) == 0 || voxel >= job.volume) continue;
        for (u32 c = 0; c < job.channel_count; ++c) {
            static_cast<Out*>(job.row)[static_cast<u64>(c) * job.volume + voxel].bits = 0;
        }
    }
}

template <class Out>
__device__ __forceinline__ void finish_bin(const Finish& job, u32 number, u32* memory, Notes& notes) {
    const Accumulators& all = job.from;
    const Bin bin(all, memory);
    const u32 first = number << all.bin_shift;
    const u32 list = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const u32 fill = *fill_of(all, list, number);
    const u32 held = job.held[number];
    const u32 parts = all.record_words / 4;
    const uint4* records = reinterpret_cast<const uint4*>(all.records) +
                           static_cast<u64>(number * LISTS + list) * all.capacity * parts;
    // Asked for before the number of records is known; a list has room for this many.
    uint4 record = make_uint4(0, 0, 0, 0);
    if (all.capacity != 0) record = records[lane * parts];
    if (threadIdx.x == 0) notes.occupied_count = notes.bricks = 0;
    if (__syncthreads_or(fill > all.capacity)) take_over(all, bin, first, job.volume);
    else clear_bin(all, memory);
    __syncthreads();
    const u32 count = min(fill, all.capacity);
    for (u32 i = lane; i < count; i += WARP) {
        if (i >= WARP) record = records[i * parts];
        add_record(all, bin, records + i * parts, record);
    }
    __syncthreads();
    list_occupied(all, bin, notes);
    __syncthreads();
    evaluate(all, bin, notes);
    __syncthreads();
    write_bin<Out>(job, bin, first, held | notes.bricks);
    if (threadIdx.x == 0) job.held[number] = notes.bricks;
    if (lane == 0) *fill_of(all, list, number) = 0;
    __syncthreads();
}

// Whether a bin was touched by the cloud at hand.
__device__ __forceinline__ bool touched(const Accumulators& all, u32 bin) {
    u32 some = 0;
#pragma unroll
    for (u32 list = 0; list < LISTS; ++list) some |= *fill_of(all, list, bin);
    return some != 0;
}

template <class Out>
__device__ __forceinline__ void finish(const Finish& job) {
    extern __shared__ uint4 memory[];
    __shared__ u32 live[THREADS];
    __shared__ u32 live_count;
    __shared__ Notes notes;
    const u32 bins = job.from.bin_count;
    // A round looks at THREADS bins per block, and works on those that hold something or did.
    for (u32 base = 0; base < bins; base += gridDim.x * THREADS) {
        const u32 mine = base + threadIdx.x * gridDim.x + blockIdx.x;
        if (threadIdx.x == 0) live_count = 0;
        __syncthreads();
        if (mine < bins) {
            const bool now = touched(job.from, mine);
            // The bins are below 2^31: the highest bit says that there is nothing new.
            if (now) live[atomicAdd(&live_count, 1u)] = mine;
            else if (job.held[mine] != 0) live[atomicAdd(&live_count, 1u)] = mine | OLD;
        }
        __syncthreads();
        for (u32 i = 0; i < live_count; ++i) {
            const u32 bin = live[i] & ~OLD;
            if ((live[i] & OLD) == 0) {
                finish_bin<Out>(job, bin, reinterpret_cast<u32*>(memory), notes);
                continue;
            }
            zero_bin<Out>(job, bin << job.from.bin_shift, job.held[bin]);
            __syncthreads();
            if (threadIdx.x == 0) job.held[bin] = 0;
        }
        __syncthreads();
    }
    // The last block to get here reports, and leaves the counters as the next cloud needs them.
    __syncthreads();
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(&job.counters->blocks_done, 1) != gridDim.x - 1) return;
    __threadfence();
    *job.report = *job.counters;
    *job.counters = Counters{};
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
