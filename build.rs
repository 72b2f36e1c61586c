//! Compiles the CUDA kernels, when the feature `cuda` is on, into one fat binary.
//!
//! Environment: `NVCC` (path of the compiler), `CUDA_HOME`, `ROBOCACHE_CUDA_ARCHS` (such as
//! `90,120`: compile for these chips only, which is faster while the kernels are being changed).

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One file per operation; each becomes a namespace of the one compiled source.
const KERNELS: [&str; 5] = ["fuse", "resample", "image", "voxelize_scatter", "voxelize_finish"];

/// What they share, and so stands outside of their namespaces.
const HEADERS: [&str; 3] = ["common", "points", "voxels"];

/// The chips that get machine code, as far as nvcc knows them: Turing, Ampere, Jetson Orin, Ada,
/// Hopper, Blackwell, Jetson Thor, desktop Blackwell. Later ones compile the PTX of the last.
const ARCHS: [u32; 9] = [75, 80, 86, 87, 89, 90, 100, 110, 120];

/// Where Python environments of this repository may lie.
const ENVIRONMENTS: [&str; 4] = [".cuda", ".venv", ".ros", ".ros/venv"];

const INSTALL: &str =
    "python3 -m venv .cuda && .cuda/bin/pip install 'cuda-toolkit[nvcc,cudart,cccl]==13.0.*'";

fn main() -> ExitCode {
    for variable in ["NVCC", "CUDA_HOME", "VIRTUAL_ENV", "ROBOCACHE_CUDA_ARCHS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=kernels");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return ExitCode::SUCCESS;
    }
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo:error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn compile() -> Result<(), String> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("no CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let nvcc = find_nvcc(&root).ok_or_else(|| {
        format!(
            "feature `cuda`: expected nvcc in NVCC, CUDA_HOME/bin, PATH or a Python environment \
             ({}), found none.\nInstall it without root: {INSTALL}\n\
             Or build for the CPU alone: cargo build --no-default-features (--features ros)",
            ENVIRONMENTS.join(", ")
        )
    })?;
    let archs = archs(&nvcc)?;
    let newest = archs.last().ok_or("feature `cuda`: nvcc knows none of the chips")?;
    let source = out.join("kernels.cu");
    let mut text = String::new();
    for name in HEADERS {
        let file = root.join(format!("kernels/{name}.cuh"));
        text += &format!("#include \"{}\"\n", file.display());
    }
    for name in KERNELS {
        let file = root.join(format!("kernels/{name}.cu"));
        text += &format!("namespace {name}_kernels {{\n#include \"{}\"\n}}\n", file.display());
    }
    std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut command = Command::new(&nvcc);
    command.args(["-fatbin", "-std=c++17", "-O3", "-fmad=false", "-lineinfo", "--threads=0"]);
    for arch in &archs {
        command.arg(format!("-gencode=arch=compute_{arch},code=sm_{arch}"));
    }
    command.arg(format!("-gencode=arch=compute_{newest},code=compute_{newest}"));
    command.arg("-o").arg(out.join("kernels.fatbin")).arg(&source);
    run(command)?;
    println!("cargo:rustc-env=ROBOCACHE_CUDA_VERSION={}", version(&nvcc)?);
    Ok(())
}

/// Runs a command and returns what it printed.
fn run(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let [out, err] =
            [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        return Err(format!("{command:?}: {}\n{out}{err}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn find_nvcc(root: &Path) -> Option<PathBuf> {
    let named = env::var_os("NVCC").map(PathBuf::from);
    let home = env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin/nvcc"));
    let paths = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&paths).map(|folder| folder.join("nvcc"));
    let environments = env::var_os("VIRTUAL_ENV").map(PathBuf::from);
    let environments = environments.into_iter().chain(ENVIRONMENTS.map(|name| root.join(name)));
    named
        .into_iter()
        .chain(home)
        .chain(on_path)
        .chain(environments.flat_map(|folder| wheels(&folder)))
        .find(|nvcc| nvcc.is_file())
}

/// The nvcc of the PyPI wheels in a Python environment.
fn wheels(environment: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    entries(environment.join("lib"))
        .flat_map(|python| entries(python.join("site-packages/nvidia")))
        .map(|toolkit| toolkit.join("bin/nvcc"))
        .collect()
}

/// The chips to compile for, ascending.
fn archs(nvcc: &Path) -> Result<Vec<u32>, String> {
    let mut command = Command::new(nvcc);
    command.arg("--list-gpu-code");
    let known = run(command)?;
    let known: Vec<&str> = known.split_whitespace().collect();
    let wanted = match env::var("ROBOCACHE_CUDA_ARCHS") {
        Err(_) => ARCHS.to_vec(),
        Ok(list) => list
            .split(',')
            .map(|arch| arch.trim().parse())
            .collect::<Result<Vec<u32>, _>>()
            .map_err(|_| {
                format!("ROBOCACHE_CUDA_ARCHS: expected such as 90,120, found {list:?}")
            })?,
    };
    Ok(wanted.into_iter().filter(|arch| known.contains(&format!("sm_{arch}").as_str())).collect())
}

/// The version of the toolkit, as 1000 * major + 10 * minor: what the driver must know at least.
fn version(nvcc: &Path) -> Result<u32, String> {
    let mut command = Command::new(nvcc);
    command.arg("--version");
    let text = run(command)?;
    let unknown = || format!("nvcc --version: expected a release, found {text:?}");
    let release = text.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    let (major, minor) = release.and_then(|release| release.split_once('.')).ok_or_else(unknown)?;
    let parse = |number: &str| number.trim().parse::<u32>().map_err(|_| unknown());
    Ok(1000 * parse(major)? + 10 * parse(minor)?)
}
