// The arithmetic of libjpeg's decoder: its `islow` inverse transform, the triangle filter that it calls fancy
// upsampling, and its conversion of colours. crates/ops/src/image/jpeg.rs says which coefficients this is exact for.
#pragma once
#include "../common.cuh"

namespace image {

// From the order of the file to row by row.
__device__ constexpr u8 ZIGZAG[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// One dimension of the transform: the twin of `pass` in crates/ops/src/image/jpeg.rs.
__device__ __forceinline__ void jpeg_pass(i32 (&x)[8]) {
    const i32 turn = (x[2] + x[6]) * 4433;
    const i32 low = turn - x[6] * 15137, high = turn + x[2] * 6270;
    const i32 sum = (x[0] + x[4]) * 8192, difference = (x[0] - x[4]) * 8192;
    const i32 even[4] = {sum + high, difference + low, difference - low, sum - high};
    const i32 all = (x[7] + x[3] + x[5] + x[1]) * 9633;
    const i32 z1 = (x[7] + x[1]) * -7373, z2 = (x[5] + x[3]) * -20995;
    const i32 z3 = (x[7] + x[3]) * -16069 + all, z4 = (x[5] + x[1]) * -3196 + all;
    const i32 odd[4] = {
        x[1] * 12299 + z1 + z4, x[3] * 25172 + z2 + z3, x[5] * 16819 + z2 + z4, x[7] * 2446 + z1 + z3};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        x[i] = even[i] + odd[i];
        x[7 - i] = even[i] - odd[i];
    }
}

__device__ __forceinline__ u32 jpeg_clamp(i32 value) {
    return static_cast<u32>(min(max(value, 0), 255));
}

// A component whose samples may be larger than pixels.
struct Chroma {
    const u8* samples;
    u32 stride;
    u32 width;
    u32 height;
    u32 across; // pixels of a sample: 1 or 2
    u32 down;
};

// The sample of a pixel. Three quarters are those of the nearest, one quarter those of the next one, in both directions;
// at an edge the nearest is also the next. libjpeg repeats the samples of a line of one or two.
__device__ __forceinline__ i32 jpeg_chroma(const Chroma& of, u32 x, u32 y) {
    const u32 column = min(x / of.across, of.width - 1), line = min(y / of.down, of.height - 1);
    const u8* near = of.samples + static_cast<u64>(line) * of.stride;
    if (of.across == 2 && of.width <= 2) return near[column];
    const bool right = x % 2 == 1, lower = y % 2 == 1;
    const u8* far = near;
    if (of.down == 2) {
        if (lower && line + 1 < of.height) far += of.stride;
        if (!lower && line > 0) far -= of.stride;
    }
    u32 next = column;
    if (of.across == 2) {
        if (right && column + 1 < of.width) next += 1;
        if (!right && column > 0) next -= 1;
    }
    const i32 here = of.down == 2 ? 3 * near[column] + far[column] : near[column];
    if (of.across == 1) return of.down == 2 ? (here + (lower ? 2 : 1)) >> 2 : here;
    const i32 there = of.down == 2 ? 3 * near[next] + far[next] : near[next];
    if (of.down == 2) return (3 * here + there + (right ? 7 : 8)) >> 4;
    return (3 * here + there + (right ? 2 : 1)) >> 2;
}

// Red in the lowest byte, then green and blue.
__device__ __forceinline__ u32 jpeg_rgb(i32 y, i32 cb, i32 cr) {
    cb -= 128;
    cr -= 128;
    const i32 red = y + ((91881 * cr + 32768) >> 16);
    const i32 green = y + ((-22554 * cb - 46802 * cr + 32768) >> 16);
    const i32 blue = y + ((116130 * cb + 32768) >> 16);
    return jpeg_clamp(red) | jpeg_clamp(green) << 8 | jpeg_clamp(blue) << 16;
}

} // namespace image
