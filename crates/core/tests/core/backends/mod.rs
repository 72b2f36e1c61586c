//! Every backend gives the bits of the CPU backend: the same test bodies run on each.
//!
//! The oracle is a CPU backend that computes every step again into fresh memory. The backend under
//! test keeps its output from tick to tick and passes over what has not changed, as a node does: on
//! the CPU that is what the test is about. The other kinds run where a GPU is: rows on the device,
//! and rows on the host that either processor encodes. For each message the test chooses at random a
//! processor, or leaves the choice to the backend.
//!
//! `ROBOCACHE_TEST_CASES` sets the cases per operation, for runs under slow checkers.

mod batches;
mod chains;
mod cloud_cells;
mod cloud_paths;
mod clouds;
mod copies;
mod crowds;
mod dense_clouds;
#[cfg(feature = "cuda")]
mod device_rows;
mod images;
#[cfg(feature = "cuda")]
mod jpeg_scans;
mod large_counts;
#[cfg(feature = "cuda")]
mod load;
mod merged_clouds;
pub(crate) mod random;
mod seconds;
mod sifted_clouds;
mod simple_batch;
mod sub_bins;
pub(crate) mod subject;
mod vectors;

use subject::{Kind, cases};

/// Usual cases of a GPU.
pub(crate) const ON_A_GPU: usize = 2000;
/// Number of cases on the CPU, which has the same code for all sizes.
pub(crate) const ON_THE_CPU: usize = 400;

/// Checks on a GPU, if there is one.
pub(crate) fn on_the_gpu(module: &str, test: &str, check: fn(&Kind, usize)) {
    if let Some(kind) = Kind::of(module, test) {
        check(&kind, cases(ON_A_GPU));
    }
}

/// A test of every kind of backend.
macro_rules! on_every_backend {
    ($($name:ident => $body:ident $(:: $in_module:ident)*;)*) => {
        mod cpu {
            $(#[test]
            fn $name() {
                use $crate::backends::subject::{Kind, cases};
                super::$body $(:: $in_module)*(&Kind::Cpu, cases($crate::backends::ON_THE_CPU));
            })*
        }
        mod cuda {
            $(#[test]
            fn $name() {
                $crate::backends::on_the_gpu("cuda", stringify!($name), super::$body $(:: $in_module)*);
            })*
        }
        /// With work divided as for a small GPU.
        mod cuda_small {
            $(#[test]
            fn $name() {
                $crate::backends::on_the_gpu("cuda_small", stringify!($name), super::$body $(:: $in_module)*);
            })*
        }
        /// Rows on the host, each encoded by the one processor or the other.
        mod auto {
            $(#[test]
            fn $name() {
                $crate::backends::on_the_gpu("auto", stringify!($name), super::$body $(:: $in_module)*);
            })*
        }
    };
}

pub(crate) use on_every_backend;

on_every_backend! {
    vectors => vectors::check;
    grouped_vectors => vectors::check_groups;
    vectors_with_operators => vectors::check_operators;
    images => images::check;
    image_sizes => images::check_sizes;
    kept_images => images::check_kept;
    undistorted_images => images::check_undistorted;
    jpeg_images => images::check_jpeg;
    clouds => clouds::check;
    cloud_paths => cloud_paths::check;
    cloud_refusals => cloud_paths::check_refusals;
    dense_clouds => dense_clouds::check;
    large_counts => large_counts::check;
    crowds => crowds::check;
    sifted_clouds => sifted_clouds::check;
    sifted_clouds_at_edges => sifted_clouds::check_edges;
    sub_bins => sub_bins::check;
    packed_counts => sub_bins::check_packed_counts;
    copies => copies::check;
    cloud_cells => cloud_cells::check;
    merged_clouds => merged_clouds::check;
    batches => batches::check;
    seconds => seconds::check;
    gradients => batches::check_gradients;
    queued_batches => batches::check_queued;
    chains => chains::check;
}

/// Rows on the host, while other work keeps the GPU busy.
#[cfg(feature = "cuda")]
#[test]
fn auto_under_load() {
    if let Some(kind) = Kind::of("auto", "auto_under_load") {
        load::check(kind.device().expect("a GPU"));
    }
}

/// Rows on the device that something else has written.
#[cfg(feature = "cuda")]
#[test]
fn rows_on_the_device_are_forgotten() {
    for module in ["cuda", "cuda_small"] {
        on_the_gpu(module, "rows_on_the_device_are_forgotten", device_rows::check_forgotten);
    }
}

/// JPEG files as the kernels read them.
#[cfg(feature = "cuda")]
#[test]
fn jpeg_scans() {
    for module in ["cuda", "cuda_small"] {
        on_the_gpu(module, "jpeg_scans", jpeg_scans::check);
    }
}

/// Filters whose shapes move from launch to launch.
#[cfg(feature = "cuda")]
#[test]
fn shapes_move_between_launches() {
    for module in ["cuda", "cuda_small"] {
        on_the_gpu(module, "shapes_move_between_launches", device_rows::check_moving_shapes);
    }
}

/// A row that another processor has written, on the CPU.
#[test]
fn a_row_of_unknown_content_is_cleared() {
    clouds::check_forgotten_rows();
}

/// The kernels multiply by a reciprocal instead of dividing. This checks the same method on the
/// CPU.
#[test]
fn quotients_from_the_reciprocal_are_those_of_a_division() {
    cloud_cells::check_quotients(cases(ON_A_GPU));
}
