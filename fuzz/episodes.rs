//! Uses of episodes, as in training.

use std::fs;
use std::path::{Path, PathBuf};

use robocache_data::episodes::{Episodes, WindowBatch, statistics};

/// Windows of a batch, and bytes of all of them.
const MOST: (usize, usize) = (16, 1 << 24);

/// All files below a folder in the order of their names, with their contents.
pub(crate) fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let each = paths.into_iter().map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![(path.clone(), fs::read(&path).expect("a file"))],
    });
    each.flatten().collect()
}

/// True if a file has chunks.
pub(crate) fn is_shard(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("c."))
}

/// Statistics of all streams, and windows at the ends and in the middle of each epoch.
pub(crate) fn use_all(episodes: &Episodes) {
    for stream in &episodes.streams {
        let _ = statistics(episodes, &stream.means.name, None);
    }
    let Ok(plan) = episodes.plan(None) else { return };
    let _ = episodes.contract(&plan, &[]);
    let mut numbers = Vec::new();
    let mut instants = Vec::new();
    let mut epochs = Vec::new();
    for span in episodes.spans.iter().take(MOST.0 / 3) {
        let middle = span.begin_ns.midpoint(span.end_ns);
        for instant in [span.begin_ns, middle, span.end_ns] {
            numbers.push(i64::from(span.episode));
            instants.push(instant);
            epochs.push(span.epoch);
        }
    }
    let Ok(layout) = plan.layout(instants.len()) else { return };
    if layout.byte_len > MOST.1 {
        return;
    }
    let mut out = vec![0; layout.byte_len];
    for epochs in [None, Some(&epochs[..])] {
        let batch =
            WindowBatch { episodes: &numbers, instants_ns: &instants, epochs, latency_ns: &[] };
        let _ = episodes.windows(&plan, batch, &mut out, 1);
    }
}
