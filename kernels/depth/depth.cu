// A depth image into a row of the tensor: the twin of crates/ops/src/depth/cpu.rs. crates/ops/src/depth/spec.rs
// explains the value of a pixel.
#include "../common.cuh"

namespace depth {

enum Element : u32 { U16 = 0, METRES = 1 };

constexpr u32 THREADS = 256;

struct Row {
    const void* image; // the lines that are read, without padding between them
    void* row;         // [height, width]
    u64 unit_m;        // an f64
    u32 image_width;
    u32 first_column;  // of those that are read
    u32 columns;
    u32 lines;
    u32 width;
    u32 height;
    u32 left;          // where the image is in the row
    u32 right;
    u32 top;
    u32 bottom;
    u32 min_m;         // three f32
    u32 max_m;
    u32 fill_m;
    u32 element;
    u32 big_endian;
    u32 dtype;
};

// The pixel whose centre is nearest to that of share `i` of `outputs`, of `len` pixels.
__device__ __forceinline__ u64 nearest(u32 i, u32 len, u32 outputs) {
    return (2ull * i + 1) * len / (2ull * outputs);
}

__device__ __forceinline__ float metres(const Row& job, u64 pixel) {
    if (job.element == U16) {
        u32 raw = static_cast<const u16*>(job.image)[pixel];
        if (job.big_endian) raw = (raw >> 8) | (raw & 255u) << 8;
        const double unit_m = __longlong_as_double(static_cast<i64>(job.unit_m));
        return __double2float_rn(static_cast<double>(raw) * unit_m);
    }
    u32 raw = static_cast<const u32*>(job.image)[pixel];
    if (job.big_endian) raw = __byte_perm(raw, 0, 0x0123);
    return __uint_as_float(raw);
}

// Distances below the normal numbers must not become zero. So the limits are compared as they are, and
// the kernels are compiled without -ftz.
__device__ __forceinline__ float value_at(const Row& job, u32 x, u32 y) {
    const float fill = __uint_as_float(job.fill_m);
    if (x < job.left || x >= job.right || y < job.top || y >= job.bottom) return fill;
    const u64 column = job.first_column + nearest(x - job.left, job.columns, job.right - job.left);
    const u64 line = nearest(y - job.top, job.lines, job.bottom - job.top);
    const float found = metres(job, line * job.image_width + column);
    const bool valid = found > 0.0f && found >= __uint_as_float(job.min_m) &&
        found <= __uint_as_float(job.max_m);
    return valid ? found : fill;
}

template <class Out>
__device__ __forceinline__ void store(const Row& job, u32 at, float value) {
    from_float(value, static_cast<Out*>(job.row)[at]);
}

extern "C" __global__ void __launch_bounds__(THREADS) depth_row(const __grid_constant__ Row job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    const u32 at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= job.width * job.height) return;
    const float value = value_at(job, at % job.width, at / job.width);
    if (job.dtype == DTYPE_F32) store<F32>(job, at, value);
    else if (job.dtype == DTYPE_F16) store<F16>(job, at, value);
    else store<Bf16>(job, at, value);
}

} // namespace depth
