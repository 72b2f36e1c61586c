//! Work on several cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sync::lock;

/// Number of cores that this process may use.
pub fn cores() -> usize {
    /// 0 until it is known. To ask takes longer than a small operation.
    static CORES: AtomicUsize = AtomicUsize::new(0);
    match CORES.load(Ordering::Relaxed) {
        0 => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            CORES.store(cores, Ordering::Relaxed);
            cores
        }
        cores => cores,
    }
}

/// Does `work` for every item, on at most `threads` threads, including the caller's. The threads end with the call. So
/// a process that forks later loses none.
///
/// Each thread has a `state` of its own.
pub fn for_each<T: Send, S>(
    items: Vec<T>,
    threads: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) {
    let helpers = threads.min(items.len()).saturating_sub(1);
    if helpers == 0 {
        let mut state = state();
        items.into_iter().for_each(|item| work(&mut state, item));
        return;
    }
    let items = Mutex::new(items.into_iter());
    let run = || {
        let mut state = state();
        loop {
            // The lock is held only for this statement.
            let Some(item) = lock(&items).next() else { break };
            work(&mut state, item);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            // If there is no further thread, those that there are do all the work.
            if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
}

#[cfg(test)]
mod tests;
