//! Compiles the CUDA kernels into one fat binary.
//!
//! Environment: what `scripts/cuda.sh` obeys to find nvcc, and
//!
//! - `ROBOCACHE_CUDA_ARCHS` (such as `90,120`): compile for these chips only, which is faster while
//!   the kernels are being changed;
//! - `ROBOCACHE_CUDA_LINEINFO=on`: add the source's lines for profilers, which triples the size.

use std::env;
use std::path::{Path, PathBuf};

#[path = "../../kernels/nvcc.rs"]
mod nvcc;

/// The structures that the kernels share with the host, as the crate declares them.
#[path = "../ops/src/device"]
mod device {
    // It is public in robocache_ops, which uses all of it.
    #[allow(dead_code, unreachable_pub)]
    pub(crate) mod shared;
}

/// The kernels: a file per operation, each in a namespace of its own, in one compiled source.
const KERNELS: [&str; 19] = [
    "resample/fuse",
    "resample/resample",
    "resample/gradient",
    "depth/depth",
    "image/resize",
    "image/remap",
    "image/jpeg_scan",
    "image/jpeg",
    "voxelize/deskew",
    "voxelize/count",
    "voxelize/write_counts",
    "voxelize/fill_buckets",
    "voxelize/write_buckets",
    "voxelize/scatter",
    "voxelize/sort",
    "voxelize/reduce",
    "voxelize/list",
    "windows/windows",
    "windows/sample",
];

/// File of the module `device::shared` above.
const SHARED: &str = "crates/ops/src/device/shared.rs";
const SHARED_FOLDER: &str = "crates/ops/src/device/shared";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for path in ["kernels", SHARED, SHARED_FOLDER] {
        println!("cargo::rerun-if-changed=../../{path}");
    }
    // cargo ends the build after such a line, and shows the lines alone.
    if let Err(message) = build() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<(), String> {
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return Ok(());
    }
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let root = own.join("../..");
    compile(&root, &nvcc::find(&root)?)
}

fn compile(root: &Path, nvcc: &Path) -> Result<(), String> {
    let include = |name| format!("#include \"{}/kernels/{name}.cu\"\n", root.display());
    let text: String = KERNELS.into_iter().map(include).collect();
    nvcc::compile(nvcc, &(text + &assertions()), "kernels")?;
    println!("cargo::rustc-env=ROBOCACHE_CUDA_VERSION={}", nvcc::version(nvcc)?);
    Ok(())
}

/// Returns assertions by which nvcc compares the kernels' structures and numbers with those of `device::shared`.
fn assertions() -> String {
    use device::shared::{NUMBERS, STRUCTS};

    let assert = |is: String| {
        format!("static_assert({is}, \"differs from crates/ops/src/device/shared.rs\");\n")
    };
    let mut text = String::new();
    for (name, value) in NUMBERS.iter().copied().flatten() {
        text += &assert(format!("{name} == {value}u"));
    }
    for all in STRUCTS.iter().copied().flatten() {
        let name = all.name;
        text +=
            &assert(format!("sizeof({name}) == {} && alignof({name}) == {}", all.size, all.align));
        for (field, offset, size) in all.fields {
            let is = format!("__builtin_offsetof({name}, {field}) == {offset}");
            text += &assert(format!("{is} && sizeof({name}::{field}) == {size}"));
        }
    }
    text
}
