//! The program that fuzzes the target that FUZZ_TARGET names. Without that, it writes the seeds of all targets into
//! `fuzz/corpus`.
#![no_main]

#[path = "fuzz.rs"]
mod fuzz;

use std::path::Path;
use std::sync::LazyLock;
use std::{env, fs, process};

use libfuzzer_sys::fuzz_target;

static RUN: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").expect("a name");
    let found = fuzz::TARGETS.iter().find(|(target, ..)| *target == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET: expected a target, found {name}")).1
});

fuzz_target!(
    init: {
        if env::var_os("FUZZ_TARGET").is_none() {
            write();
            process::exit(0);
        }
    },
    |input: &[u8]| RUN(input)
);

fn write() {
    for (target, _, seeds) in fuzz::TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        fs::create_dir_all(&corpus).expect("a folder for the corpus");
        let seeds = seeds();
        for (at, seed) in seeds.iter().enumerate() {
            fs::write(corpus.join(format!("seed_{at:03}")), seed).expect("a seed");
        }
        println!("{target}: {} seeds", seeds.len());
    }
    fs::remove_dir_all(fuzz::folder("")).expect("the folder of this process");
}
