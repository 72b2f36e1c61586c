// A control tick over rows on the device: one launch writes every step that changed, from its rows
// into the packed output. Rows are in device memory (images, clouds) or in pinned host memory
// (vectors). The output is the pinned memory that the publisher reads.
#include "interpolate.cuh"

namespace fuse {

// Which conversion a piece takes, from the type of its row to that of its segment.
enum Conversion : u32 {
    F32_TO_F32 = 0,
    F32_TO_F16 = 1,
    F32_TO_BF16 = 2,
    BITS_16 = 3,
    BITS_8 = 4,
};

// A part of one step, small enough for a warp. It has 64 bytes, so that one transaction loads it.
struct alignas(64) Piece {
    const void* a;
    const void* b;
    void* out;
    const u8* lanes; // null where all are linear
    u32 first;       // the first element: `a`, `b` and `lanes` count from the row's first element,
                     // and `out` is where that element would be
    u32 count;
    float weight;
    u32 mode;
    u32 conversion;
    u32 wide; // whether the elements can be accessed 16 bytes at a time
    u32 reserved[2];
};

constexpr u32 THREADS = 128;
// Accesses that a thread has under way at once.
constexpr int UNROLL = 4;

// Writes the piece, N elements at a time per thread.
template <class In, class Out, int N>
__device__ __forceinline__ void write_packs(const Piece& piece, u32 thread) {
    const In* a = static_cast<const In*>(piece.a);
    const In* b = static_cast<const In*>(piece.b);
    Out* out = static_cast<Out*>(piece.out);
    const Mode mode = static_cast<Mode>(piece.mode);
    const u32 end = piece.first + piece.count;
    for (u32 base = piece.first + thread * N; base < end; base += WARP * N * UNROLL) {
        Fetched<In, N> in[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const u32 element = base + i * WARP * N;
            if (element < end) fetch(in[i], mode, a, b, element);
        }
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            const u32 element = base + i * WARP * N;
            if (element < end) put(in[i], mode, piece.weight, out, element);
        }
    }
}

// Writes an interpolated piece whose lanes are not all linear, element by element.
template <class Out>
__device__ __forceinline__ void write_lanes(const Piece& piece, u32 thread) {
    const F32* a = static_cast<const F32*>(piece.a);
    const F32* b = static_cast<const F32*>(piece.b);
    const u32 end = piece.first + piece.count;
    for (u32 element = piece.first + thread; element < end; element += WARP) {
        const float value = between_lane(a, b, piece.weight, piece.lanes, element);
        from_float(value, static_cast<Out*>(piece.out)[element]);
    }
}

template <class In, class Out>
__device__ __forceinline__ void write_piece(const Piece& piece, u32 thread) {
    if constexpr (SAME<In, F32>) {
        if (piece.lanes != nullptr && piece.mode == MODE_BETWEEN) {
            write_lanes<Out>(piece, thread);
            return;
        }
    }
    if (piece.wide) {
        write_packs<In, Out, 16 / sizeof(Out)>(piece, thread);
    } else {
        write_packs<In, Out, 1>(piece, thread);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) fuse_pieces(const Piece* pieces, u32 count) {
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / WARP;
    const u32 thread = threadIdx.x % WARP;
    launch_later_kernels();
    wait_for_earlier_kernels();
    if (warp >= count) return;
    const Piece piece = pieces[warp];
    switch (piece.conversion) {
        case F32_TO_F32: write_piece<F32, F32>(piece, thread); break;
        case F32_TO_F16: write_piece<F32, F16>(piece, thread); break;
        case F32_TO_BF16: write_piece<F32, Bf16>(piece, thread); break;
        case BITS_16: write_piece<Bf16, Bf16>(piece, thread); break;
        case BITS_8: write_piece<U8, U8>(piece, thread); break;
    }
}

} // namespace fuse
