// The gradient of linear resampling with respect to the rows: the twin of crates/ops/src/resample/gradient.rs.
//
// A warp has one row and some of its columns. It looks at all targets of the row's episode, 32 at a time.
// The neighbours of the row decide whether a target used it. The warp adds the gradients of these targets,
// in their order. So no two warps add to the same number.
#include "align.cuh"
#include "ragged.cuh"

namespace gradient {

constexpr u32 THREADS = 256;
// Columns of a thread. A warp has 32 times this number.
constexpr int COLUMNS = 4;

struct Gradient {
    const void* of_output;     // [targets, out_row], from the first column of the stream
    void* of_rows;             // [rows, dim]
    const void* stamps;        // [rows], of the kernel's type Time
    const i64* row_offsets;    // [B + 1], null if all episodes have as many rows
    const void* targets;       // [targets], likewise
    const i64* target_offsets; // [B + 1], null if all episodes have as many targets
    AlignRule rule;
    u32 episodes;
    u32 len;          // rows of an episode, if all have as many
    u32 all_rows;
    u32 steps;        // targets of an episode, if all have as many
    u32 all_steps;
    u32 dim;
    u32 out_row;      // elements of a row of the output
    u32 column_tiles; // warps of a row
    u32 rows_are_f32;
    u32 reserved;
};

// A row among those of its episode.
struct Row {
    u32 before; // rows of the episode before it
    u32 len;    // rows of the episode
    i64 earlier;
    i64 stamp;
    i64 later;
};

// The factor of the target's gradient in that of the row; false if the target does not use the row.
__device__ __forceinline__ bool factor_of(
    const AlignRule& rule, const Row& row, i64 target, float& factor) {
    if (target < row.stamp) {
        if (row.before != 0 && target <= row.earlier) return false;
        const Aligned value =
            align(rule, row.earlier, row.stamp, row.len, row.before, target);
        // Before the first row, the fill may be that row.
        factor = row.before == 0 ? 1.0f : value.weight;
        return value.mode == (row.before == 0 ? MODE_ROW : MODE_BETWEEN);
    }
    if (row.before + 1 < row.len && target >= row.later) return false;
    const Aligned value = align(rule, row.stamp, row.later, row.len, row.before + 1, target);
    factor = value.mode == MODE_BETWEEN ? 1.0f - value.weight : 1.0f;
    return value.mode != MODE_NOTHING;
}

template <class Out, class In, class Time>
__device__ __forceinline__ void write(const Gradient& job, u32 row, u32 first_column, u32 thread) {
    const Time* stamps = static_cast<const Time*>(job.stamps);
    const Time* of_targets = static_cast<const Time*>(job.targets);
    float sums[COLUMNS] = {};
    const u32 episode = episode_of(job.row_offsets, job.episodes, job.len, row);
    Span rows = {0, 0};
    Span targets = {0, 0};
    if (episode != NONE) {
        rows = span(job.row_offsets, episode, job.len, job.all_rows);
        targets = span(job.target_offsets, episode, job.steps, job.all_steps);
    }
    Row own = {row - rows.first, rows.end - rows.first, 0, 0, 0};
    if (row < rows.first || row >= rows.end) targets = {0, 0};
    if (targets.first < targets.end) {
        own.stamp = nanos(stamps[row]);
        if (row > rows.first) own.earlier = nanos(stamps[row - 1]);
        if (row + 1 < rows.end) own.later = nanos(stamps[row + 1]);
    }
    const Out* of_output = static_cast<const Out*>(job.of_output);
    for (u32 base = targets.first; base < targets.end; base += WARP) {
        const u32 mine = base + thread;
        float factor = 0.0f;
        const bool uses =
            mine < targets.end && factor_of(job.rule, own, nanos(of_targets[mine]), factor);
        u32 left = __ballot_sync(ALL_LANES, uses);
        while (left != 0) {
            const u32 at = __ffs(left) - 1;
            left &= left - 1;
            const float of_target = __shfl_sync(ALL_LANES, factor, at);
            const Out* values = of_output + static_cast<u64>(base + at) * job.out_row;
#pragma unroll
            for (int i = 0; i < COLUMNS; ++i) {
                const u32 column = first_column + i * WARP + thread;
                if (column < job.dim) sums[i] = sums[i] + of_target * to_float(values[column]);
            }
        }
    }
    In* of_rows = static_cast<In*>(job.of_rows) + static_cast<u64>(row) * job.dim;
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        const u32 column = first_column + i * WARP + thread;
        if (column < job.dim) from_float(sums[i], of_rows[column]);
    }
}

template <class Out, class Time>
__device__ __forceinline__ void gradient(const Gradient& job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    const u32 warp = blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const u32 thread = threadIdx.x % WARP;
    const u32 row = warp / job.column_tiles;
    if (row >= job.all_rows) return;
    const u32 first_column = (warp - row * job.column_tiles) * WARP * COLUMNS;
    if (job.rows_are_f32) write<Out, F32, Time>(job, row, first_column, thread);
    else write<Out, Out, Time>(job, row, first_column, thread);
}

#define GRADIENT(NAME, OUT, TIME)                                  \
    extern "C" __global__ void __launch_bounds__(THREADS)          \
        NAME(const __grid_constant__ Gradient job) {               \
        gradient<OUT, TIME>(job);                                  \
    }
GRADIENT(gradient_f32, F32, i64)
GRADIENT(gradient_f16, F16, i64)
GRADIENT(gradient_bf16, Bf16, i64)
GRADIENT(gradient_f32_seconds32, F32, float)
GRADIENT(gradient_f16_seconds32, F16, float)
GRADIENT(gradient_bf16_seconds32, Bf16, float)
GRADIENT(gradient_f32_seconds64, F32, double)
GRADIENT(gradient_f16_seconds64, F16, double)
GRADIENT(gradient_bf16_seconds64, Bf16, double)

} // namespace gradient
