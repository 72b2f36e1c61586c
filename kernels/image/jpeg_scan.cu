// The compressed data of a JPEG image into its coefficients, before `image_jpeg_blocks`.
//
// A Huffman code can only be read from its beginning. But a thread that begins at a wrong place soon reads the same
// codewords as one that began at the right place, and then both read the same for ever (Weissenberger and Schmidt,
// "Massively Parallel Huffman Decoding on GPUs", 2018). So each thread reads a piece, and then goes on into the next
// ones, until it ends one at the same place as the thread that had begun there.
//
// What is found is what one thread finds that reads all from the beginning. Whatever a core would not take for a whole
// file without damage is refused: then a core decodes the file, or says what is wrong with it.
#include "jpeg_scan.cuh"

namespace image {

// Threads, with a piece each.
constexpr u32 SCAN_THREADS = 128;
// Pieces of a sequence. The other threads begin before it, so that it nearly always begins at the right place.
constexpr u32 SEQUENCE = 112;
// Rounds in which sequences are joined, at most. One is usual. A file needs many if nothing tells luma from chroma, and
// then a core is faster.
constexpr u32 MOST_ROUNDS = 3;
// Threads of the only block of `image_jpeg_join`: sequences, at most.
constexpr u32 JOIN_THREADS = 1024;

__device__ __forceinline__ void load_tables(const JpegScan& job, JpegTable* tables) {
    const u32 words = job.table_count * sizeof(JpegTable) / 4;
    const u32* from = reinterpret_cast<const u32*>(job.tables);
    u32* to = reinterpret_cast<u32*>(tables);
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
    __syncthreads();
}

// The words of pieces, in shared memory.
struct ScanMemory {
    // Those of the pieces, of the first codewords behind them, and what is on its way then.
    u32 words[SCAN_THREADS * (PIECE_BITS / 32 + 1) + 4];

