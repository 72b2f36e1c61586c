// The coefficients of a JPEG image into its pixels, before `image_remap` or `image_lines`. The twin is libjpeg.
#include "jpeg.cuh"
#include "jpeg_scan.cuh"

namespace image {

// Threads of a block of coefficients: one per column, then one per line.
constexpr u32 JPEG_LANES = 8;
// The greatest sum of magnitudes whose sums of pairs fit in the 16 bits of libjpeg's vector code.
constexpr u32 MOST_SUM = 32767;
// The least and greatest sample before 128 is added. Outside of these, libjpeg's code in C wraps around and its vector
// code does not.
constexpr i32 LEAST_SAMPLE = -512, MOST_SAMPLE = 511;

struct JpegBlocks {
    const u32* blocks;     // where each begins in `entries`, and their end
    // Of each block: the first coefficient, then `place << VALUE_BITS | value` of the others that are not 0. Places are
    // in the order of the file. Entries of 0 mean nothing.
    const u16* entries;
    const u8* quantisers;  // [3, 64]
    u8* planes[3];         // the samples of each component, in whole units
    u32* refused;          // not 0 if there are no coefficients
    u32* report;           // set if libjpeg's code does not give the same samples on all processors
    u32 count;             // blocks
    u32 unit_blocks;       // blocks of a unit: of luma, then one of each chroma component
    u32 across;            // blocks of luma in a unit
    u32 down;
    u32 units_across;
    u32 reserved;
};

struct JpegPixels {
    const u8* planes[3];
    u8* out;               // red, green, blue
    u32 step;              // bytes from one line to the next: whole fours of pixels
    u32 width;
    u32 height;
    u32 luma_stride;
    u32 chroma_stride;
    u32 chroma_width;
    u32 chroma_height;
    u32 across;
    u32 down;
    u32 reserved;
};

// The inverse transform of every block, with 8 threads each.
extern "C" __global__ void __launch_bounds__(THREADS)
    image_jpeg_blocks(const __grid_constant__ JpegBlocks job) {
    // The columns of the four blocks of a warp are in different banks.
    __shared__ i32 memory[THREADS / JPEG_LANES][72];
    launch_later_kernels();
    // A copy writes the coefficients, and kernels of the previous image may still read the planes.
    wait_for_earlier_kernels();
    const u32 lane = threadIdx.x % JPEG_LANES, local = threadIdx.x / JPEG_LANES;
    const u32 block = blockIdx.x * (THREADS / JPEG_LANES) + local;
    const bool inside = block < job.count && *job.refused == 0;
    i32* numbers = memory[local];
    for (u32 i = lane; i < 64; i += JPEG_LANES) numbers[i] = 0;
    __syncwarp();
    const u32 luma_blocks = job.across * job.down;
    const u32 unit = block / job.unit_blocks, part = block % job.unit_blocks;
    const u32 component = part < luma_blocks ? 0 : part - luma_blocks + 1;
    if (inside) {
        const u8* quantiser = job.quantisers + 64 * component;
        const u32 begin = job.blocks[block], end = job.blocks[block + 1];
        if (lane == 0) numbers[0] = static_cast<short>(job.entries[begin]) * quantiser[0];
        for (u32 i = begin + 1 + lane; i < end; i += JPEG_LANES) {
            const u32 entry = job.entries[i], place = entry >> VALUE_BITS;
            const i32 value = static_cast<i32>(entry << (32 - VALUE_BITS)) >> (32 - VALUE_BITS);
            // Several entries may be parts of one coefficient.
            atomicAdd(&numbers[ZIGZAG[place]], value * quantiser[place]);
        }
    }
    __syncwarp();
    i32 x[8];
    u32 sum = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        x[i] = numbers[8 * i + lane];
        sum += static_cast<u32>(abs(x[i]));
    }
    for (u32 i = 1; i < JPEG_LANES; i *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, i);
    jpeg_pass(x);
#pragma unroll
    for (u32 i = 0; i < 8; ++i) numbers[8 * i + lane] = (x[i] + (1 << 10)) >> 11;
    __syncwarp();
    u32 line_sum = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        x[i] = numbers[8 * lane + i];
        line_sum += static_cast<u32>(abs(x[i]));
    }
    jpeg_pass(x);
    if (!inside) return;
    bool is_safe = sum <= MOST_SUM && line_sum <= MOST_SUM;
    u64 samples = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) {
        const i32 sample = (x[i] + (1 << 17)) >> 18;
        is_safe = is_safe && sample >= LEAST_SAMPLE && sample <= MOST_SAMPLE;
        samples |= static_cast<u64>(jpeg_clamp(sample + 128)) << 8 * i;
    }
    if (!is_safe) *job.report = 1;
    const bool luma = component == 0;
    const u32 across = luma ? job.across : 1, down = luma ? job.down : 1;
    const u32 at = luma ? part : 0;
    const u64 column = unit % job.units_across * across + at % across;
    const u64 line = (unit / job.units_across * down + at / across) * 8 + lane;
    const u64 stride = 8ull * job.units_across * across;
    *reinterpret_cast<u64*>(job.planes[component] + line * stride + 8 * column) = samples;
}

// The colours of four pixels per thread.
extern "C" __global__ void __launch_bounds__(THREADS)
    image_jpeg_pixels(const __grid_constant__ JpegPixels job) {
    launch_later_kernels();
    wait_for_earlier_kernels();
    const u32 fours = (job.width + 3) / 4;
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    const u32 y = i / fours, x = i % fours * 4;
    if (y >= job.height) return;
    const u8* luma = job.planes[0] + static_cast<u64>(y) * job.luma_stride;
    const Chroma cb = {job.planes[1], job.chroma_stride, job.chroma_width,
                       job.chroma_height, job.across, job.down};
    Chroma cr = cb;
    cr.samples = job.planes[2];
    u32 rgb[4];
    // Those behind the last pixel of a line are in the padding of both.
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
        rgb[k] = jpeg_rgb(luma[x + k], jpeg_chroma(cb, x + k, y), jpeg_chroma(cr, x + k, y));
    }
    u32* out = reinterpret_cast<u32*>(job.out + static_cast<u64>(y) * job.step + 3 * x);
    out[0] = rgb[0] | rgb[1] << 24;
    out[1] = rgb[1] >> 8 | rgb[2] << 16;
    out[2] = rgb[2] >> 16 | rgb[3] << 8;
}

} // namespace image
