//! Every backend gives the bits of the CPU backend: one test body, run on each.
//!
//! The oracle is a CPU backend that computes every step anew into fresh memory. The backend under
//! test keeps its output from tick to tick and passes over what has not changed, as a node does;
//! on the CPU that is what the test is about. The other half runs where a GPU is.
//!
//! `ROBOCACHE_TEST_CASES` sets the cases per operation, for runs under slow checkers.

#[path = "backends/batches.rs"]
mod batches;
#[path = "backends/cloud_cells.rs"]
mod cloud_cells;
#[path = "backends/cloud_crowds.rs"]
mod cloud_crowds;
#[path = "backends/cloud_paths.rs"]
mod cloud_paths;
#[path = "backends/clouds.rs"]
mod clouds;
#[path = "common/fields.rs"]
mod fields;
#[path = "backends/images.rs"]
mod images;
#[path = "backends/random.rs"]
mod random;
#[path = "backends/subject.rs"]
mod subject;
#[path = "backends/vectors.rs"]
mod vectors;

use subject::{Kind, cases};

fn on_the_gpu(test: &str, small: bool, check: fn(&Kind, usize)) {
    if let Some(kind) = Kind::cuda(test, small) {
        check(&kind, cases());
    }
}

/// A test of every kind of backend.
macro_rules! on_every_backend {
    ($($name:ident => $body:path;)*) => {
        mod cpu {
            $(#[test]
            fn $name() {
                $body(&super::Kind::Cpu, super::cases());
            })*
        }
        mod cuda {
            $(#[test]
            fn $name() {
                super::on_the_gpu(stringify!($name), false, $body);
            })*
        }
        /// With work divided as for a small GPU.
        mod cuda_small {
            $(#[test]
            fn $name() {
                super::on_the_gpu(stringify!($name), true, $body);
            })*
        }
    };
}

on_every_backend! {
    vectors => super::vectors::check;
    images => super::images::check;
    image_sizes => super::images::check_sizes;
    clouds => super::clouds::check;
    cloud_paths => super::cloud_paths::check;
    cloud_refusals => super::cloud_paths::check_refusals;
    cloud_crowds => super::cloud_crowds::check;
    cloud_cells => super::cloud_cells::check;
    batches => super::batches::check;
    queued_batches => super::batches::check_queued;
}

/// What the kernels do instead of dividing, on the CPU.
#[test]
fn quotients_from_the_reciprocal_are_those_of_a_division() {
    cloud_cells::check_quotients(cases());
}
