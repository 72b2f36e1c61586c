// An image into a row of the tensor: the twin of crates/ops/src/image/cpu.rs. crates/ops/src/image/placement.rs
// explains which pixel goes where, and geometry.rs and weights.rs the arithmetic. There are two passes:
//
// 1. `image_lines` resizes every line that is needed.
// 2. `image_row` resizes the columns of those lines, looks up the elements and pads.
//
// The kernels with these names compute in integers, with bytes between the passes. `_vertical_first` has the
// other order: the first pass resizes every column that is needed, the second one resizes the lines of the
// result. Kernels of other filters (`_linear`, `_area`, `_torch`) have numbers of 32 bits between the passes.
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

// One input of an output, if there are numbers between the passes.
struct Weight {
    u32 input;
    u32 value; // i32 or f32
};

struct Lines {
    const u8* image; // at the first line and column that are read
    u64 step;        // bytes from one line to the next
    const Tap* taps;
    const void* coefficients; // i32, or `Weight`
    void* lines;     // [count, width]: 1 or 4 bytes each, or 1 or 4 numbers
    u32 count;       // lines of the result
    u32 width;       // outputs per line
    u32 encoding;
    u32 luma;        // whether colour becomes mono
    u32 inputs_ready; // whether no kernel that may still run writes image, taps or coefficients
    u32 reserved;
};

struct Row {
    const void* lines; // of `Lines`
    const Tap* taps;
    const void* coefficients; // i32, or `Weight`
    const void* table; // [channels, 256] elements
    void* row;
    u64 pixel_stride;  // elements of the row from one pixel to the next
    u64 channel_stride; // and from one channel to the next
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
    float scale;       // of a sum of `_area`
    u32 half_up;       // whether a tie is rounded up
};

// Coefficients are not negative, but their sum may round above 2^22.
__device__ __forceinline__ u32 to_byte(i32 sum) {
    return static_cast<u32>(min(sum >> PRECISION_BITS, 255));
}

// Luma of ITU-R BT.601 with Pillow's 16 fraction bits.
__device__ __forceinline__ u32 luma(u32 r, u32 g, u32 b) {
    return (r * 19595u + g * 38470u + b * 7471u + 0x8000u) >> 16;
}

// `stride` is the bytes from one input to the next.
__device__ __forceinline__ u32 resize_colour(
    const u8* first, u64 stride, const i32* coefficients, u32 count) {
    i32 x = HALF, y = HALF, z = HALF;
    for (u32 i = 0; i < count; ++i) {
        const i32 coefficient = coefficients[i];
        const u8* pixel = first + i * stride;
        x += pixel[0] * coefficient;
        y += pixel[1] * coefficient;
        z += pixel[2] * coefficient;
    }
    return to_byte(x) | to_byte(y) << 8 | to_byte(z) << 16;
}

template <bool BLUE_FIRST>
__device__ __forceinline__ u32 resize_luma(
    const u8* first, u64 stride, const i32* coefficients, u32 count) {
    i32 sum = HALF;
    for (u32 i = 0; i < count; ++i) {
        const u8* pixel = first + i * stride;
        const u32 x = pixel[0], y = pixel[1], z = pixel[2];
        sum += static_cast<i32>(BLUE_FIRST ? luma(z, y, x) : luma(x, y, z)) * coefficients[i];
    }
    return to_byte(sum);
}

__device__ __forceinline__ u32 resize_mono(
    const u8* first, u64 stride, const i32* coefficients, u32 count) {
    i32 sum = HALF;
    for (u32 i = 0; i < count; ++i) sum += first[i * stride] * coefficients[i];
    return to_byte(sum);
}

// One output of the first pass, and whether it is a byte: otherwise it has a byte per channel.
struct Output {
    u32 pixel;
    bool is_byte;
};

