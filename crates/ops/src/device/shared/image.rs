//! `kernels/image/`. Names are those of the other side, which says what they are.
#![allow(missing_docs)]

numbers! { "image::":
    pub const THREADS: u32 = 256;
    pub const RGB8: u32 = 0;
    pub const BGR8: u32 = 1;
    pub const RGBA8: u32 = 2;
    pub const BGRA8: u32 = 3;
    pub const MONO8: u32 = 4;
    /// Threads of a block of coefficients.
    pub const JPEG_LANES: u32 = 8;
    /// Threads of a block of the kernels that read codes.
    pub const SCAN_THREADS: u32 = 128;
    /// Pieces of a sequence.
    pub const SEQUENCE: u32 = 112;
    /// Bits of a piece.
    pub const PIECE_BITS: u32 = 512;
    /// Sequences, at most.
    pub const JOIN_THREADS: u32 = 1024;
    /// Bits of a look-up.
    pub const LOOK_UP: u32 = 10;
    /// Bits of the longest codeword.
    pub const MOST_CODE: u32 = 16;
    /// The step of the symbol that ends a block.
    pub const END: u32 = 64;
    /// The mark of the first piece of a part.
    pub const FIRST: u32 = 1 << 31;
}

structs! { "image::":
    /// Inputs and coefficients that one output of an axis reads.
    pub struct Tap { first: u32, begin: u32, count: u32, }

    /// One input of an output, where there are numbers between the passes.
    pub struct Weight { input: u32, value: u32, }

    /// The parameter of `image_lines` and its like.
    pub struct Lines {
        image: u64,
        step: u64,
        taps: u64,
        coefficients: u64,
        lines: u64,
        count: u32,
        width: u32,
        encoding: u32,
        luma: u32,
        inputs_ready: u32,
        reserved: u32,
    }

    /// The parameter of `image_row` and its like.
    pub struct Row {
        lines: u64,
        taps: u64,
        coefficients: u64,
        table: u64,
        row: u64,
        pixel_stride: u64,
        channel_stride: u64,
        lines_width: u32,
        mono: u32,
        width: u32,
        height: u32,
        left: u32,
        right: u32,
        top: u32,
        bottom: u32,
        channels: u32,
        swap: u32,
        pad_value: u32,
        element_size: u32,
        scale: f32,
        half_up: u32,
    }

    /// The parameter of `image_remap`.
    pub struct Remap {
        image: u64,
        step: u64,
        points: u64,
        fractions: u64,
        out: u64,
        count: u32,
        image_width: u32,
        image_height: u32,
        bytes: u32,
        channels: u32,
        reserved: u32,
    }

    /// A code: its codewords, and what each stands for.
    pub struct JpegTable {
        found: [u16; 1 << LOOK_UP],
        limits: [u32; (MOST_CODE - LOOK_UP) as usize],
        offsets: [i32; (MOST_CODE - LOOK_UP) as usize],
        codes: [u16; 256],
    }

    /// A part of the compressed data that one thread reads.
    pub struct JpegPiece {
        bit: u32,
        place: u32,
        entries: u32,
        blocks: u32,
        sums: [i32; 3],
        reserved: u32,
    }

    /// The sums over all pieces before one.
    pub struct JpegBase { entries: u32, blocks: u32, sums: [i32; 3], part: u32, }

    /// The parameter of `image_jpeg_sync` and its like.
    pub struct JpegScan {
        words: u64,
        starts: u64,
        tables: u64,
        pieces: u64,
        bases: u64,
        entered: u64,
        blocks: u64,
        entries: u64,
        refused: u64,
        report: u64,
        count: u32,
        most_entries: u32,
        all_blocks: u32,
        part_blocks: u32,
        unit_blocks: u32,
        luma_blocks: u32,
        table_count: u32,
        reserved: u32,
    }

    /// The parameter of `image_jpeg_blocks`.
    pub struct JpegBlocks {
        blocks: u64,
        entries: u64,
        quantisers: u64,
        planes: [u64; 3],
        refused: u64,
        report: u64,
        count: u32,
        unit_blocks: u32,
        across: u32,
        down: u32,
        units_across: u32,
        reserved: u32,
    }

    /// The parameter of `image_jpeg_pixels`.
    pub struct JpegPixels {
        planes: [u64; 3],
        out: u64,
        step: u32,
        width: u32,
        height: u32,
        luma_stride: u32,
        chroma_stride: u32,
        chroma_width: u32,
        chroma_height: u32,
        across: u32,
        down: u32,
        reserved: u32,
    }
}
