//! Findings of a soak, for people and programs.

use std::fmt;

use robocache_core::backend::{GpuUse, Processor};
use robocache_core::pipeline::Pipeline;
use serde::Serialize;

use super::check::{Checked, EVERY};
use super::memory::MemoryUse;
use super::probe::Probe;
use super::tick::{After, Overrun, Ticks};
use super::timeline::{PERIOD_NS, Span, What, short};
use crate::options::Options;

/// Overruns that are described one by one.
const DESCRIBED: usize = 100;

/// Time before a late tick \[ns\]. What ended in it is reported with the tick: on a GPU, the encode that a push started
/// may still be under way.
const BEFORE: u64 = PERIOD_NS / 2;

/// The allocator keeps some of what threads return to it: growth of the resident memory up to this
/// is not held against us \[bytes\].
const RESIDENT_SLACK: usize = 16 << 20;

/// Notes of all threads.
#[derive(Debug)]
pub(super) struct ThreadNotes {
    pub tick: Ticks,
    pub processors: Processors,
    /// Real-time priority of the tick thread at the start, and at the end: 0 for ordinary.
    pub priority: [u8; 2],
    /// Images and clouds that the workers did not get: there was no memory, or no room in the queue.
    pub refused: u64,
    /// Images and clouds that the robot made too late, and so did not send.
    pub skipped: u64,
    /// Waits of messages for the checker.
    pub waits: u64,
    pub pushes: Vec<Span>,
    pub probe: Probe,
    pub checked: Checked,
    pub memory: (MemoryUse, Vec<Span>),
}

/// Median, 99th percentile and maximum \[us\]; 0 where there is nothing.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Quantiles {
    fn new(mut ns: Vec<u32>) -> Self {
        ns.sort_unstable();
        let at = |share: f64| {
            let index = (ns.len().saturating_sub(1) as f64 * share).round() as usize;
            ns.get(index).map_or(0.0, |ns| f64::from(*ns) / 1e3)
        };
        Quantiles { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}

/// Processors that encoded images and clouds, warm-up included.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Processors {
    /// `none`, `in use`, or why the GPU was left.
    pub gpu: String,
    /// The streams that either processor may encode.
    pub streams: Vec<Encoded>,
}

/// Processor that encoded the messages of a stream.
#[derive(Debug, Serialize)]
pub(crate) struct Encoded {
    /// The stream.
    pub stream: String,
    /// The processor in use at the end: `cpu` or `gpu`.
    pub in_use: &'static str,
    /// Usual time of a core and of the GPU from hand-over to the row \[us\].
    pub cpu_us: Option<f64>,
    /// See `cpu_us`.
    pub gpu_us: Option<f64>,
    /// Rows by processor.
    pub by_cpu: u64,
    /// See `by_cpu`.
    pub by_gpu: u64,
    /// Messages that a core took over from the GPU.
    pub takeovers: u64,
}

impl Processors {
    /// As the backend has it now.
    pub(crate) fn read(pipeline: &Pipeline) -> Self {
        let config = pipeline.config();
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let encoded = |stream| {
            let encodes = pipeline.encodes(stream)?;
            Some(Encoded {
                stream: config.stream(stream).name.clone(),
                in_use: if encodes.in_use == Processor::Gpu { "gpu" } else { "cpu" },
                cpu_us: us(encodes.cpu_ns),
                gpu_us: us(encodes.gpu_ns),
                by_cpu: encodes.by_cpu,
                by_gpu: encodes.by_gpu,
                takeovers: encodes.takeovers,
            })
        };
        let gpu = match pipeline.gpu() {
            GpuUse::None => "none".into(),
            GpuUse::InUse => "in use".into(),
            GpuUse::Left { reason } => format!("left: {reason}"),
        };
        Processors { gpu, streams: config.stream_ids().filter_map(encoded).collect() }
    }
}

impl fmt::Display for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Encoded { stream, in_use, by_cpu, by_gpu, takeovers, .. } = self;
        let us = |us: Option<f64>| us.map_or("-".into(), |us| format!("{us:.0} us"));
        let cpu = us(self.cpu_us);
        let gpu = us(self.gpu_us);
        write!(
            f,
            "{stream}: {by_cpu} rows by cores ({cpu}), {by_gpu} by the GPU ({gpu}), {takeovers} \
             taken over; at the end {in_use}"
        )
    }
}

