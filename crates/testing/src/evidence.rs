//! Facts about a wait, as tests/evidence.py has them.

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, getpid, sysconf};

const NANOS_PER_S: u64 = 1_000_000_000;

/// Processor time of a thread so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ThreadTime {
    /// On a processor \[ns\].
    got: u64,
    /// Ready but not on a processor \[ns\]. It changes only when the thread gets a processor.
    delayed: u64,
    /// How often it got a processor.
    turns: u64,
    /// True if it is on a processor or ready.
    is_ready: bool,
}

/// The times of threads, by their numbers.
type TimesOfThreads = BTreeMap<i32, ThreadTime>;

/// Facts of a wait.
pub(crate) struct Facts {
    began_s: f64,
    /// The first look.
    before: Option<Look>,
}

/// State that a look sees.
struct Look {
    at: Instant,
    times: TimesOfThreads,
    stolen_ns: u64,
}

impl Facts {
    /// The wait begins now.
    pub(crate) fn new() -> Self {
        Facts { began_s: monotonic_s(), before: None }
    }

    /// Notes the processor times, if they are not known yet.
    pub(crate) fn look(&mut self) {
        self.before.get_or_insert_with(|| Look {
            at: Instant::now(),
            times: processor_times(),
            stolen_ns: stolen_ns(),
        });
    }

    /// The facts, in the words that `scripts/cargo_test.py` reads.
    pub(crate) fn text(&self, patience: Duration) -> String {
        let began = self.began_s;
        let ended = monotonic_s();
        let patience = patience.as_secs_f64();
        let [got, asked, stolen] = self.got_asked_and_stolen();
        let times = format!("began={began:.6} ended={ended:.6} patience={patience}");
        format!("[{times} got_ns={got} asked_ns={asked} stolen_ns={stolen}]")
    }

    /// Processor time that all threads together got, that they asked for, and that the hypervisor took, since the first
    /// look \[ns\]. Without that look, the times would be those of whole lives, so they are left out.
    fn got_asked_and_stolen(&self) -> [u64; 3] {
        let Some(Look { at, times, stolen_ns: stolen_before }) = &self.before else {
            return [0; 3];
        };
        let waited = at.elapsed().as_nanos() as u64;
        let [mut sum_got, mut sum_asked] = [0; 2];
        for (thread, of) in processor_times() {
            let before = times.get(&thread).copied().unwrap_or_default();
            let got = of.got.saturating_sub(before.got);
            sum_got += got;
            sum_asked += got + of.delayed.saturating_sub(before.delayed);
            // It still waits for a processor.
            sum_asked += if of == before && of.is_ready { waited } else { 0 };
        }
        [sum_got, sum_asked, stolen_ns().saturating_sub(*stolen_before)]
    }
}

/// The clock of Python's `time.monotonic` \[s\].
fn monotonic_s() -> f64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    Duration::from(now).as_secs_f64()
}

/// The times of all threads of this process and its descendants. Processes and threads that end meanwhile are left out.
fn processor_times() -> TimesOfThreads {
    let mut times = TimesOfThreads::new();
    for process in descendants(getpid().as_raw()) {
        for thread in numbers_in(&format!("/proc/{process}/task")) {
            let file = |name: &str| {
                let path = format!("/proc/{process}/task/{thread}/{name}");
                read_to_string(path).unwrap_or_default()
            };
            // Documentation/scheduler/sched-stats.rst
            let text = file("schedstat");
            let numbers: Vec<u64> = text.split_whitespace().flat_map(str::parse).collect();
            if let [got, delayed, turns] = numbers[..] {
                let is_ready = stat_field(&file("stat"), 3) == Some("R");
                times.insert(thread, ThreadTime { got, delayed, turns, is_ready });
            }
        }
    }
    times
}

/// Time that the hypervisor took since the boot, the mean of all processors \[ns\].
fn stolen_ns() -> u64 {
    // proc(5): the first line is the sum of all processors, and each has a line. The eighth number is stolen time.
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.split_whitespace().nth(8).and_then(|word| word.parse::<u64>().ok());
    let processors = stat.lines().skip(1).filter(|line| line.starts_with("cpu")).count() as u64;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as u64;
    ticks.unwrap_or(0) * (NANOS_PER_S / per_second) / processors.max(1)
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
