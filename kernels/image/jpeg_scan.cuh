// Huffman codes of a JPEG scan, read from any place of it by many threads.
#pragma once
#include "../common.cuh"

namespace image {

// Bits of a look-up. Codes that are longer are found by their length.
constexpr u32 LOOK_UP = 10;
constexpr u32 MOST_CODE = 16;
// Bits of an entry that hold a value.
constexpr u32 VALUE_BITS = 10;
// The greatest value of an entry. A greater coefficient takes several, which are added.
constexpr i32 MOST_VALUE = (1 << (VALUE_BITS - 1)) - 1;
// A value with fewer bits is one entry.
constexpr u32 LONG_BITS = 10;
constexpr u32 BLOCK = 64;
// Bits of a piece. The last one of a part is longer by less than 32.
constexpr u32 PIECE_BITS = 512;

// A code: its codewords, and what each stands for. From the lowest bit on: by how many coefficients the next one is
// further (7 bits; END for the symbol that ends a block, 0 if no image of 8 bits has such a value), bits of the value
// (4), bits of the codeword (5).
struct JpegTable {
    u16 found[1 << LOOK_UP];           // by the next bits; 0 if the codeword is longer, or none
    u32 limits[MOST_CODE - LOOK_UP];   // by length, above LOOK_UP: beyond the greatest codeword, as the upper bits of 16
    i32 offsets[MOST_CODE - LOOK_UP];  // what is added to a codeword for its place in `codes`
    u16 codes[256];                    // in the order of the file
};
constexpr u32 END = 64;

// A part of the scan that one thread reads, and what it found.
struct JpegPiece {
    u32 bit;      // where the next piece begins: behind the first codeword that ends beyond this piece
    u32 place;    // block of the unit << 8 | coefficient that is next
    u32 entries;
    u32 blocks;   // blocks that begin in it
    i32 sums[3];  // of the differences of each component
    u32 reserved;
};

// Sums over all pieces before one: of entries in the image; of the rest in the part.
struct JpegBase {
    u32 entries;
    u32 blocks;
    i32 sums[3];
    u32 part;
};

struct JpegScan {
    const u32* words;         // the compressed data without stuffed bytes, then zeros
    const u32* starts;        // the bit where each piece starts, and their end. FIRST marks the first of a part
    const JpegTable* tables;  // of first and other coefficients: of luma, then of chroma
    JpegPiece* pieces;
    JpegBase* bases;
    u32* entered;             // per sequence: bit and place where it took its first piece to begin
    u32* blocks;              // what `image_jpeg_blocks` takes
    u16* entries;
    u32* refused;             // not 0 if a core must decode the file
    u32* report;              // the same, in memory of the host
    u32 count;                // pieces
    u32 most_entries;
    u32 all_blocks;
    u32 part_blocks;          // blocks of each part but the last
    u32 unit_blocks;
    u32 luma_blocks;          // of a unit
    u32 table_count;          // 2 without chroma, else 4
    u32 reserved;
};

constexpr u32 FIRST = 0x80000000u;

// Where a thread is.
struct ScanPlace {
    u32 bit;
    u32 block;        // of the unit
    u32 coefficient;  // that is next
};

__device__ __forceinline__ u32 packed(const ScanPlace& at) {
    return at.block << 8 | at.coefficient;
}

__device__ __forceinline__ ScanPlace behind(const JpegPiece& piece) {
    return {piece.bit, piece.place >> 8, piece.place & 255u};
}

// Words of the compressed data, from one of them on.
struct ScanWords {
    const u32* words;
    u32 begin;
};

// The next 32 bits, from the highest on. One word more is on its way.
struct ScanBits {
    ScanWords of;
    u32 at, high, low, ahead;