/// Memory over the soak \[bytes\].
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Course {
    /// At the start.
    pub start: usize,
    /// At the worst of the looks in between: the least that was free, the most that was resident.
    pub worst: usize,
    /// At the end.
    pub end: usize,
}

/// A tick that was late or that others were missed before.
#[derive(Debug, Serialize)]
pub(crate) struct Late {
    /// Seconds since the start.
    pub at_s: f64,
    /// Its number since the start.
    pub tick: i64,
    /// Ticks before it that were due and not served.
    pub missed: u64,
    /// From the instant of the first that was due to its begin \[us\].
    pub late_us: f64,
    /// True if the thread slept before it: if not, it is late because the one before was, or, if
    /// `copied`, because a copy for the comparison took until after that instant.
    pub slept: bool,
    /// True if the tick came after such a copy.
    pub copied: bool,
    /// Duration of the tick \[us\].
    pub took_us: f64,
    /// Other work between shortly before that instant and the tick's end, and when \[us from that instant\].
    pub meanwhile: Vec<String>,
}

/// Ticks at 1 kHz with all streams live.
#[derive(Debug, Serialize)]
pub(crate) struct SoakReport {
    /// Seconds.
    pub seconds: u64,
    /// True if images and clouds had random sizes.
    pub random_sizes: bool,
    /// Real-time priority of the tick thread at the start and at the end, 0 for ordinary.
    pub priority: [u8; 2],
    /// Ticks served.
    pub ticks: usize,
    /// Ticks that were due and not served.
    pub overruns: u64,
    /// Overruns because the tick before took too long.
    pub overruns_by_ticks: u64,
    /// Overruns because of a copy for the comparison. Before the others the thread woke late: the host did not run it
    /// in time.
    pub overruns_by_copies: u64,
    /// Copies for the comparison during which the next tick became due.
    pub late_copies: u64,
    /// Ticks that were not done before the next was due, or before which others were missed.
    pub late_ticks: u64,
    /// Duration of a tick.
    pub tick_us: Quantiles,
    /// Age of the oldest camera image when a tick began, whatever the lag.
    pub image_age_us: Quantiles,
    /// Processors that encoded images and clouds.
    pub processors: Processors,
    /// How late the tick thread woke.
    pub wake_up_us: Quantiles,
    /// Real-time priority of the bare thread, 0 for ordinary.
    pub probe_priority: u8,
    /// Instants that it missed.
    pub probe_overruns: u64,
    /// How late it woke.
    pub probe_us: Quantiles,
    /// Images that were pushed.
    pub images: usize,
    /// Clouds that were pushed.
    pub clouds: usize,
    /// Duration of a push of an image or a cloud.
    pub push_us: Quantiles,
    /// Images and clouds that never became rows, because the encoder lagged too far behind.
    pub refused: u64,
    /// Images and clouds that were never sent, because the machine was too busy to make them.
    pub skipped: u64,
    /// Planned comparisons.
    pub planned: u64,
    /// Ticks that were equal to the CPU backend's, byte for byte.
    pub compared: u64,
    /// Ticks that could not be compared, because messages were late.
    pub unsettled: u64,
    /// Ticks that could not be compared, because too many notes waited for the comparison.
    pub unsent: u64,
    /// Messages that were held up, because too many notes waited for the comparison.
    pub waits: u64,
    /// Free memory of the GPU; none on the CPU.
    pub free_device_bytes: Option<Course>,
    /// Resident memory of the process.
    pub resident_bytes: Option<Course>,
    /// The first late ticks.
    pub late: Vec<Late>,
    /// Why the soak has failed; nothing if it has not.
    pub problems: Vec<String>,
}

