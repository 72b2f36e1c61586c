//! `kernels/resample/`. Names are those of the other side, which says what they are.
#![allow(missing_docs)]

numbers! { "":
    pub const LANE_LINEAR: u32 = 0;
    pub const LANE_ANGULAR: u32 = 1;
    pub const LANE_QUATERNION: u32 = 2;
    pub const MODE_NOTHING: u32 = 0;
    pub const MODE_ROW: u32 = 1;
    pub const MODE_BETWEEN: u32 = 2;
    pub const STRATEGY_HOLD: u32 = 0;
    pub const STRATEGY_NEAREST: u32 = 1;
    pub const STRATEGY_INTERPOLATE: u32 = 2;
    pub const FILL_ZERO: u32 = 0;
    pub const FILL_LAST: u32 = 1;
    pub const FILL_FIRST: u32 = 2;
}

structs! { "":
    #[derive(Default)]
    pub struct AlignRule { max_age_ns: i64, max_gap_ns: i64, strategy: u32, fill: u32, }
}

/// `resample.cu`.
pub mod batch {
    use super::AlignRule;

    numbers! { "resample::":
        /// Threads of a block.
        pub const THREADS: u32 = 256;
        /// Stamps that a block fetches at most.
        pub const WINDOW: u32 = 1023;
        /// Streams of one launch at most.
        pub const STREAMS_PER_LAUNCH: u32 = 4;
    }

    structs! { "resample::":
        /// A number to divide by through multiplication.
        #[derive(Default)]
        pub struct Divisor { by: u32, magic: u32, shift: u32, reserved: u32, }

        /// One stream.
        #[derive(Default)]
        pub struct Stream {
            rows: u64,
            stamps: u64,
            lanes: u64,
            row_offsets: u64,
            rule: AlignRule,
            len: u32,
            all_rows: u32,
            dim: u32,
            out_at: u32,
            dtype: u32,
            pack: u32,
            packs: u32,
            tile_targets: u32,
            tile_packs: u32,
            step_targets: u32,
            step_packs: u32,
            window: u32,
            rows_per_target: f32,
            reserved: u32,
            target_tiles: Divisor,
            pack_tiles: Divisor,
            per_row: Divisor,
        }

        /// The parameter of `resample_<...>`.
        #[derive(Default)]
        pub struct Batch {
            targets: u64,
            target_offsets: u64,
            out: u64,
            valid: u64,
            age_ns: u64,
            episodes: u32,
            steps: u32,
            all_steps: u32,
            row: u32,
            streams: u32,
            inputs_ready: u32,
            first_block: [u32; STREAMS_PER_LAUNCH as usize],
            of: [Stream; STREAMS_PER_LAUNCH as usize],
        }
    }
}

/// `gradient.cu`.
pub mod gradient {
    use super::AlignRule;

    numbers! { "gradient::":
        /// Threads of a block.
        pub const THREADS: u32 = 256;
        /// Columns of a thread.
        pub const COLUMNS: u32 = 4;
    }

    structs! { "gradient::":
        /// The parameter of `gradient_<dtype>`.
        #[derive(Default)]
        pub struct Gradient {
            of_output: u64,
            of_rows: u64,
            stamps: u64,
            row_offsets: u64,
            targets: u64,
            target_offsets: u64,
            rule: AlignRule,
            episodes: u32,
            len: u32,
            all_rows: u32,
            steps: u32,
            all_steps: u32,
            dim: u32,
            out_row: u32,
            column_tiles: u32,
            rows_are_f32: u32,
            reserved: u32,
        }
    }
}

/// `fuse.cu`.
pub mod fuse {
    numbers! { "fuse::":
        /// Threads of a block.
        pub const THREADS: u32 = 128;
        pub const F32_TO_F32: u32 = 0;
        pub const F32_TO_F16: u32 = 1;
        pub const F32_TO_BF16: u32 = 2;
        pub const BITS_16: u32 = 3;
        pub const BITS_8: u32 = 4;
    }

    structs! { "fuse::":
        /// A part of one step.
        #[repr(align(64))]
        #[derive(Default)]
        pub struct Piece {
            a: u64,
            b: u64,
            out: u64,
            lanes: u64,
            first: u32,
            count: u32,
            weight: f32,
            mode: u32,
            conversion: u32,
            wide: u32,
            reserved: [u32; 2],
        }
    }
}