    __device__ __forceinline__ ScanBits(const ScanWords& words, u32 bit) : of(words), at(bit >> 5) {
        high = swapped(word(0));
        low = swapped(word(1));
        ahead = word(2);
    }
    static __device__ __forceinline__ u32 swapped(u32 word) { return __byte_perm(word, 0, 0x0123); }
    __device__ __forceinline__ u32 word(u32 behind) const { return of.words[at - of.begin + behind]; }
    // At a bit that is at most 32 bits behind the last one.
    __device__ __forceinline__ u32 next(u32 bit) {
        if (bit >> 5 != at) {
            at += 1;
            high = low;
            low = swapped(ahead);
            ahead = word(2);
        }
        return __funnelshift_l(low, high, bit & 31u);
    }
};

// A codeword that is longer than a look-up; 0 if there is none.
__device__ __forceinline__ u32 longer_codeword(const JpegTable& table, u32 next) {
    u32 longer = 0;
#pragma unroll
    for (u32 i = 0; i < MOST_CODE - LOOK_UP; ++i) longer += next >= table.limits[i];
    if (longer == MOST_CODE - LOOK_UP) return 0;
    return table.codes[((next >> (MOST_CODE - LOOK_UP - 1 - longer)) + table.offsets[longer]) & 255];
}

// What is behind a codeword.
__device__ __forceinline__ i32 scan_value(u32 next, u32 length, u32 size) {
    if (size == 0) return 0;
    const i32 bits = static_cast<i32>(next << length >> (32 - size));
    return bits >> (size - 1) == 0 ? bits - (1 << size) + 1 : bits;
}

// Entries of a coefficient that is not 0.
__device__ __forceinline__ u32 entries_of(i32 value) {
    return (static_cast<u32>(abs(value)) + MOST_VALUE - 1) / MOST_VALUE;
}

// Reads a piece from `at` to its end. `Out` is told what is there; its functions return false to end early. Bits that
// are no code tell a thread that it began at a wrong place: it goes on at the next bit.
template <typename Out>
__device__ __forceinline__ void read_piece(
    const JpegScan& job, const ScanWords& words, const JpegTable* tables, ScanPlace& at, u32 end, Out& out) {
    ScanBits bits(words, at.bit);
    // The code of first coefficients in the block, and the one behind it.
    const JpegTable* codes = tables + (at.block >= job.luma_blocks ? 2 : 0);
    while (at.bit < end) {
        const u32 next = bits.next(at.bit);
        const bool first = at.coefficient == 0;
        const JpegTable& table = codes[!first];
        u32 code = table.found[next >> (32 - LOOK_UP)];
        if (code == 0) code = longer_codeword(table, next >> 16);
        const u32 step = code & 127u, size = code >> 7 & 15u, length = code >> 11;
        if (step == 0) {
            if (!out.wrong()) return;
            at.bit += 1;
            at.coefficient = 0;
            continue;
        }
        at.bit += length + size;
        at.coefficient += step;
        if (first) {
            const u32 component = at.block < job.luma_blocks ? 0 : at.block - job.luma_blocks + 1;
            if (!out.difference(component, next, length, size)) return;
        } else if (at.coefficient > BLOCK && step != END) {
            if (!out.wrong()) return;
        } else if (size != 0) {
            out.coefficient(at.coefficient - 1, next, length, size);
        }
        if (at.coefficient >= BLOCK) {
            at.coefficient = 0;
            at.block = at.block + 1 == job.unit_blocks ? 0 : at.block + 1;
            codes = tables + (at.block >= job.luma_blocks ? 2 : 0);
            if (!out.block_ends(at.bit)) return;
        }
    }
}

// Only goes through a piece.
struct ScanSteps {
    __device__ __forceinline__ bool wrong() { return true; }
    __device__ __forceinline__ bool difference(u32, u32, u32, u32) { return true; }
    __device__ __forceinline__ void coefficient(u32, u32, u32, u32) {}
    __device__ __forceinline__ bool block_ends(u32) { return true; }
};

// Counts what is in a piece.
struct ScanCounts {
    u32 entries = 0, blocks = 0;
    i32 sums[3] = {};

    __device__ __forceinline__ bool wrong() { return true; }
    __device__ __forceinline__ bool difference(u32 component, u32 next, u32 length, u32 size) {
        const i32 value = scan_value(next, length, size);
        entries += 1;
        blocks += 1;
#pragma unroll
        for (u32 i = 0; i < 3; ++i) sums[i] += component == i ? value : 0;
        return true;
    }
    __device__ __forceinline__ void coefficient(u32, u32 next, u32 length, u32 size) {
        entries += 1;
        if (size >= LONG_BITS) entries += entries_of(scan_value(next, length, size)) - 1;
    }
    __device__ __forceinline__ bool block_ends(u32) { return true; }
};

// Counts what is in a piece, from a place on. True if the place behind it is another than before.
__device__ __forceinline__ bool count_piece(
    const JpegScan& job, const ScanWords& words, const JpegTable* tables, u32 piece, ScanPlace& at) {
    ScanCounts counts;
    read_piece(job, words, tables, at, job.starts[piece + 1] & ~FIRST, counts);
    JpegPiece& to = job.pieces[piece];
    const bool changed = to.bit != at.bit || to.place != packed(at);
    to = {at.bit, packed(at), counts.entries, counts.blocks, {counts.sums[0], counts.sums[1], counts.sums[2]}, 0};
    return changed;
}

} // namespace image
