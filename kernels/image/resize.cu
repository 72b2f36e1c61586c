// An image into a row of the tensor: the twin of src/ops/image/cpu.rs. The geometry and the
// arithmetic are explained in src/ops/image/geometry.rs. There are two passes over bytes, both in
// integers:
//
// 1. `image_lines` resizes every line that is needed.
// 2. `image_row` resizes the columns of those lines, looks up the elements and pads.
#include "../common.cuh"

namespace image {

enum Encoding : u32 { RGB8 = 0, BGR8 = 1, RGBA8 = 2, BGRA8 = 3, MONO8 = 4 };

constexpr u32 THREADS = 256;
constexpr i32 PRECISION_BITS = 22;
constexpr i32 HALF = 1 << (PRECISION_BITS - 1);

// What one output of an axis reads.
struct Tap {
    u32 first;
    u32 begin; // of its coefficients
    u32 count;
};

struct Lines {
    const u8* image; // at the first line and column that are read
    u64 step;        // bytes from one line to the next
    const Tap* taps;
    const i32* coefficients;
    void* lines;     // [lines, width], 1 or 4 bytes each
    u32 count;       // lines
    u32 width;       // outputs per line
    u32 encoding;
    u32 luma;        // whether colour becomes mono
    u32 inputs_ready; // whether no kernel that may still run writes image, taps or coefficients
    u32 reserved;
};

struct Row {
    const void* lines; // of `Lines`
    const Tap* taps;
    const i32* coefficients;
    const void* table; // [channels, 256] elements
    void* row;         // [channels, height, width]
    u32 lines_width;
    u32 mono;          // whether a pixel of `lines` is one byte
    u32 width;
    u32 height;
    u32 left;          // where the resized image is in the row
    u32 right;
    u32 top;
    u32 bottom;
    u32 channels;
    u32 swap;          // whether red and blue change places
    u32 pad_value;
    u32 element_size;  // 1, 2 or 4
};

// Coefficients are not negative, but their sum may round above 2^22.
__device__ __forceinline__ u32 to_byte(i32 sum) {
    return static_cast<u32>(min(sum >> PRECISION_BITS, 255));
}

// Luma of ITU-R BT.601 with Pillow's 16 fraction bits.
__device__ __forceinline__ u32 luma(u32 r, u32 g, u32 b) {
    return (r * 19595u + g * 38470u + b * 7471u + 0x8000u) >> 16;
}

template <int BYTES>
__device__ __forceinline__ u32 resize_colour(
    const u8* line, const i32* coefficients, u32 count) {
    i32 x = HALF, y = HALF, z = HALF;
    for (u32 i = 0; i < count; ++i) {
        const i32 coefficient = coefficients[i];
        x += line[i * BYTES] * coefficient;
        y += line[i * BYTES + 1] * coefficient;
        z += line[i * BYTES + 2] * coefficient;
    }
    return to_byte(x) | to_byte(y) << 8 | to_byte(z) << 16;
}

template <int BYTES, bool BLUE_FIRST>
__device__ __forceinline__ u32 resize_luma(const u8* line, const i32* coefficients, u32 count) {
    i32 sum = HALF;
    for (u32 i = 0; i < count; ++i) {
        const u32 x = line[i * BYTES], y = line[i * BYTES + 1], z = line[i * BYTES + 2];
        sum += static_cast<i32>(BLUE_FIRST ? luma(z, y, x) : luma(x, y, z)) * coefficients[i];
    }
    return to_byte(sum);
}

__device__ __forceinline__ u32 resize_mono(const u8* line, const i32* coefficients, u32 count) {
    i32 sum = HALF;
    for (u32 i = 0; i < count; ++i) sum += line[i] * coefficients[i];
    return to_byte(sum);
}

// One output of `image_lines`, and whether it is a byte: otherwise it has a byte per channel.
struct Output {
    u32 pixel;
    bool is_byte;
};

__device__ __forceinline__ Output resize_line(const Lines& job, u32 x, u32 y) {
    const Tap tap = job.taps[x];
    const i32* coefficients = job.coefficients + tap.begin;
    const u8* line = job.image + y * job.step;
    if (job.encoding == MONO8) {
        return {resize_mono(line + tap.first, coefficients, tap.count), true};
    }
    if (job.encoding == RGB8 || job.encoding == BGR8) {
        line += static_cast<u64>(tap.first) * 3;
        if (!job.luma) return {resize_colour<3>(line, coefficients, tap.count), false};
        if (job.encoding == RGB8) {
            return {resize_luma<3, false>(line, coefficients, tap.count), true};
        }
        return {resize_luma<3, true>(line, coefficients, tap.count), true};
    }
    line += static_cast<u64>(tap.first) * 4;
    if (!job.luma) return {resize_colour<4>(line, coefficients, tap.count), false};
    if (job.encoding == RGBA8) return {resize_luma<4, false>(line, coefficients, tap.count), true};
    return {resize_luma<4, true>(line, coefficients, tap.count), true};
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines(const __grid_constant__ Lines job) {
    launch_later_kernels();
    wait_for_inputs(job.inputs_ready);
    const u64 i = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
    const u32 y = static_cast<u32>(i / job.width);
    const u32 x = static_cast<u32>(i % job.width);
    if (y >= job.count) return;
    const Output out = resize_line(job, x, y);
    // The `image_row` of the image before this one may still read the lines.
    wait_for_earlier_kernels();
    if (out.is_byte) static_cast<u8*>(job.lines)[i] = static_cast<u8>(out.pixel);
    else static_cast<u32*>(job.lines)[i] = out.pixel;
}

// The resized pixel at column x and line y of the resized image: a byte per channel.
__device__ __forceinline__ u32 resize_column(const Row& job, u32 x, u32 y) {
    const Tap tap = job.taps[y];
    const i32* coefficients = job.coefficients + tap.begin;
    const u64 first = static_cast<u64>(tap.first) * job.lines_width + x;
    if (job.mono) {
        const u8* line = static_cast<const u8*>(job.lines) + first;
        i32 sum = HALF;
        for (u32 i = 0; i < tap.count; ++i) {
            sum += line[static_cast<u64>(i) * job.lines_width] * coefficients[i];
        }
        return to_byte(sum) * 0x010101u;
    }
    const u32* line = static_cast<const u32*>(job.lines) + first;
    i32 a = HALF, b = HALF, c = HALF;
    for (u32 i = 0; i < tap.count; ++i) {
        const u32 pixel = line[static_cast<u64>(i) * job.lines_width];
        const i32 coefficient = coefficients[i];
        a += static_cast<i32>(pixel & 255u) * coefficient;
        b += static_cast<i32>(pixel >> 8 & 255u) * coefficient;
        c += static_cast<i32>(pixel >> 16 & 255u) * coefficient;
    }
    return to_byte(a) | to_byte(b) << 8 | to_byte(c) << 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_row(const __grid_constant__ Row job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    const u32 plane = job.width * job.height;
    const u32 at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= plane) return;
    const u32 x = at % job.width, y = at / job.width;
    const bool inside = x >= job.left && x < job.right && y >= job.top && y < job.bottom;
    const u32 pixel =
        inside ? resize_column(job, x - job.left, y - job.top) : job.pad_value * 0x010101u;
    for (u32 channel = 0; channel < job.channels; ++channel) {
        const u32 lane = job.swap ? 2 - channel : channel;
        const u32 entry = channel * 256 + (pixel >> lane * 8 & 255u);
        const u64 place = static_cast<u64>(channel) * plane + at;
        if (job.element_size == 1) {
            static_cast<u8*>(job.row)[place] = static_cast<const u8*>(job.table)[entry];
        } else if (job.element_size == 2) {
            static_cast<u16*>(job.row)[place] = static_cast<const u16*>(job.table)[entry];
        } else {
            static_cast<u32*>(job.row)[place] = static_cast<const u32*>(job.table)[entry];
        }
    }
}

} // namespace image