// For pixels of BYTES bytes.
template <bool VERTICAL_FIRST, int BYTES>
__device__ __forceinline__ Output resize_first(const Lines& job, u32 x, u32 y) {
    const Tap tap = job.taps[VERTICAL_FIRST ? y : x];
    const i32* coefficients = static_cast<const i32*>(job.coefficients) + tap.begin;
    const u64 column = VERTICAL_FIRST ? x : tap.first;
    const u8* first = job.image + (VERTICAL_FIRST ? tap.first : y) * job.step + column * BYTES;
    const u64 stride = VERTICAL_FIRST ? job.step : BYTES;
    if (BYTES == 1) return {resize_mono(first, stride, coefficients, tap.count), true};
    if (!job.luma) return {resize_colour(first, stride, coefficients, tap.count), false};
    if (job.encoding == RGB8 || job.encoding == RGBA8) {
        return {resize_luma<false>(first, stride, coefficients, tap.count), true};
    }
    return {resize_luma<true>(first, stride, coefficients, tap.count), true};
}

template <bool VERTICAL_FIRST>
__device__ __forceinline__ void byte_lines(const Lines& job) {
    launch_later_kernels();
    wait_for_inputs(job.inputs_ready);
    const u64 i = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
    const u32 y = static_cast<u32>(i / job.width);
    const u32 x = static_cast<u32>(i % job.width);
    if (y >= job.count) return;
    const bool three = job.encoding == RGB8 || job.encoding == BGR8;
    const Output out = job.encoding == MONO8 ? resize_first<VERTICAL_FIRST, 1>(job, x, y)
        : three ? resize_first<VERTICAL_FIRST, 3>(job, x, y) : resize_first<VERTICAL_FIRST, 4>(job, x, y);
    // The second pass of the image before this one may still read the lines.
    wait_for_earlier_kernels();
    if (out.is_byte) static_cast<u8*>(job.lines)[i] = static_cast<u8>(out.pixel);
    else static_cast<u32*>(job.lines)[i] = out.pixel;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines(const __grid_constant__ Lines job) { byte_lines<false>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines_vertical_first(const __grid_constant__ Lines job) { byte_lines<true>(job); }

// The resized pixel at column x and line y of the resized image: a byte per channel.
template <bool VERTICAL_FIRST>
__device__ __forceinline__ u32 resize_second(const Row& job, u32 x, u32 y) {
    const Tap tap = job.taps[VERTICAL_FIRST ? x : y];
    const i32* coefficients = static_cast<const i32*>(job.coefficients) + tap.begin;
    const u64 column = VERTICAL_FIRST ? tap.first : x;
    const u64 first = static_cast<u64>(VERTICAL_FIRST ? y : tap.first) * job.lines_width + column;
    const u64 stride = VERTICAL_FIRST ? 1 : job.lines_width;
    if (job.mono) {
        const u8* line = static_cast<const u8*>(job.lines) + first;
        i32 sum = HALF;
        for (u32 i = 0; i < tap.count; ++i) {
            sum += line[i * stride] * coefficients[i];
        }
        return to_byte(sum) * 0x010101u;
    }
    const u32* line = static_cast<const u32*>(job.lines) + first;
    i32 a = HALF, b = HALF, c = HALF;
    for (u32 i = 0; i < tap.count; ++i) {
        const u32 pixel = line[i * stride];
        const i32 coefficient = coefficients[i];
        a += static_cast<i32>(pixel & 255u) * coefficient;
        b += static_cast<i32>(pixel >> 8 & 255u) * coefficient;
        c += static_cast<i32>(pixel >> 16 & 255u) * coefficient;
    }
    return to_byte(a) | to_byte(b) << 8 | to_byte(c) << 16;
}

// Writes the elements of a pixel of the row: a byte per channel.
__device__ __forceinline__ void write_pixel(const Row& job, u32 at, u32 pixel) {
    for (u32 channel = 0; channel < job.channels; ++channel) {
        const u32 lane = job.swap ? 2 - channel : channel;
        const u32 entry = channel * 256 + (pixel >> lane * 8 & 255u);
        const u64 place = channel * job.channel_stride + at * job.pixel_stride;
        if (job.element_size == 1) {
            static_cast<u8*>(job.row)[place] = static_cast<const u8*>(job.table)[entry];
        } else if (job.element_size == 2) {
            static_cast<u16*>(job.row)[place] = static_cast<const u16*>(job.table)[entry];
        } else {
            static_cast<u32*>(job.row)[place] = static_cast<const u32*>(job.table)[entry];
        }
    }
}

// The second pass. `resize(x, y)` gives the pixel of the resized image: a byte per channel.
template <typename Resize>
__device__ __forceinline__ void write_row(const Row& job, Resize resize) {
    const u32 at = blockIdx.x * THREADS + threadIdx.x;
    if (at >= job.width * job.height) return;
    const u32 x = at % job.width, y = at / job.width;
    const bool inside = x >= job.left && x < job.right && y >= job.top && y < job.bottom;
    const u32 pixel = inside ? resize(x - job.left, y - job.top) : job.pad_value * 0x010101u;
    write_pixel(job, at, pixel);
}

template <bool VERTICAL_FIRST>
__device__ __forceinline__ void byte_row(const Row& job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    write_row(job, [&](u32 x, u32 y) { return resize_second<VERTICAL_FIRST>(job, x, y); });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_row(const __grid_constant__ Row job) { byte_row<false>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_row_vertical_first(const __grid_constant__ Row job) { byte_row<true>(job); }

// ---- Filters with numbers between the passes ----------------------------------------------------
// Each has the same operations as its twin in crates/ops/src/image/arithmetic.rs, in the same order.

struct Linear {
    using Number = i32;
    static __device__ __forceinline__ i32 weight(u32 bits) { return static_cast<i32>(bits); }
    static __device__ __forceinline__ i32 add_byte(i32 sum, u32 byte, i32 weight) {
        return sum + static_cast<i32>(byte) * weight;
    }
    static __device__ __forceinline__ i32 add_value(i32 sum, i32 value, i32 weight) {
        return sum + ((value >> 4) * weight >> 16);
    }
    static __device__ __forceinline__ u32 finish(const Row&, i32 sum) {
        return static_cast<u32>(min(max((sum + 2) >> 2, 0), 255));
    }
};

// To the nearest byte; a tie to the even number, or up.
__device__ __forceinline__ u32 round_to_byte(float value, u32 half_up) {
    const float rounded = half_up ? floorf(__fadd_rn(value, 0.5f)) : rintf(value);
    return static_cast<u32>(fminf(fmaxf(rounded, 0.0f), 255.0f));
}

struct Area {
    using Number = float;
    static __device__ __forceinline__ float weight(u32 bits) { return __uint_as_float(bits); }
    static __device__ __forceinline__ float add_byte(float sum, u32 byte, float weight) {
        return add_value(sum, static_cast<float>(byte), weight);
    }
    static __device__ __forceinline__ float add_value(float sum, float value, float weight) {
        return __fadd_rn(sum, __fmul_rn(value, weight));
    }
    static __device__ __forceinline__ u32 finish(const Row& job, float sum) {
        return round_to_byte(__fmul_rn(sum, job.scale), job.half_up);
    }
};

struct Torch {
    using Number = float;
    static __device__ __forceinline__ float weight(u32 bits) { return __uint_as_float(bits); }
    static __device__ __forceinline__ float add_byte(float sum, u32 byte, float weight) {
        return add_value(sum, static_cast<float>(byte), weight);
    }
    // The product of two f32 is exact in f64.
    static __device__ __forceinline__ float add_value(float sum, float value, float weight) {
        const double product = __dmul_rn(static_cast<double>(value), static_cast<double>(weight));
        return __double2float_rn(__dadd_rn(static_cast<double>(sum), product));
    }
    static __device__ __forceinline__ u32 finish(const Row&, float sum) {
        return round_to_byte(sum, 0);
    }
};

// Four numbers side by side; the last has no meaning.
template <typename Number>
struct alignas(16) Four {
    Number x, y, z, unused;
};

// The first pass of one output of colour, for pixels of BYTES bytes.
template <typename A, int BYTES>
__device__ __forceinline__ void sum_colour(
    const u8* line, const Weight* weights, u32 count, Four<typename A::Number>* out) {
    Four<typename A::Number> sum = {};
    for (u32 i = 0; i < count; ++i) {
        const auto weight = A::weight(weights[i].value);
        const u8* pixel = line + static_cast<u64>(weights[i].input) * BYTES;
        sum.x = A::add_byte(sum.x, pixel[0], weight);
        sum.y = A::add_byte(sum.y, pixel[1], weight);
        sum.z = A::add_byte(sum.z, pixel[2], weight);
    }
    *out = sum;
}

// The same for one channel; `read` gives the byte of an input.
template <typename A, typename Read>
__device__ __forceinline__ typename A::Number sum_channel(
    const Weight* weights, u32 count, Read read) {
    typename A::Number sum = 0;
    for (u32 i = 0; i < count; ++i) {
        sum = A::add_byte(sum, read(weights[i].input), A::weight(weights[i].value));
    }
    return sum;
}

// Luma of a pixel.
__device__ __forceinline__ u32 luma_at(const u8* pixel, bool blue_first) {
    return blue_first ? luma(pixel[2], pixel[1], pixel[0]) : luma(pixel[0], pixel[1], pixel[2]);
}

template <typename A>
__device__ __forceinline__ void number_lines(const Lines& job) {
    using Number = typename A::Number;
    launch_later_kernels();
    wait_for_inputs(job.inputs_ready);
    const u64 i = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
    const u32 y = static_cast<u32>(i / job.width);
    const u32 x = static_cast<u32>(i % job.width);
    if (y >= job.count) return;
    const Tap tap = job.taps[x];
    const Weight* weights = static_cast<const Weight*>(job.coefficients) + tap.begin;
    const u8* line = job.image + y * job.step;
    const bool three = job.encoding == RGB8 || job.encoding == BGR8;
    if (job.encoding == MONO8 || job.luma) {
        const u32 bytes = job.encoding == MONO8 ? 1 : three ? 3 : 4;
        const bool blue_first = job.encoding == BGR8 || job.encoding == BGRA8;
        const Number sum = sum_channel<A>(weights, tap.count, [&](u32 input) -> u32 {
            const u8* pixel = line + static_cast<u64>(input) * bytes;
            return bytes == 1 ? pixel[0] : luma_at(pixel, blue_first);
        });
        // The second pass of the image before this one may still read the lines.
        wait_for_earlier_kernels();
        static_cast<Number*>(job.lines)[i] = sum;
        return;
    }
    Four<Number> sum;
    if (three) sum_colour<A, 3>(line, weights, tap.count, &sum);
    else sum_colour<A, 4>(line, weights, tap.count, &sum);
    wait_for_earlier_kernels();
    static_cast<Four<Number>*>(job.lines)[i] = sum;
}

template <typename A>
__device__ __forceinline__ u32 number_column(const Row& job, u32 x, u32 y) {
    using Number = typename A::Number;
    const Tap tap = job.taps[y];
    const Weight* weights = static_cast<const Weight*>(job.coefficients) + tap.begin;
    if (job.mono) {
        const Number* lines = static_cast<const Number*>(job.lines) + x;
        Number sum = 0;
        for (u32 i = 0; i < tap.count; ++i) {
            const Number value = lines[static_cast<u64>(weights[i].input) * job.lines_width];
            sum = A::add_value(sum, value, A::weight(weights[i].value));
        }
        return A::finish(job, sum) * 0x010101u;
    }
    const Four<Number>* lines = static_cast<const Four<Number>*>(job.lines) + x;
    Four<Number> sum = {};
    for (u32 i = 0; i < tap.count; ++i) {
        const auto weight = A::weight(weights[i].value);
        const Four<Number> value = lines[static_cast<u64>(weights[i].input) * job.lines_width];
        sum.x = A::add_value(sum.x, value.x, weight);
        sum.y = A::add_value(sum.y, value.y, weight);
        sum.z = A::add_value(sum.z, value.z, weight);
    }
    return A::finish(job, sum.x) | A::finish(job, sum.y) << 8 | A::finish(job, sum.z) << 16;
}

template <typename A>
__device__ __forceinline__ void number_row(const Row& job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    write_row(job, [&](u32 x, u32 y) { return number_column<A>(job, x, y); });
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines_linear(const __grid_constant__ Lines job) { number_lines<Linear>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_row_linear(const __grid_constant__ Row job) { number_row<Linear>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines_area(const __grid_constant__ Lines job) { number_lines<Area>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_row_area(const __grid_constant__ Row job) { number_row<Area>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_lines_torch(const __grid_constant__ Lines job) { number_lines<Torch>(job); }
extern "C" __global__ void __launch_bounds__(THREADS)
    image_row_torch(const __grid_constant__ Row job) { number_row<Torch>(job); }

} // namespace image
