//! `kernels/voxelize/`. Names are those of the other side, which says what they are.
#![allow(missing_docs)]

numbers! { "":
    pub const INT8: u32 = 0;
    pub const UINT8: u32 = 1;
    pub const INT16: u32 = 2;
    pub const UINT16: u32 = 3;
    pub const INT32: u32 = 4;
    pub const UINT32: u32 = 5;
    pub const FLOAT32: u32 = 6;
    pub const FLOAT64: u32 = 7;
    pub const CHANNEL_COUNT: u32 = 0;
    pub const CHANNEL_OCCUPANCY: u32 = 1;
    pub const CHANNEL_MEAN: u32 = 2;
    pub const CHANNEL_MAX: u32 = 3;
    pub const CHANNEL_MIN: u32 = 4;
    pub const CHANNEL_SUM: u32 = 5;
    pub const CHANNEL_LAST: u32 = 6;
    /// In place of a column: the distance from the sensor, and the coordinate from the centre of the
    /// voxel along the first axis.
    pub const COLUMN_RANGE: u32 = 0xFFFF_FF00;
    pub const COLUMN_OFFSET: u32 = 0xFFFF_FF01;
    pub const SHAPE_KEEP: u32 = 0;
    pub const SHAPE_REMOVE: u32 = 1;
    pub const SHAPE_ROBOT: u32 = 2;
    pub const LIMIT_LEAST: u32 = 1;
    pub const LIMIT_GREATEST: u32 = 2;
    /// Reasons for which points are dropped: those of clouds that are not sifted, and all.
    pub const PLAIN_DROPS: u32 = 4;
    pub const DROPS: u32 = 8;
    /// Marks a missing voxel or column.
    pub const NONE: u32 = u32::MAX;
    /// Columns whose offsets the launch parameters hold.
    pub const INLINE_COLUMNS: u32 = 8;
    /// Channels that the launch parameters hold.
    pub const INLINE_CHANNELS: u32 = 8;
    /// Voxels of a voxel block.
    pub const VOXEL_BLOCK: u32 = 32;
    /// Channels of a channel pack.
    pub const CHANNEL_PACK: u32 = 4;
    /// Crowds of a tile.
    pub const MOST_CROWDS: u32 = 15;
    /// Copies of the bits of touched bins, and words from one of their words to the next.
    pub const TOUCHED_COPIES: u32 = 8;
    pub const SECTOR_WORDS: u32 = 8;
    /// log2 of the voxels of a span.
    pub const SPAN_SHIFT: u32 = 8;
    /// Numbers of 16 bits in a bucket.
    pub const BUCKET: u32 = 64;
    /// Points of a tile whose points go into buckets, at most, and such tiles, at most.
    pub const BUCKET_TILE_POINTS: u32 = 4096;
    pub const MOST_BUCKET_TILES: u32 = 1024;
}

