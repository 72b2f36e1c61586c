//! Finds nvcc and compiles CUDA sources with it: for the build script of the crate, and for that of its
//! benchmarks.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The chips that get machine code, as far as nvcc knows them: Turing, Ampere, Jetson Orin, Ada,
/// Hopper, Blackwell, Jetson Thor, desktop Blackwell. Later ones compile the PTX of [`ptx_of`] the last.
const ARCHS: [u32; 9] = [75, 80, 86, 87, 89, 90, 100, 110, 120];

/// The environment that decides on the nvcc, its host compiler and the chips.
const INPUTS: [&str; 7] = [
    "NVCC",
    "NVCC_CCBIN",
    "CUDA_HOME",
    "VIRTUAL_ENV",
    "ROBOCACHE_CUDA",
    "ROBOCACHE_CUDA_ARCHS",
    LINEINFO,
];

/// If it is `on`, the code has the source's lines, for profilers and compute-sanitizer.
const LINEINFO: &str = "ROBOCACHE_CUDA_LINEINFO";

/// The first version of nvcc whose code only drivers load that decompress it, see [`version`]. With
/// 12, drivers before 550 load the code but do not decompress it.
const COMPRESSES: u32 = 13_000;

/// Script that finds nvcc, for this and for those who choose the features.
const FINDER: &str = "scripts/cuda.sh";

/// Compiles `text` into `<name>.fatbin` in the folder of the build's output.
pub(crate) fn compile(nvcc: &Path, text: &str, name: &str) -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    let archs = archs(nvcc)?;
    let newest = archs.last().ok_or("cuda: nvcc knows none of the chips")?;
    let source = out.join(format!("{name}.cu"));
    std::fs::write(&source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut command = compiler(nvcc);
    command.args(["-fatbin", "-std=c++17", "-O3", "-fmad=false", "--threads=0"]);
    if lineinfo()? {
        command.arg("-lineinfo");
    }
    if version(nvcc)? >= COMPRESSES && knows(nvcc, "--compress-mode")? {
        command.arg("--compress-mode=size");
    }
    for arch in &archs {
        command.arg(format!("-gencode=arch=compute_{},code=sm_{arch}", ptx_of(*arch)));
    }
    let newest = ptx_of(*newest);
    command.arg(format!("-gencode=arch=compute_{newest},code=compute_{newest}"));
    command.arg("-o").arg(out.join(format!("{name}.fatbin"))).arg(&source);
    run(command)?;
    Ok(())
}

/// The chip whose PTX becomes the machine code of this one. Chips of one generation share it, which is two fifths of the work
/// of nvcc: 28 of 65 s with nvcc 13.0. So sources may tell chips apart only at 75, 80, 90 and 100.
fn ptx_of(arch: u32) -> u32 {
    match arch {
        80..90 => 80,
        100.. => 100,
        _ => arch,
    }
}

fn lineinfo() -> Result<bool, String> {
    let value = env::var_os(LINEINFO).unwrap_or_default();
    match value.to_str() {
        Some("on") => Ok(true),
        Some("" | "off") => Ok(false),
        _ => Err(format!("{LINEINFO}: expected on or off, found '{}'", value.display())),
    }
}

/// True if the help of `nvcc` names an option.
fn knows(nvcc: &Path, option: &str) -> Result<bool, String> {
    let mut command = compiler(nvcc);
    command.arg("--help");
    Ok(run(command)?.split_whitespace().any(|word| word == option))
}

/// nvcc with the options that it is given here and no others: `--use_fast_math` in a user's shell
/// would change the bits.
fn compiler(nvcc: &Path) -> Command {
    let mut command = Command::new(nvcc);
    command.env_remove("NVCC_PREPEND_FLAGS").env_remove("NVCC_APPEND_FLAGS");
    command
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

/// Finds nvcc, or says what to do without one.
pub(crate) fn find(root: &Path) -> Result<PathBuf, String> {
    for variable in INPUTS {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed={}", root.join(FINDER).display());
    let mut command = Command::new("bash");
    command.arg(root.join(FINDER)).arg("find");
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        println!("cargo::warning={line}");
    }
    let nvcc = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    println!("cargo::rerun-if-changed={nvcc}");
    Ok(PathBuf::from(nvcc))
}

/// The chips to compile for, ascending. The PTX for later ones is that of the generation of the last.
fn archs(nvcc: &Path) -> Result<Vec<u32>, String> {
    let mut command = compiler(nvcc);
    command.arg("--list-gpu-code");
    let text = run(command)?;
    let number = |code: &str| code.strip_prefix("sm_")?.parse().ok();
    let mut known: Vec<u32> = text.split_whitespace().filter_map(number).collect();
    known.sort_unstable();
    let Ok(list) = env::var("ROBOCACHE_CUDA_ARCHS") else {
        return Ok(ARCHS.into_iter().filter(|arch| known.contains(arch)).collect());
    };
    let numbers: Result<Vec<u32>, _> = list.split(',').map(|arch| arch.trim().parse()).collect();
    let mut wanted = numbers
        .map_err(|_| format!("ROBOCACHE_CUDA_ARCHS: expected such as 90,120, found {list:?}"))?;
    wanted.sort_unstable();
    wanted.dedup();
    match wanted.iter().find(|arch| !known.contains(arch)) {
        None => Ok(wanted),
        Some(arch) => Err(format!(
            "ROBOCACHE_CUDA_ARCHS: expected chips that {} knows, {known:?}, found {arch}",
            nvcc.display()
        )),
    }
}

/// The version of the toolkit, as 1000 * major + 10 * minor: what the driver must know at least.
pub(crate) fn version(nvcc: &Path) -> Result<u32, String> {
    let mut command = compiler(nvcc);
    command.arg("--version");
    let text = run(command)?;
    let unknown = || format!("nvcc --version: expected a release, found {text:?}");
    let release = text.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    let (major, minor) = release.and_then(|release| release.split_once('.')).ok_or_else(unknown)?;
    let parse = |number: &str| number.trim().parse::<u32>().map_err(|_| unknown());
    Ok(1000 * parse(major)? + 10 * parse(minor)?)
}
