use super::*;

fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

const MACHINE: (&str, &str) =
    ("proc/meminfo", "MemTotal:       9000 kB\nMemFree:        100 kB\nMemAvailable:   8000 kB\n");

#[test]
fn a_machine_without_limits_gives_what_it_has() {
    let root = system(&[MACHINE, ("proc/self/cgroup", "0::/\n")]);
    assert_eq!(bytes(root.path(), 1), 8000 * 1024);
    assert_eq!(bytes(root.path(), 8), 1000 * 1024);
    assert_eq!(bytes(root.path(), 0), 8000 * 1024);
    assert_eq!(bytes(system(&[]).path(), 1), 0);
}

#[test]
fn the_least_limit_of_all_groups_counts() {
    let group = |name: &str| format!("sys/fs/cgroup/{name}");
    let slice = group("a.slice");
    let job = group("a.slice/job");
    let root = system(&[
        MACHINE,
        ("proc/self/cgroup", "0::/a.slice/job\n"),
        (&format!("{job}/memory.max"), "max\n"),
        (&format!("{slice}/memory.max"), "1000000\n"),
        (&format!("{slice}/memory.current"), "600000\n"),
        (&format!("{slice}/memory.stat"), "anon 5\nactive_file 9\ninactive_file 200000\n"),
    ]);
    assert_eq!(bytes(root.path(), 1), 600_000);
    assert_eq!(bytes(root.path(), 4), 150_000);
    std::fs::write(root.path().join(job).join("memory.max"), "500000\n").unwrap();
    assert_eq!(bytes(root.path(), 1), 500_000);
}

#[test]
fn the_first_version_of_groups_is_read_too() {
    let root = system(&[
        MACHINE,
        ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/unknown\n0::/\n"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n"),
        ("sys/fs/cgroup/memory/memory.usage_in_bytes", "3500000\n"),
        ("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 700000\n"),
        ("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n"),
    ]);
    assert_eq!(bytes(root.path(), 2), 100_000);
}