structs! { "":
    #[derive(PartialEq, Eq)]
    pub struct Field { offset: u32, type_code: u32, }

    pub struct Cloud {
        points: u64,
        fields: u64,
        row_step: u64,
        width: u32,
        count: u32,
        point_step: u32,
        column_count: u32,
        big_endian: u32,
        reserved: u32,
        offsets: [u32; INLINE_COLUMNS as usize],
        t: [[f32; 4]; 3],
        wide_t: [[f64; 4]; 3],
    }

    pub struct Grid {
        origin: [f32; 3],
        size: f32,
        inverse: f32,
        shape: [f32; 3],
        row: u32,
        plane: u32,
        volume: u32,
        reserved: u32,
        wide_origin: [f64; 3],
    }

    #[derive(PartialEq)]
    pub struct Channel {
        kind: u32,
        /// Of its values, or [`NONE`].
        column: u32,
        /// The greatest magnitude that these may have.
        limit: f32,
        /// Number among those of the kind [`CHANNEL_LAST`].
        place: u32,
    }

    pub struct Channels {
        more: u64,
        count: u32,
        reserved: u32,
        first: [Channel; INLINE_CHANNELS as usize],
    }

    #[derive(Default)]
    pub struct Counters { dropped: [u32; PLAIN_DROPS as usize], }

    pub struct Tally {
        dropped: [u32; DROPS as usize],
        listed: u32,
        reserved: [u32; 3],
    }

    #[repr(align(8))]
    #[derive(Default)]
    pub struct Report {
        counters: Counters,
        beyond: u32,
        beyond_bits: u32,
        left_out: [u32; (DROPS - PLAIN_DROPS) as usize],
        voxels: u32,
        reserved: u32,
    }

    pub struct Shape {
        wide_t: [[f64; 4]; 3],
        t: [[f32; 4]; 3],
        corners: [[f32; 3]; 2],
        action: u32,
        is_sphere: u32,
    }

    pub struct Sieve {
        shapes: u64,
        count: u32,
        keeps: u32,
        limits: u32,
        least: f32,
        greatest: f32,
        reserved: u32,
    }

    pub struct Last { values: u64, stride: u64, }

    pub struct Listing {
        masks: u64,
        firsts: u64,
        features: u64,
        totals: u64,
        held: u64,
        before: u64,
        phase: u32,
        tiles: u32,
        tile_shift: u32,
        channels: u32,
    }

    pub struct Counted {
        counts: u64,
        touched: u64,
        phase: u32,
        bin_shift: u32,
        bin_count: u32,
        reserved: u32,
    }

    pub struct Buckets {
        all: u64,
        counts: u64,
        spilled: u64,
        tiles: u32,
        warp_points: u32,
        bin_shift: u32,
        bin_count: u32,
        span_mask: u32,
        reserved: u32,
    }

    #[derive(PartialEq, Eq)]
    pub struct Bins {
        bin_shift: u32,
        sub_bin_shift: u32,
        bin_count: u32,
        voxel_block_mask: u32,
    }

    pub struct Crowd { voxel: u32, points: u32, }

    pub struct Sorted {
        voxels: u64,
        values: u64,
        segments: u64,
        crowds: u64,
        crowd_values: u64,
        tiles: u32,
        tile_points: u32,
    }
}

/// `deskew.cu`.
pub mod deskew {
    use super::Field;

    numbers! { "voxelize_deskew::":
        pub const THREADS: u32 = 256;
    }

    structs! { "voxelize_deskew::":
        pub struct Knot { rotation: [f32; 4], translation: [f32; 4], }

        /// The parameter of `voxelize_deskew_<number>`.
        pub struct Deskew {
            points: u64,
            knots: u64,
            counters: u64,
            row_step: u64,
            origin: f64,
            rate: f64,
            width: u32,
            count: u32,
            point_step: u32,
            big_endian: u32,
            time: Field,
            offsets: [u32; 3],
            knot_count: u32,
        }
    }
}

/// `count.cu`.
pub mod count {
    use super::{Cloud, Counted, Grid};

    numbers! { "voxelize_count::":
        pub const THREADS: u32 = 1024;
    }

    structs! { "voxelize_count::":
        /// The parameter of `voxelize_count_<points>`.
        pub struct Count {
            cloud: Cloud,
            grid: Grid,
            to: Counted,
            counters: u64,
            inputs_ready: u32,
            reserved: u32,
        }
    }
}

/// `write_counts.cu`.
pub mod write_counts {
    use super::{Channels, Counted};

    numbers! { "voxelize_write_counts::":
        pub const THREADS: u32 = 128;
    }

    structs! { "voxelize_write_counts::":
        /// The parameter of `voxelize_write_counts_<dtype>`.
        pub struct WriteCounts {
            channels: Channels,
            from: Counted,
            occupied: u64,
            row: u64,
            counters: u64,
            report: u64,
            volume: u32,
            reserved: u32,
        }
    }
}

/// `fill_buckets.cu`.
pub mod fill_buckets {
    use super::{Buckets, Cloud, Grid};

    numbers! { "voxelize_fill_buckets::":
        pub const THREADS: u32 = 1024;
        /// Numbers of 16 bits from bucket to bucket in shared memory.
        pub const PITCH: u32 = 72;
    }

