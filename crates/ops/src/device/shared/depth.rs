//! `kernels/depth/`. Names are those of the other side, which says what they are.
#![allow(missing_docs)]

numbers! { "depth::":
    pub const THREADS: u32 = 256;
    pub const U16: u32 = 0;
    pub const METRES: u32 = 1;
}

structs! { "depth::":
    /// The parameter of `depth_row`.
    pub struct Row {
        image: u64,
        row: u64,
        unit_m: u64,
        image_width: u32,
        first_column: u32,
        columns: u32,
        lines: u32,
        width: u32,
        height: u32,
        left: u32,
        right: u32,
        top: u32,
        bottom: u32,
        min_m: u32,
        max_m: u32,
        fill_m: u32,
        element: u32,
        big_endian: u32,
        dtype: u32,
    }
}
