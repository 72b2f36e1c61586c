// Kernels to compare with, for the benchmarks alone. They are compiled like those of the library.
#include "../../../kernels/resample/interpolate.cuh"

constexpr u32 THREADS = 256;

// The baseline for `resample_bf16`: one thread per element, each with its own binary search.
extern "C" __global__ void __launch_bounds__(THREADS) bench_resample_bf16(
    const Bf16* rows, const i64* stamps, const i64* targets, Bf16* out, u32 len, u32 dim, u32 steps,
    u64 elements) {
    const u64 i = static_cast<u64>(blockIdx.x) * THREADS + threadIdx.x;
    launch_later_kernels();
    wait_for_earlier_kernels();
    if (i >= elements) return;
    const u32 element = static_cast<u32>(i % dim);
    const u64 at = i / dim;
    const u64 episode = at / steps;
    const i64* own = stamps + episode * len;
    const i64 target = targets[at];
    u32 low = 0, high = len;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (own[middle] <= target) low = middle + 1;
        else high = middle;
    }
    const u32 a = low == 0 ? 0 : low - 1;
    const u32 b = low == len ? a : low;
    float weight = 0.0f;
    if (a != b && target > own[a]) {
        weight = static_cast<float>(
            static_cast<double>(target - own[a]) / static_cast<double>(own[b] - own[a]));
    }
    const Bf16* base = rows + episode * len * dim + element;
    const float x = to_float(base[static_cast<u64>(a) * dim]);
    const float y = to_float(base[static_cast<u64>(b) * dim]);
    from_float(linear(x, y, weight), out[i]);
}

// Does nothing: shows what a launch costs by itself.
extern "C" __global__ void bench_empty() {
    launch_later_kernels();
    wait_for_earlier_kernels();
}