impl SoakReport {
    /// From what the threads noted.
    pub(super) fn new(options: &Options, parts: ThreadNotes) -> Self {
        let problems = problems(options, &parts);
        let late = parts.tick.overruns.iter().take(DESCRIBED);
        let late = late.map(|tick| describe(tick, &parts)).collect();
        let ThreadNotes { tick, priority, refused, skipped, waits, pushes, probe, checked, .. } =
            parts;
        let processors = parts.processors;
        let memory = parts.memory.0;
        let course = |[start, worst, end]: [usize; 3]| Course { start, worst, end };
        let is_image = |span: &&Span| matches!(span.what, What::Image { .. });
        let images = pushes.iter().filter(is_image).count();
        let push_ns = pushes.iter().map(|span| short(span.to - span.from));
        SoakReport {
            seconds: options.soak_s,
            random_sizes: options.random_sizes,
            priority,
            ticks: tick.took.len(),
            overruns: tick.missed,
            overruns_by_ticks: tick.missed_awake,
            overruns_by_copies: tick.missed_copying,
            late_copies: tick.late_copies,
            late_ticks: tick.overrun_count,
            tick_us: Quantiles::new(tick.took),
            image_age_us: Quantiles::new(tick.image_age),
            processors,
            wake_up_us: Quantiles::new(tick.late),
            probe_priority: probe.priority,
            probe_overruns: probe.missed,
            probe_us: Quantiles::new(probe.late),
            images,
            clouds: pushes.len() - images,
            push_us: Quantiles::new(push_ns.collect()),
            refused,
            skipped,
            planned: planned(options),
            compared: checked.equal,
            unsettled: checked.unsettled,
            unsent: tick.unsent,
            waits,
            free_device_bytes: memory.device.map(course),
            resident_bytes: memory.resident.map(course),
            late,
            problems,
        }
    }
}

/// Comparisons with the CPU that a soak is to make.
fn planned(options: &Options) -> u64 {
    options.soak_s * 1000 / EVERY as u64
}

fn problems(options: &Options, parts: &ThreadNotes) -> Vec<String> {
    let mut problems = memory_problems(parts);
    match &parts.checked.mismatch {
        Some(mismatch) => problems.push(mismatch.clone()),
        None => problems.extend(comparison_problem(options, parts)),
    }
    let missed = parts.tick.missed;
    let awake = parts.tick.missed_awake;
    if awake > 0 {
        problems.push(format!("overruns: expected none after a long tick, found {awake}"));
    } else if options.no_overruns && missed > 0 {
        problems.push(format!("overruns: expected none, found {missed}"));
    }
    let refused = parts.refused;
    if refused > 0 {
        problems.push(format!(
            "refused pushes: expected none, found {refused} images and clouds that the encoder \
             could not keep up with"
        ));
    }
    problems
}

/// A soak that compares little has not shown that the bits are right. Comparisons that late input
/// prevented are excused, unless the input waited for the checker itself; but some must be made.
fn comparison_problem(options: &Options, parts: &ThreadNotes) -> Option<String> {
    let planned = planned(options);
    let equal = parts.checked.equal;
    let waits = parts.waits;
    let excused = if waits == 0 { parts.checked.unsettled } else { 0 };
    let enough = equal + excused >= planned * 9 / 10;
    (planned > 0 && (equal == 0 || !enough)).then(|| {
        format!(
            "comparisons: expected at least 90 % of {planned}, and one at least, found {equal} \
             ({} more had late input, {} were not sent, messages waited {waits} times)",
            parts.checked.unsettled, parts.tick.unsent
        )
    })
}

fn memory_problems(parts: &ThreadNotes) -> Vec<String> {
    let mut problems = Vec::new();
    let memory = &parts.memory.0;
    if let Some([start, least, end]) = memory.device
        && least < start
    {
        problems.push(format!(
            "free device memory: expected {start} bytes as at the start, found {least} at the \
             least and {end} at the end"
        ));
    }
    if let Some([start, _, end]) = memory.resident
        && end > start + RESIDENT_SLACK
    {
        problems.push(format!(
            "resident memory: expected at most {RESIDENT_SLACK} bytes more than the {start} at the \
             start, found {end} at the end"
        ));
    }
    problems
}

fn describe(tick: &Overrun, parts: &ThreadNotes) -> Late {
    let us = |ns: u64| ns as f64 / 1e3;
    let spans = [&parts.pushes, &parts.checked.spans, &parts.memory.1, &parts.probe.stalls];
    let during = |span: &&Span| span.from < tick.ended && span.to + BEFORE > tick.due;
    let relative = |ns: u64| (ns as f64 - tick.due as f64) / 1e3;
    let meanwhile = spans.into_iter().flatten().filter(during).map(|span| {
        format!("{} ({:.0} to {:.0})", span.what, relative(span.from), relative(span.to))
    });
    Late {
        at_s: (tick.tick as u64 * PERIOD_NS) as f64 / 1e9,
        tick: tick.tick,
        missed: tick.missed,
        late_us: us(tick.began - tick.due),
        slept: tick.after == After::Sleep,
        copied: tick.after == After::Copy,
        took_us: us(tick.ended - tick.began),
        meanwhile: meanwhile.collect(),
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Image { camera, bytes } => {
                write!(f, "push of an image of {bytes} bytes, camera {camera}")
            }
            What::Cloud { bytes } => write!(f, "push of a cloud of {bytes} bytes"),
            What::Check => write!(f, "comparison on the CPU"),
            What::Look => write!(f, "look at the memory"),
            What::Stall { missed: 0 } => write!(f, "the bare thread woke late"),
            What::Stall { missed } => write!(f, "the bare thread missed {missed}"),
        }
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p50 {:.1}, p99 {:.1}, max {:.1} us", self.p50, self.p99, self.max)
    }
}

