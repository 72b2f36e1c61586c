//! Every structure and number that the kernels share with the host, declared once for Rust.
//!
//! The kernels declare them again, in C++. `crates/kernels/build.rs` includes this file too and makes of it the
//! `static_assert`s that nvcc checks: size, alignment, and offset and size of every field. So a
//! change on one side alone fails the build. For the same reason this file uses nothing of the
//! crate.
//!
//! A pointer is a `u64` here, the address on the device.

/// Layout of a structure, which `crates/kernels/build.rs` asserts.
#[derive(Clone, Copy, Debug)]
pub struct Struct {
    /// Its name in the kernels.
    pub name: &'static str,
    /// Bytes of it.
    pub size: usize,
    /// Alignment of its address \[bytes\].
    pub align: usize,
    /// Name, offset and size of every field.
    pub fields: &'static [(&'static str, usize, usize)],
}

mod sealed {
    /// Only this file says what is shared.
    pub trait Sealed {}
}

/// Values without padding. Every bit pattern is a value, because kernels read and write the bytes.
pub trait Shared: Copy + sealed::Sealed {}

macro_rules! shared_numbers {
    ($($type:ty),*) => {
        $(impl sealed::Sealed for $type {}
        impl Shared for $type {})*
    };
}
shared_numbers!(u16, u32, i32, i64, u64, f32, f64);

/// Declares structures for Rust, and their layout for `crates/kernels/build.rs`. `$scope` is their namespace in
/// the kernels.
macro_rules! structs {
    ($scope:literal: $(
        $(#[$attribute:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* }
    )*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $($(#[$doc])* pub $field: $type,)* }

            impl $crate::device::shared::sealed::Sealed for $name {}
            impl $crate::device::shared::Shared for $name {}
            // No padding: all bytes are initialised.
            const _: () = assert!(size_of::<$name>() == 0 $(+ size_of::<$type>())*);
        )*
        /// The layouts of these structures.
        pub const STRUCTS: &[$crate::device::shared::Struct] = &[$(
            $crate::device::shared::Struct {
                name: concat!($scope, stringify!($name)),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: &[$((
                    stringify!($field),
                    std::mem::offset_of!($name, $field),
                    size_of::<$type>(),
                ),)*],
            },
        )*];
    };
}

/// Declares numbers for Rust, and their values for `crates/kernels/build.rs`.
macro_rules! numbers {
    ($scope:literal: $($(#[$doc:meta])* pub const $name:ident: u32 = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: u32 = $value;)*
        /// Name in the kernels and value of each.
        pub const NUMBERS: &[(&str, u32)] = &[$((concat!($scope, stringify!($name)), $name),)*];
    };
}

/// Numbers and structures of all kernels: `kernels/common.cuh`.
#[allow(missing_docs)] // named as on the other side, which says what they are
pub mod common {
    numbers! { "":
        pub const DTYPE_F32: u32 = 0;
        pub const DTYPE_F16: u32 = 1;
        pub const DTYPE_BF16: u32 = 2;
        pub const DTYPE_U8: u32 = 3;
        pub const DTYPE_I32: u32 = 4;
        /// Threads of a warp.
        pub const WARP: u32 = 32;
    }
}

pub mod depth;
pub mod image;
pub mod resample;
pub mod voxelize;
pub mod windows;

/// All structures.
pub const STRUCTS: &[&[Struct]] = &[
    resample::STRUCTS,
    resample::batch::STRUCTS,
    resample::gradient::STRUCTS,
    resample::fuse::STRUCTS,
    depth::STRUCTS,
    image::STRUCTS,
    voxelize::STRUCTS,
    voxelize::deskew::STRUCTS,
    voxelize::count::STRUCTS,
    voxelize::write_counts::STRUCTS,
    voxelize::fill_buckets::STRUCTS,
    voxelize::write_buckets::STRUCTS,
    voxelize::scatter::STRUCTS,
    voxelize::sort::STRUCTS,
    voxelize::reduce::STRUCTS,
    voxelize::list::STRUCTS,
    windows::STRUCTS,
];

/// All numbers.
pub const NUMBERS: &[&[(&str, u32)]] = &[
    common::NUMBERS,
    resample::NUMBERS,
    resample::batch::NUMBERS,
    resample::gradient::NUMBERS,
    resample::fuse::NUMBERS,
    depth::NUMBERS,
    image::NUMBERS,
    voxelize::NUMBERS,
    voxelize::deskew::NUMBERS,
    voxelize::count::NUMBERS,
    voxelize::write_counts::NUMBERS,
    voxelize::fill_buckets::NUMBERS,
    voxelize::write_buckets::NUMBERS,
    voxelize::scatter::NUMBERS,
    voxelize::sort::NUMBERS,
    voxelize::reduce::NUMBERS,
    voxelize::list::NUMBERS,
    windows::NUMBERS,
];