    structs! { "voxelize_fill_buckets::":
        /// The parameter of `voxelize_fill_buckets`.
        pub struct FillBuckets {
            cloud: Cloud,
            grid: Grid,
            to: Buckets,
            counters: u64,
            inputs_ready: u32,
            reserved: u32,
        }
    }
}

/// `write_buckets.cu`.
pub mod write_buckets {
    use super::{Buckets, Channels};

    numbers! { "voxelize_write_buckets::":
        pub const THREADS: u32 = 1024;
        /// log2 of the greatest number of voxels of a bin.
        pub const MOST_BIN_SHIFT: u32 = 14;
    }

    structs! { "voxelize_write_buckets::":
        /// The parameter of `voxelize_write_buckets_<dtype>`.
        pub struct WriteBuckets {
            channels: Channels,
            from: Buckets,
            occupied: u64,
            row: u64,
            counters: u64,
            report: u64,
            volume: u32,
            reserved: u32,
        }
    }
}

/// `scatter.cu`.
pub mod scatter {
    use super::{Cloud, Grid};

    numbers! { "voxelize_scatter::":
        pub const THREADS: u32 = 256;
        /// Points of a thread.
        pub const PER: u32 = 4;
    }

    structs! { "voxelize_scatter::":
        /// The parameter of `voxelize_scatter`.
        pub struct Scatter {
            cloud: Cloud,
            grid: Grid,
            out: u64,
            strides: [u32; 3],
            mark: u32,
            blocks: u32,
            reserved: u32,
        }
    }
}

/// `sort.cu`.
pub mod sort {
    use super::{Bins, CHANNEL_PACK, Channels, Cloud, Grid, Last, Sieve, Sorted};

    numbers! { "voxelize_sort::":
        pub const THREADS: u32 = 512;
    }

    structs! { "voxelize_sort::":
        #[derive(Default)]
        pub struct Sources {
            keys: [u32; CHANNEL_PACK as usize],
            fields: u32,
            coordinates: u32,
            means: u32,
            reserved: u32,
        }

        /// The parameter of `voxelize_sort_<points>`.
        pub struct Sort {
            cloud: Cloud,
            grid: Grid,
            bins: Bins,
            sources: Sources,
            channels: Channels,
            to: Sorted,
            counters: u64,
            inputs_ready: u32,
            reserved: u32,
        }

        /// The parameter of `voxelize_sift_<points>`.
        pub struct Sifted { sort: Sort, sieve: Sieve, last: Last, tally: u64, reserved: u64, }
    }
}

/// `reduce.cu`.
pub mod reduce {
    use super::{Bins, Channels, Last, Listing, Sorted};

    numbers! { "voxelize_reduce::":
        pub const THREADS: u32 = 512;
        /// Shared memory of a thread block \[bytes\]: for each voxel of the largest sub-bin...
        pub const VOXEL_BYTES: u32 = 10;
        /// ... and for the rest.
        pub const REDUCE_BYTES: u32 = 28_944;
    }

    structs! { "voxelize_reduce::":
        /// The parameter of `voxelize_reduce_<voxels>_<dtype>`.
        pub struct Reduce {
            bins: Bins,
            from: Sorted,
            channels: Channels,
            occupied: u64,
            row: u64,
            counters: u64,
            report: u64,
            volume: u32,
            all_means: u32,
        }

        /// The parameter of `voxelize_reduce_sifted_<voxels>_<dtype>`.
        pub struct Sifted {
            reduce: Reduce,
            last: Last,
            list: Listing,
            tally: u64,
            min_points: u32,
            is_list: u32,
        }
    }
}

/// `list.cu`.
pub mod list {
    use super::Listing;

    numbers! { "voxelize_list::":
        pub const THREADS: u32 = 256;
    }

    structs! { "voxelize_list::":
        /// The parameter of `voxelize_list_<bits>`.
        pub struct List {
            from: Listing,
            features: u64,
            coordinates: u64,
            tally: u64,
            report: u64,
            max_voxels: u32,
            row: u32,
            column: u32,
            reserved: u32,
        }

        /// The parameter of `voxelize_tell`.
        pub struct Tell { tally: u64, report: u64, }
    }
}
