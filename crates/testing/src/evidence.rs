//! Facts about a wait, as tests/evidence.py has them.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::getpid;

/// By the number of the thread: processor time that it got and that it waited for \[ns\].
type Times = BTreeMap<i32, [u64; 2]>;

/// What happened in a wait.
pub(crate) struct Facts {
    began_s: f64,
    /// The processor times after the first second.
    before: Option<Times>,
}

impl Facts {
    /// The wait begins now.
    pub(crate) fn new() -> Self {
        Facts { began_s: monotonic_s(), before: None }
    }

    /// Notes the processor times, if they are not known yet.
    pub(crate) fn look(&mut self) {
        self.before.get_or_insert_with(processor_times);
    }

    /// The facts, in the words that `scripts/cargo_test.py` reads.
    pub(crate) fn text(&self, patience: Duration) -> String {
        let (began, ended, patience) = (self.began_s, monotonic_s(), patience.as_secs_f64());
        let [got, asked] = self.got_and_asked();
        format!(
            "[began={began:.6} ended={ended:.6} patience={patience} got_ns={got} asked_ns={asked}]"
        )
    }

    /// Processor time that all threads together got and asked for since the first look \[ns\]. Without that look, the
    /// times would be those of whole lives, so they are left out.
    fn got_and_asked(&self) -> [u64; 2] {
        let mut sum = [0; 2];
        let Some(before) = &self.before else { return sum };
        for (thread, [got, delayed]) in processor_times() {
            let [got_before, delayed_before] = before.get(&thread).copied().unwrap_or_default();
            let got = got.saturating_sub(got_before);
            sum[0] += got;
            sum[1] += got + delayed.saturating_sub(delayed_before);
        }
        sum
    }
}

/// The clock of Python's `time.monotonic` \[s\].
fn monotonic_s() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    Duration::from(now).as_secs_f64()
}

/// The times of all threads of this process and its descendants. Processes and threads that end meanwhile are left out.
fn processor_times() -> Times {
    let mut times = Times::new();
    for process in descendants(getpid().as_raw()) {
        for thread in numbers_in(&format!("/proc/{process}/task")) {
            // Documentation/scheduler/sched-stats.rst: time on a processor, and time ready but not on one.
            let text = read_to_string(format!("/proc/{process}/task/{thread}/schedstat"));
            let text = text.unwrap_or_default();
            let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
            if let (Some(got), Some(delayed)) = (words.next(), words.next()) {
                times.insert(thread, [got, delayed]);
            }
        }
    }
    times
}

/// The process and all its descendants.
fn descendants(root: i32) -> Vec<i32> {
    let mut children = BTreeMap::<i32, Vec<i32>>::new();
    for process in numbers_in("/proc") {
        let stat = read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        if let Some(parent) = stat_field(&stat, 4).and_then(|text| text.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(process) = found.get(at).copied() {
        found.extend(children.remove(&process).unwrap_or_default());
        at += 1;
    }
    found
}

/// The names in a folder that are numbers.
fn numbers_in(folder: &str) -> Vec<i32> {
    let entries = read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A field of a `stat` file of /proc, counted from 1, as proc(5) does; not for the first two.
pub(crate) fn stat_field(stat: &str, number: usize) -> Option<&str> {
    // The name of the process, field 2, may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(number.checked_sub(3)?)
}