    __device__ __forceinline__ ScanWords load(const JpegScan& job, u32 first, u32 last) {
        const u32 begin = (job.starts[first] & ~FIRST) >> 5, end = ((job.starts[last] & ~FIRST) >> 5) + 4;
        for (u32 i = begin + threadIdx.x; i < end; i += blockDim.x) words[i - begin] = job.words[i];
        __syncthreads();
        return {words, begin};
    }
};

__device__ __forceinline__ void refuse(const JpegScan& job) {
    *job.refused = 1;
    *job.report = 1;
}

// Finds where the pieces of a sequence begin, as if the first one before it began with a block. Then counts what is in
// each.
extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    image_jpeg_sync(const __grid_constant__ JpegScan job) {
    __shared__ JpegTable tables[4];
    __shared__ ScanMemory memory;
    __shared__ ScanPlace ends[SCAN_THREADS];
    launch_later_kernels();
    wait_for_earlier_kernels();
    load_tables(job, tables);
    const u32 begin = blockIdx.x * SEQUENCE, last = min(begin + SEQUENCE, job.count);
    const u32 before = min(begin, SCAN_THREADS - SEQUENCE), first = begin - before;
    const ScanWords words = memory.load(job, first, last);
    const u32 own = first + threadIdx.x;
    if (own == 0) *job.refused = 0;
    const ScanPlace start = {own < last ? job.starts[own] & ~FIRST : 0, 0, 0};
    ScanPlace at = start;
    bool goes_on = own < last;
    for (u32 piece = own; __syncthreads_or(goes_on); ++piece) {
        // In each round a piece has one thread at most.
        goes_on = goes_on && piece < last && (piece == own || !(job.starts[piece] & FIRST));
        if (!goes_on) continue;
        ScanSteps steps;
        read_piece(job, words, tables, at, job.starts[piece + 1] & ~FIRST, steps);
        ScanPlace& end = ends[piece - first];
        goes_on = piece == own || end.bit != at.bit || packed(end) != packed(at);
        end = at;
    }
    if (own + 1 == begin) {
        job.entered[2 * blockIdx.x] = ends[threadIdx.x].bit;
        job.entered[2 * blockIdx.x + 1] = packed(ends[threadIdx.x]);
    }
    if (own < begin || own >= last) return;
    at = job.starts[own] & FIRST ? start : ends[threadIdx.x - 1];
    count_piece(job, words, tables, own, at);
}

// A sum over pieces. Those of a part begin with 0.
struct ScanSum {
    JpegBase base;
    u32 is_first;
};

__device__ __forceinline__ ScanSum added(const ScanSum& a, const ScanSum& b) {
    ScanSum sum = b;
    sum.base.entries += a.base.entries;
    sum.base.part += a.base.part;
    sum.is_first |= a.is_first;
    if (!b.is_first) {
        sum.base.blocks += a.base.blocks;
#pragma unroll
        for (u32 i = 0; i < 3; ++i) sum.base.sums[i] += a.base.sums[i];
    }
    return sum;
}

__device__ __forceinline__ ScanSum sum_of(const JpegScan& job, u32 piece) {
    const JpegPiece& of = job.pieces[piece];
    const u32 first = job.starts[piece] >> 31;
    return {{of.entries, of.blocks, {of.sums[0], of.sums[1], of.sums[2]}, first}, first};
}

// True if the sequence did not begin where the one before it ends.
__device__ __forceinline__ bool begins_elsewhere(const JpegScan& job, u32 sequence, u32 begin) {
    if (sequence == 0 || begin >= job.count || job.starts[begin] & FIRST) return false;
    const JpegPiece& before = job.pieces[begin - 1];
    return job.entered[2 * sequence] != before.bit || job.entered[2 * sequence + 1] != before.place;
}

// Joins the sequences: goes on from the end of each into the next one, where that begins elsewhere.
__device__ __forceinline__ void join_sequences(
    const JpegScan& job, const JpegTable* tables, u32 (&changed)[JOIN_THREADS + 1]) {
    const u32 thread = threadIdx.x;
    const u32 begin = thread * SEQUENCE, last = min(begin + SEQUENCE, job.count);
    bool more = begins_elsewhere(job, thread, begin);
    changed[thread] = more;
    for (u32 round = 0; __syncthreads_or(more); ++round) {
        if (round == MOST_ROUNDS) {
            refuse(job);
            return;
        }
        const bool joins = changed[thread] && begin < job.count && !(job.starts[begin] & FIRST);
        ScanPlace at = {};
        if (joins) at = behind(job.pieces[begin - 1]);
        __syncthreads();
        changed[thread] = 0;
        __syncthreads();
        more = false;
        if (!joins) continue;
        bool goes_on = true;
        for (u32 piece = begin; goes_on && piece < last; ++piece) {
            goes_on = (piece == begin || !(job.starts[piece] & FIRST)) &&
                count_piece(job, {job.words, 0}, tables, piece, at);
        }
        // The end of this sequence is another one, so the next sequence begins elsewhere.
        more = goes_on;
        if (goes_on) changed[thread + 1] = 1;
    }
}

// Sums all pieces before each one.
__device__ __forceinline__ void sum_pieces(const JpegScan& job, ScanSum (&sums)[JOIN_THREADS]) {
    const u32 thread = threadIdx.x, each = (job.count + JOIN_THREADS - 1) / JOIN_THREADS;
    const u32 begin = min(thread * each, job.count), last = min(begin + each, job.count);
    ScanSum sum = {};
    for (u32 piece = begin; piece < last; ++piece) sum = added(sum, sum_of(job, piece));
    sums[thread] = sum;
    for (u32 step = 1; step < JOIN_THREADS; step *= 2) {
        __syncthreads();
        const ScanSum before = thread >= step ? sums[thread - step] : ScanSum{};
        __syncthreads();
        sums[thread] = sum = added(before, sum);
    }
    __syncthreads();
    sum = thread > 0 ? sums[thread - 1] : ScanSum{};
    for (u32 piece = begin; piece < last; ++piece) {
        const u32 first = job.starts[piece] >> 31;
        JpegBase base = sum.base;
        // The first of a part begins with 0, and belongs to it.
        if (first) base = {base.entries, 0, {0, 0, 0}, base.part + 1};
        base.part -= 1;
        job.bases[piece] = base;
        sum = added(sum, sum_of(job, piece));
    }
    if (thread == JOIN_THREADS - 1 && sums[thread].base.entries > job.most_entries) refuse(job);
}

// In one thread block.
extern "C" __global__ void __launch_bounds__(JOIN_THREADS)
    image_jpeg_join(const __grid_constant__ JpegScan job) {
    __shared__ JpegTable tables[4];
    __shared__ u32 changed[JOIN_THREADS + 1];
    __shared__ ScanSum sums[JOIN_THREADS];
    launch_later_kernels();
    wait_for_earlier_kernels();
    load_tables(job, tables);
    join_sequences(job, tables, changed);
    __syncthreads();
    sum_pieces(job, sums);
}

// Writes what is in a piece, and refuses what is no whole image.
struct ScanEntries {
    const JpegScan& job;
    u32 used;     // entries
    u32 block;    // of the image: the next one that begins
    u32 beyond;   // the last block of the part
    u32 end;      // of the piece
    bool is_last; // of the part
    bool refused = false, done = false;
    i32 before[3];