/// A real-time priority in words.
fn at(priority: u8) -> String {
    if priority == 0 { "ordinary priority".into() } else { format!("SCHED_FIFO {priority}") }
}

impl fmt::Display for SoakReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = if self.random_sizes { "random sizes" } else { "usual sizes" };
        let [first, last] = self.priority;
        let lowered = if last < first { ", lowered on overload" } else { "" };
        writeln!(f, "ticks at 1 kHz for {} s, {sizes}, {}{lowered}", self.seconds, at(first))?;
        writeln!(
            f,
            "  {} ticks, {} overruns: {} after a tick that took too long, {} after a copy for the \
             comparison, {} woke late: the host did not run the thread in time",
            self.ticks,
            self.overruns,
            self.overruns_by_ticks,
            self.overruns_by_copies,
            self.overruns - self.overruns_by_ticks - self.overruns_by_copies
        )?;
        let late = self.late_ticks;
        let missed = self.probe_overruns;
        let probe = at(self.probe_priority);
        writeln!(f, "  {missed} missed by a bare thread ({probe}); {late} ticks late, see below")?;
        if self.probe_priority == 0 {
            writeln!(f, "  without real-time priority overruns may be due to any other process")?;
        }
        writeln!(f, "  tick             {}", self.tick_us)?;
        writeln!(f, "  wake-up late     {}", self.wake_up_us)?;
        writeln!(f, "  bare thread late {}", self.probe_us)?;
        let images = self.images;
        let clouds = self.clouds;
        writeln!(f, "  push             {}; {images} images, {clouds} clouds", self.push_us)?;
        writeln!(f, "  image age        {}", self.image_age_us)?;
        writeln!(f, "  GPU              {}", self.processors.gpu)?;
        self.processors.streams.iter().try_for_each(|encoded| writeln!(f, "    {encoded}"))?;
        if self.refused > 0 {
            let refused = self.refused;
            writeln!(f, "  {refused} images and clouds lost: the encoder could not keep up")?;
        }
        if self.skipped > 0 {
            let skipped = self.skipped;
            writeln!(f, "  {skipped} images and clouds not sent: the machine was too busy")?;
        }
        let SoakReport { planned, compared, unsettled, unsent, waits, late_copies, .. } = self;
        writeln!(
            f,
            "  {compared} of {planned} ticks equal to the CPU's; {unsettled} not compared, input late"
        )?;
        if unsent + waits + late_copies > 0 {
            writeln!(
                f,
                "  comparison behind: {unsent} ticks not sent, {waits} messages held up; \
                 {late_copies} copies took until the next tick was due"
            )?;
        }
        let mb = |bytes: usize| bytes as f64 / 1e6;
        for (name, course) in [
            ("device memory free", self.free_device_bytes),
            ("resident memory   ", self.resident_bytes),
        ] {
            if let Some(Course { start, worst, end }) = course {
                let start = mb(start);
                let worst = mb(worst);
                let end = mb(end);
                writeln!(f, "  {name} {start:.1} MB, at worst {worst:.1}, at the end {end:.1}")?;
            }
        }
        self.late.iter().try_for_each(|late| writeln!(f, "  {late}"))?;
        if self.late_ticks > self.late.len() as u64 {
            writeln!(f, "  and {} more", self.late_ticks - self.late.len() as u64)?;
        }
        Ok(())
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Late { at_s, missed, late_us, took_us, .. } = self;
        let kind = match (self.slept, self.copied) {
            (true, _) => "woke",
            (false, true) => "after a copy, began",
            (false, false) => "without sleep, began",
        };
        write!(f, "{at_s:9.3} s: {kind} {late_us:.0} us late, took {took_us:.0} us")?;
        if *missed > 0 {
            write!(f, ", {missed} missed")?;
        }
        if !self.meanwhile.is_empty() {
            write!(f, "; meanwhile [us]: {}", self.meanwhile.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
