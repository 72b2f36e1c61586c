//! The seeds of all fuzz targets, replayed without a fuzzer: each of its inputs once.

#[path = "../../../fuzz/fuzz.rs"]
mod fuzz;

/// Removes the files of the targets.
struct Files;

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(fuzz::folder(""));
    }
}

#[test]
fn no_target_finds_a_fault_in_its_seeds() {
    let _files = Files;
    for (name, run, seeds) in fuzz::TARGETS {
        let seeds = seeds();
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (at, seed) in seeds.iter().enumerate() {
            println!("{name}: seed {at}"); // shown if a panic follows
            run(seed);
        }
    }
}
