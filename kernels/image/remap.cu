// An image whose pixels are those of another at given points: the twin of crates/ops/src/image/remap.rs, where the
// arithmetic is explained. Before `image_lines`, it undistorts.
#include "../common.cuh"

namespace image {

struct Remap {
    const u8* image;      // line 0; only lines that points read are there
    u64 step;             // bytes from one line to the next
    const u32* points;    // x of the upper left pixel in the lower half, y in the upper
    const u16* fractions; // 32nds of the way to the next column, and 32 times those to the next line
    u8* out;              // `channels` bytes per pixel, without padding
    u32 count;            // pixels
    u32 image_width;
    u32 image_height;
    u32 bytes;            // of a pixel of the image
    u32 channels;         // 1 or 3
    u32 reserved;
};

// The byte of a channel; zero outside of the image.
__device__ __forceinline__ u32 byte_at(const Remap& job, i32 x, i32 y, u32 channel) {
    // As unsigned numbers, those below zero are too large.
    const u32 column = static_cast<u32>(x), line = static_cast<u32>(y);
    if (column >= job.image_width || line >= job.image_height) return 0;
    return job.image[line * job.step + static_cast<u64>(column) * job.bytes + channel];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    image_remap(const __grid_constant__ Remap job) {
    launch_later_kernels();
    // A copy writes the image, and the kernels of the previous image may still read `out`.
    wait_for_earlier_kernels();
    const u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= job.count) return;
    const u32 point = job.points[i], fraction = job.fractions[i];
    const i32 x = static_cast<short>(point & 0xFFFFu), y = static_cast<short>(point >> 16);
    const u32 fx = fraction & 31u, fy = fraction >> 5;
    u8* out = job.out + static_cast<u64>(i) * job.channels;
    for (u32 channel = 0; channel < job.channels; ++channel) {
        const u32 left =
            byte_at(job, x, y, channel) * (32 - fy) + byte_at(job, x, y + 1, channel) * fy;
        const u32 right =
            byte_at(job, x + 1, y, channel) * (32 - fy) + byte_at(job, x + 1, y + 1, channel) * fy;
        out[channel] = static_cast<u8>((left * (32 - fx) + right * fx + 512) >> 10);
    }
}

} // namespace image
