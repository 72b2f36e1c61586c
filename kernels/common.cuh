// What all kernels share: integers, the order of launches, and element types.
//
// Every kernel has a twin on the CPU and must give the same bits. The kernels are therefore
// compiled without fused multiply-add (-fmad=false) and with IEEE division. All expressions keep
// the order of their twins.
//
// Structures that the host fills are declared twice: here, and in crates/ops/src/device/shared.rs.
// crates/kernels/build.rs compares the two when it compiles the kernels.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

constexpr u32 NONE = 0xFFFFFFFFu;
constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xFFFFFFFFu;

// ---- From one launch to the next ----------------------------------------------------------------

// Waits until all earlier work on this kernel's stream is done and visible.
//
// Launches of a stream may overlap ("programmatic dependent launch", from Hopper on): a kernel
// starts while the one before it ends. Before this call a kernel may only do work that does not
// depend on earlier kernels. So every kernel calls it before it writes memory, and before it reads
// what an earlier kernel may write. Because every kernel calls it, "all earlier work" includes more
// than the last kernel.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start as soon as all thread blocks have called this or ended.
__device__ __forceinline__ void launch_later_kernels() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits before the first read of inputs, unless the host says that they are ready. Inputs are ready if
// no kernel that may still run writes them (`Inputs` in crates/ops/src/device/mod.rs).
__device__ __forceinline__ void wait_for_inputs(u32 inputs_ready) {
    if (!inputs_ready) wait_for_earlier_kernels();
}

// ---- Element types (crates/ops/src/dtype.rs) ----------------------------------------------------

// The codes by which the host names element types.
enum DType : u32 { DTYPE_F32 = 0, DTYPE_F16 = 1, DTYPE_BF16 = 2, DTYPE_U8 = 3, DTYPE_I32 = 4 };

struct F32 {
    u32 bits;
};
struct F16 {
    u16 bits;
};
struct Bf16 {
    u16 bits;
};
struct U8 {
    u8 bits;
};

__device__ __forceinline__ float to_float(F32 value) {
    return __uint_as_float(value.bits);
}
__device__ __forceinline__ float to_float(F16 value) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
    return out;
}
__device__ __forceinline__ float to_float(Bf16 value) {
    return __uint_as_float(static_cast<u32>(value.bits) << 16);
}

__device__ __forceinline__ float to_float(U8 value) {
    return static_cast<float>(value.bits);
}

__device__ __forceinline__ void from_float(float value, F32& out) {
    out.bits = __float_as_uint(value);
}
__device__ __forceinline__ void from_float(float value, F16& out) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
}
// To nearest, ties to even. A NaN stays a NaN, because the addition could make it a zero.
__device__ __forceinline__ void from_float(float value, Bf16& out) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
#else
    const u32 bits = __float_as_uint(value);
    const u32 rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    out.bits = static_cast<u16>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : rounded);
#endif
}

// To nearest, ties to even; beyond the range: the closest integer.
__device__ __forceinline__ void from_float(float value, U8& out) {
    out.bits = static_cast<u8>(min(max(__float2int_rn(value), 0), 255));
}

// The least magnitude that an element type rounds to infinity: half way between its greatest value
// and the next one, if it had a next one. An f32 has no such magnitude.
template <class T>
constexpr float BEYOND = 0.0f;
template <>
constexpr float BEYOND<F16> = 65520.0f;
template <>
constexpr float BEYOND<Bf16> = 3.39617752923046005526e38f; // 0x7F7F8000

template <class A, class B>
constexpr bool SAME = false;
template <class A>
constexpr bool SAME<A, A> = true;

// N elements that one access loads or stores: at most 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) Pack {
    T at[N];
};

// All elements of a pack. Where the chip has it, one instruction converts two of them.
template <class T, int N>
__device__ __forceinline__ void from_floats(const float (&values)[N], Pack<T, N>& out) {
#if __CUDA_ARCH__ >= 800
    if constexpr (SAME<T, Bf16> && N % 2 == 0) {
        u32 words[N / 2];
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
            const float low = values[2 * i], high = values[2 * i + 1];
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[i]) : "f"(high), "f"(low));
        }
#pragma unroll
        for (int i = 0; i < N; ++i) out.at[i].bits = static_cast<u16>(words[i / 2] >> 16 * (i % 2));
    } else
#endif
    {
#pragma unroll
        for (int i = 0; i < N; ++i) from_float(values[i], out.at[i]);
    }
}
