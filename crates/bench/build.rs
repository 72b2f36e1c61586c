//! Compiles the empty kernel of the benchmarks, and names the commit.

use std::env;
use std::path::Path;

#[path = "../../kernels/nvcc.rs"]
#[allow(dead_code)]
mod nvcc;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed=../../kernels");
    println!("cargo::rerun-if-env-changed=ROBOCACHE_COMMIT");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    if let Err(message) = compile() {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn compile() -> Result<(), String> {
    let own = env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?;
    let source = Path::new(&own).join("kernels/empty.cu");
    let nvcc = nvcc::find(&Path::new(&own).join("../.."))?;
    nvcc::compile(&nvcc, &format!("#include \"{}\"\n", source.display()), "empty")
}
