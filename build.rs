//! Checks what the features need, and compiles the CUDA kernels into one fat binary.
//!
//! Environment: what `scripts/cuda.sh` obeys to find nvcc, and `ROBOCACHE_CUDA_ARCHS` (such as
//! `90,120`: compile for these chips only, which is faster while the kernels are being changed).

use std::env;
use std::path::{Path, PathBuf};

#[path = "kernels/nvcc.rs"]
mod nvcc;

/// The structures that the kernels share with the host, as the crate declares them.
#[path = "src/device"]
mod device {
    #[allow(dead_code)]
    pub mod shared;
}

/// The kernels: a file per operation, each in a namespace of its own, in one compiled source.
const KERNELS: [&str; 7] = [
    "resample/fuse",
    "resample/resample",
    "image/resize",
    "voxelize/count",
    "voxelize/write_counts",
    "voxelize/sort",
    "voxelize/reduce",
];

/// What the module `device` above includes.
const SHARED: &str = "src/device/shared.rs";
const SHARED_FOLDER: &str = "src/device/shared";

/// The file that says, in a prefix of ROS, that this package's messages are there.
const MESSAGES: &str = "share/ament_index/resource_index/rosidl_interfaces/robocache_ros";

fn main() {
    for path in ["kernels", "build.rs", SHARED, SHARED_FOLDER] {
        println!("cargo::rerun-if-changed={path}");
    }
    // cargo ends the build after such a line, and shows the lines alone.
    if let Err(message) = build() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

/// All that is missing is said at once, before the kernels take their time.
fn build() -> Result<(), String> {
    let on = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let messages = if on("ROS") { find_messages() } else { Ok(()) };
    let nvcc = if on("CUDA") { nvcc::find(&root).map(Some) } else { Ok(None) };
    match (messages, nvcc) {
        (Ok(()), Ok(Some(nvcc))) => compile(&root, &nvcc),
        (Ok(()), Ok(None)) => Ok(()),
        (Err(ros), Err(cuda)) => Err(format!("{ros}\n{cuda}")),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// The node speaks this package's own messages, which r2r takes from a prefix of ROS.
fn find_messages() -> Result<(), String> {
    let prefixes = env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    if env::split_paths(&prefixes).any(|prefix| prefix.join(MESSAGES).exists()) {
        return Ok(());
    }
    Err("ros: expected the messages of robocache_ros in a prefix of AMENT_PREFIX_PATH, \
         found none\n\
         build messages and node together:  make build (or colcon build)\n\
         or build the core alone:           cargo build --no-default-features"
        .into())
}

fn compile(root: &Path, nvcc: &Path) -> Result<(), String> {
    let include = |name| format!("#include \"{}/kernels/{name}.cu\"\n", root.display());
    let text: String = KERNELS.into_iter().map(include).collect();
    nvcc::compile(nvcc, &(text + &assertions()), "kernels")?;
    println!("cargo::rustc-env=ROBOCACHE_CUDA_VERSION={}", nvcc::version(nvcc)?);
    Ok(())
}

/// What makes nvcc compare the kernels' structures and numbers with those of `device::shared`.
fn assertions() -> String {
    use device::shared::{NUMBERS, STRUCTS};

    let assert =
        |is: String| format!("static_assert({is}, \"differs from src/device/shared.rs\");\n");
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
