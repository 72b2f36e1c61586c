//! How much memory of the host a process may take.

use std::fs::read_to_string;
use std::path::Path;

/// Memory of the host that is available to this process \[bytes\]. The ranks that torchrun starts on a machine share
/// what its control group and the machine itself have left. 0 if the system does not say.
#[cfg(feature = "cuda")]
pub(super) fn bytes_of_process() -> usize {
    let ranks = std::env::var("LOCAL_WORLD_SIZE").ok().and_then(|ranks| ranks.parse().ok());
    bytes(Path::new("/"), ranks.unwrap_or(1))
}

/// Memory of the host that is left for all processes together \[bytes\]. 0 if the system does not say.
pub(super) fn bytes_left() -> usize {
    bytes(Path::new("/"), 1)
}

/// Memory that is available to each of `ranks` processes \[bytes\]. The files of the system are below `root`.
fn bytes(root: &Path, ranks: usize) -> usize {
    let machine = read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let machine = number_after(&machine, "MemAvailable:").map_or(0, |kib| kib.saturating_mul(1024));
    let groups = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        of_group(root, controllers, path.trim_start_matches('/'))
    });
    of_groups.fold(machine, usize::min) / ranks.max(1)
}

/// Memory that the limits of a control group and of those above it leave \[bytes\]; `None` without a limit.
fn of_group(root: &Path, controllers: &str, path: &str) -> Option<usize> {
    let (folder, limit, used, cached) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "),
        _ if controllers.split(',').any(|name| name == "memory") => (
            "sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file ",
        ),
        _ => return None,
    };
    let left = |group: &Path| {
        let group = root.join(folder).join(group);
        let text = |name| read_to_string(group.join(name)).unwrap_or_default();
        let limit = number_after(&text(limit), "")?;
        // The system takes back what files have in memory.
        let cached = number_after(&text("memory.stat"), cached).unwrap_or(0);
        let used = number_after(&text(used), "").unwrap_or(0).saturating_sub(cached);
        Some(limit.saturating_sub(used))
    };
    // In a container its own group may be the topmost one that is visible.
    Path::new(path).ancestors().filter_map(left).min()
}

/// The number behind a word at the begin of a line.
fn number_after(text: &str, word: &str) -> Option<usize> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