    __device__ __forceinline__ bool wrong() {
        refused = true;
        return false;
    }
    __device__ __forceinline__ bool difference(u32 component, u32 next, u32 length, u32 size) {
        if (block >= beyond) return wrong();
        i32 first = scan_value(next, length, size);
#pragma unroll
        for (u32 i = 0; i < 3; ++i) first += component == i ? before[i] : 0;
#pragma unroll
        for (u32 i = 0; i < 3; ++i) before[i] = component == i ? first : before[i];
        if (first != static_cast<short>(first)) return wrong();
        job.blocks[block] = used;
        job.entries[used] = static_cast<u16>(first);
        used += 1;
        block += 1;
        return true;
    }
    __device__ __forceinline__ void coefficient(u32 place, u32 next, u32 length, u32 size) {
        i32 value = scan_value(next, length, size);
        while (size >= LONG_BITS && abs(value) > MOST_VALUE) {
            const i32 part = value < 0 ? -MOST_VALUE : MOST_VALUE;
            add(place, part);
            value -= part;
        }
        add(place, value);
    }
    __device__ __forceinline__ void add(u32 place, i32 value) {
        const u32 bits = static_cast<u32>(value) & ((1u << VALUE_BITS) - 1);
        job.entries[used] = static_cast<u16>(place << VALUE_BITS | bits);
        used += 1;
    }
    // Behind the last block there is nothing but the rest of a byte.
    __device__ __forceinline__ bool block_ends(u32 bit) {
        if (block < beyond) return true;
        done = true;
        refused |= !is_last || bit > end || end - bit >= 8;
        return false;
    }
};

extern "C" __global__ void __launch_bounds__(SCAN_THREADS)
    image_jpeg_entries(const __grid_constant__ JpegScan job) {
    __shared__ JpegTable tables[4];
    __shared__ ScanMemory memory;
    launch_later_kernels();
    wait_for_earlier_kernels();
    load_tables(job, tables);
    const u32 begin = blockIdx.x * SCAN_THREADS;
    const ScanWords words = memory.load(job, begin, min(begin + SCAN_THREADS, job.count));
    const u32 piece = begin + threadIdx.x;
    if (piece >= job.count || *job.refused) return;
    const u32 start = job.starts[piece], next = job.starts[piece + 1];
    const JpegBase base = job.bases[piece];
    const u32 first_block = base.part * job.part_blocks;
    const u32 end = next & ~FIRST;
    ScanEntries out = {
        job, base.entries, first_block + base.blocks, min(first_block + job.part_blocks, job.all_blocks), end,
        piece + 1 == job.count || (next & FIRST) != 0, false, false,
        {base.sums[0], base.sums[1], base.sums[2]}};
    ScanPlace at = {start & ~FIRST, 0, 0};
    if (!(start & FIRST)) at = behind(job.pieces[piece - 1]);
    // Behind the last block of the part, if the thread with that block did not see that there is more.
    if (out.block > out.beyond || (out.block == out.beyond && at.coefficient == 0)) {
        refuse(job);
        return;
    }
    read_piece(job, words, tables, at, end, out);
    if (out.refused || (out.is_last && !out.done)) {
        refuse(job);
        return;
    }
    // The rest of the last byte may have looked like codewords.
    const u32 last = base.entries + job.pieces[piece].entries;
    while (out.used < last) job.entries[out.used++] = 0;
    if (out.is_last && out.beyond == job.all_blocks) job.blocks[job.all_blocks] = last;
}

} // namespace image
