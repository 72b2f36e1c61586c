//! Pages of recordings of the node: what it received, and the outcomes.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::command_parts;
use super::commands::{self, GroupTrack};
use super::source::ViewError;
use crate::inspect::{Gap, Intervals, Series};
use crate::report::{
    Histogram, Page, Section, Table, Timeline, Tone, counted, number, significant,
};
use robocache_core::spec::{Config, InputId};
use robocache_data::bag::Bag;
use robocache_data::recording::{EVENT_TYPE, Manifest, RecordingEvent};
use robocache_data::replay::{BagDefinitions, ReplayError};
use robocache_ops::time::Stamp;
use robocache_runtime::{Event, MessageOutcome, TickFate, TickRecord};

/// Of each input, the times of at most this many messages are kept: half an hour at 1 kHz.
const MAX_TIMES: usize = 2_000_000;
/// Most messages whose outcome is awaited.
const MAX_OPEN: usize = 1 << 17;
/// The kinds of spans of the timeline.
const KINDS: [(&str, Tone); 4] = [
    ("received, or tick with a tensor", Tone::Good),
    ("tick without a tensor", Tone::Notice),
    ("dropped", Tone::Series(3)),
    ("missing in the recording, or tick not served", Tone::Bad),
];

/// Measure of rates and gaps: `robocache inspect` has another one.
const MEASURE: &str = "A gap is longer than two and a half times the usual interval of the arrivals, as this machine saw \
    them. robocache inspect counts the gaps of header.stamp, which those of the sensor are.";

/// The manifest of a recording; `None` if it is something else.
pub(super) fn manifest(path: &Path) -> Option<Manifest> {
    Manifest::read(path).ok()
}

/// Makes the page of a recording.
///
/// # Errors
/// It cannot be read.
pub(super) fn page(path: &Path, manifest: &Manifest) -> Result<Page, ViewError> {
    let bag = Bag::open(path)?;
    let definitions = BagDefinitions::new(&bag)?;
    let config = manifest.config(&definitions).map_err(ReplayError::from)?;
    let mut seen = RecordingFacts::new(&config, manifest);
    seen.read(&bag)?;
    let mut page = seen.page(path, manifest);
    for group in drawn(&bag, &config, manifest)? {
        page.add(command_parts::commands(&group));
    }
    Ok(page)
}

/// The commands of a recording, and its name.
///
/// # Errors
/// It cannot be read.
pub(super) fn commands_of(
    path: &Path,
    manifest: &Manifest,
) -> Result<(String, Vec<GroupTrack>), ViewError> {
    let bag = Bag::open(path)?;
    let definitions = BagDefinitions::new(&bag)?;
    let config = manifest.config(&definitions).map_err(ReplayError::from)?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok((name.to_string_lossy().into_owned(), drawn(&bag, &config, manifest)?))
}

/// The commands of a recording. An older one has no facts of them, and no run.
fn drawn(bag: &Bag, config: &Config, manifest: &Manifest) -> Result<Vec<GroupTrack>, ViewError> {
    match config.commands.as_ref().filter(|_| manifest.run != 0) {
        Some(spec) => commands::of_recording(bag, spec, manifest.run),
        None => Ok(Vec::new()),
    }
}

/// The outcomes of the messages of an input.
#[derive(Default)]
struct InputSeen {
    name: String,
    topic: String,
    received: u64,
    taken: u64,
    dropped: BTreeMap<String, u64>,
    missing: u64,
    series: Series,
    /// When they were received, and when they were dropped, on the recorder's clock.
    times: Vec<Stamp>,
    drops: Vec<Stamp>,
    gaps: Vec<Stamp>,
    /// From the stamp of the newest row to the arrival, and from there to the rows \[ms\].
    delays: Vec<f64>,
    encoding: Vec<f64>,
}

/// Facts that a recording tells.
struct RecordingFacts {
    inputs: Vec<InputSeen>,
    streams: Vec<String>,
    /// Arrivals of messages whose outcome is still unknown.
    open: HashMap<u64, Stamp>,
    published: u64,
    unsent: u64,
    overruns: u64,
    held_back: BTreeMap<String, u64>,
    /// Ticks, with the kind of their span.
    ticks: Vec<(Stamp, usize)>,
    epochs: u64,
    lost_events: u64,
    ended: bool,
    problems: Vec<String>,
    span: Option<(Stamp, Stamp)>,
}

impl RecordingFacts {
    fn new(config: &Config, manifest: &Manifest) -> Self {
        let input = |(at, spec): (usize, &robocache_core::spec::InputSpec)| InputSeen {
            name: spec.name.clone(),
            topic: manifest.topics.get(at).unwrap_or(&spec.topic).clone(),
            ..InputSeen::default()
        };
        RecordingFacts {
            inputs: config.inputs.iter().enumerate().map(input).collect(),
            streams: config.streams.iter().map(|stream| stream.name.clone()).collect(),
            open: HashMap::new(),
            published: 0,
            unsent: 0,
            overruns: 0,
            held_back: BTreeMap::new(),
            ticks: Vec::new(),
            epochs: 0,
            lost_events: 0,
            ended: false,
            problems: Vec::new(),
            span: None,
        }
    }

    fn read(&mut self, bag: &Bag) -> Result<(), ViewError> {
        let wanted: Vec<bool> =
            bag.topics.iter().map(|topic| topic.ros_type == EVENT_TYPE).collect();
        self.problems.extend(bag.problems.iter().map(ToString::to_string));
        self.span = bag.span();
        let mut messages = bag.messages(&wanted)?;
        let mut unreadable = 0;
        for recorded in messages.by_ref() {
            match RecordingEvent::read(&recorded.bytes) {
                Ok(event) => self.event(&event, recorded.received),
                Err(_) => unreadable += 1,
            }
        }
        let problems = std::mem::take(&mut messages.problems);
        self.problems.extend(problems.first.iter().map(ToString::to_string));
        if problems.more > 0 {
            self.problems.push(format!("and {} more like these", problems.more));
        }
        if unreadable > 0 {
            let events = counted(unreadable, "event", "events");
            self.problems.push(format!("{events} cannot be read"));
        }
        Ok(())
    }

    fn input(&mut self, input: InputId) -> Option<&mut InputSeen> {
        self.inputs.get_mut(input.index())
    }

    fn event(&mut self, event: &RecordingEvent, now: Stamp) {
        match event {
            RecordingEvent::Received { number, input, arrival, .. } => {
                if let Some(stamp) = arrival.stamp
                    && self.open.len() < MAX_OPEN
                {
                    self.open.insert(*number, stamp);
                }
                let Some(input) = self.input(*input) else { return };
                input.received += 1;
                input.series.take(now);
                keep(&mut input.times, now);
            }
            RecordingEvent::Node(Event::MessageOutcome { number, input, outcome, at }) => {
                self.outcome(*number, *input, *outcome, *at, now);
            }
            RecordingEvent::Node(Event::Tick(tick)) => self.tick(tick, now),
            RecordingEvent::Node(Event::Overruns { ticks, .. }) => {
                self.overruns = self.overruns.saturating_add(*ticks);
                keep(&mut self.ticks, (now, 3));
            }
            RecordingEvent::Node(Event::Epoch(_)) => self.epochs += 1,
            RecordingEvent::Gap(gap) => {
                let Some(input) = self.input(gap.input) else { return };
                input.missing = input.missing.saturating_add(gap.messages);
                keep(&mut input.gaps, now);
            }
            RecordingEvent::GapOfEvents { events, .. } => {
                self.lost_events = self.lost_events.saturating_add(*events);
            }
            RecordingEvent::End => self.ended = true,
            RecordingEvent::Start { .. }
            | RecordingEvent::Chunk(_)
            | RecordingEvent::Mark(_)
            | RecordingEvent::Node(Event::Command(_)) => {}
        }
    }

    fn outcome(
        &mut self,
        number: u64,
        input: InputId,
        outcome: MessageOutcome,
        at: Option<Stamp>,
        now: Stamp,
    ) {
        let arrival = match outcome {
            MessageOutcome::Waits => None,
            _ => self.open.remove(&number),
        };
        let Some(input) = self.input(input) else { return };
        match outcome {
            MessageOutcome::Waits => {}
            MessageOutcome::Dropped(reason) => {
                *input.dropped.entry(reason.name().to_owned()).or_default() += 1;
                keep(&mut input.drops, now);
            }
            MessageOutcome::Taken { stamp, .. } => {
                input.taken += 1;
                let ms = |to: Stamp, from: Stamp| to.since(from) as f64 / 1e6;
                let delay = arrival.zip(stamp).map(|(arrival, stamp)| ms(arrival, stamp));
                let encoding = arrival.zip(at).map(|(arrival, at)| ms(at, arrival));
                delay.into_iter().for_each(|ms| keep(&mut input.delays, ms));
                encoding.into_iter().for_each(|ms| keep(&mut input.encoding, ms));
            }
        }
    }

    fn tick(&mut self, tick: &TickRecord, now: Stamp) {
        let kind = match tick.fate {
            TickFate::Published { .. } => {
                self.published += 1;
                0
            }
            TickFate::HeldBack(stream) => {
                let name = self.streams.get(stream.index()).cloned().unwrap_or_default();
                *self.held_back.entry(name).or_default() += 1;
                1
            }
            TickFate::Unsent => {
                self.unsent += 1;
                1
            }
        };
        keep(&mut self.ticks, (now, kind));
    }

    fn page(&self, path: &Path, manifest: &Manifest) -> Page {
        let mut page = Page::new("robocache view");
        page.about(&path.display().to_string());
        let seconds = self.span.map_or(0.0, |(first, last)| last.since(first) as f64 / 1e9);
        let sum = |of: fn(&InputSeen) -> u64| self.inputs.iter().map(of).sum::<u64>();
        let missing = sum(|input| input.missing);
        page.tile(&format!("{} s", number(seconds, 1)), "recorded");
        page.tile(&sum(|input| input.received).to_string(), "messages received");
        page.tile(&sum(|input| input.dropped.values().sum()).to_string(), "messages dropped");
        page.tile(&self.published.to_string(), "ticks with a tensor");
        page.tile(&missing.to_string(), "messages missing in the recording");
        let mut lacks = self.problems.clone();
        if missing > 0 {
            let messages = counted(missing, "message is", "messages are");
            lacks.push(format!("{messages} missing, because the disk was too slow"));
        }
        if self.lost_events > 0 {
            let events = counted(self.lost_events, "event is", "events are");
            lacks.push(format!("{events} missing: what became of some messages is not known"));
        }
        if !self.ended {
            lacks.push("it has no end: the node was killed, or the disk was full".to_owned());
        }
        match lacks.is_empty() {
            true => page.passed("The recording is complete."),
            false => page.failed("The recording is not complete.", &lacks),
        };
        let sections =
            [self.received(), self.over_time(), self.tick_table(), self.delays(), how(manifest)];
        sections.into_iter().filter(|section| !section.is_empty()).for_each(|section| {
            page.add(section);
        });
        page
    }

    fn received(&self) -> Section {
        let mut section = Section::new("Messages");
        let head = [
            "input",
            "topic",
            "dropped",
            "received",
            "taken",
            "missing",
            "rate of arrivals",
            "gaps of arrivals",
            "longest",
        ];
        let mut table = Table::new(&head).texts(3);
        for input in &self.inputs {
            let Intervals { rate_hz, gaps, longest, .. } = input.series.finish();
            let none = || "\u{2013}".to_owned();
            let ms = |gap: &Gap| format!("{} ms", number(gap.length_ns as f64 / 1e6, 1));
            let drops = input.dropped.iter().map(|(reason, count)| format!("{count} {reason}"));
            table.row(&[
                input.name.clone(),
                input.topic.clone(),
                drops.collect::<Vec<_>>().join(", "),
                input.received.to_string(),
                input.taken.to_string(),
                input.missing.to_string(),
                rate_hz.map_or_else(none, |rate_hz| format!("{} Hz", significant(rate_hz, 4))),
                gaps.to_string(),
                longest.first().map_or_else(none, ms),
            ]);
        }
        section.table(&table);
        section.text(MEASURE);
        section
    }

    fn over_time(&self) -> Section {
        let mut section = Section::new("Timeline");
        let Some((first, last)) = self.span else { return section };
        let seconds = |stamp: &Stamp| stamp.since(first) as f64 / 1e9;
        let end = seconds(&last).max(1e-3);
        let title = "messages of each input, and ticks";
        let mut timeline = Timeline::new(title, "time [s]", (0.0, end), &KINDS);
        let at = |kind| move |stamp: &Stamp| (seconds(stamp), seconds(stamp), kind);
        for input in &self.inputs {
            let spans = input.times.iter().map(at(0)).chain(input.drops.iter().map(at(2)));
            timeline.row(&input.name, spans.chain(input.gaps.iter().map(at(3))));
        }
        let ticks = self.ticks.iter().map(|(stamp, kind)| (seconds(stamp), seconds(stamp), *kind));
        timeline.row("ticks", ticks);
        section.figure(&timeline, "When they were received, and when ticks were served");
        section
    }

    fn tick_table(&self) -> Section {
        let mut section = Section::new("Ticks");
        let mut table = Table::new(&["what became of them", "ticks"]).texts(1);
        table.row(&["a tensor", &self.published.to_string()]);
        for (stream, ticks) in &self.held_back {
            table.row(&[&format!("held back, because {stream} was not valid"), &ticks.to_string()]);
        }
        for (what, ticks) in [
            ("a tensor that a newer one replaced before it was sent", self.unsent),
            ("not served by the node (overruns)", self.overruns),
        ] {
            if ticks > 0 {
                table.row(&[what, &ticks.to_string()]);
            }
        }
        section.table(&table);
        if self.epochs > 1 {
            let times = counted(self.epochs - 1, "time", "times");
            section.text(&format!("The node's clock began again {times}."));
        }
        section
    }

    fn delays(&self) -> Section {
        let mut section = Section::new("Delays");
        for input in &self.inputs {
            let of = |what: &str, label: &str, values: &[f64]| {
                if values.is_empty() {
                    return None;
                }
                let mut sorted = values.to_vec();
                sorted.sort_by(f64::total_cmp);
                let title = format!("{what} of {}", input.name);
                let mut figure = Histogram::of(&title, label, "messages", &sorted);
                let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
                figure.height(160).mark("median", quantile(0.5)).mark("99 %", quantile(0.99));
                Some(((&figure).into(), title))
            };
            let figures = [
                of("delay", "from its stamp to its arrival [ms]", &input.delays),
                of("time to encode", "from its arrival to its rows [ms]", &input.encoding),
            ];
            let figures: Vec<_> = figures.into_iter().flatten().collect();
            if !figures.is_empty() {
                section.heading(&input.name, &input.topic);
                section.pair(figures);
            }
        }
        section
    }
}

/// How the node ran.
fn how(manifest: &Manifest) -> Section {
    let mut section = Section::new("The node");
    let yes = |is: bool| if is { "yes" } else { "no" };
    let mut table = Table::new(&["what", "value"]).texts(2);
    table.row(&["robocache", manifest.version.as_str()]);
    table.row(&["backend", manifest.backend.as_str()]);
    table.row(&["simulated time", yes(manifest.simulated)]);
    table.row(&["digests", yes(manifest.digest)]);
    for (name, value) in &manifest.parameters {
        table.row(&[name, value]);
    }
    section.table(&table);
    let title = format!("Configuration: {}", manifest.config_file);
    section.details(&title, &manifest.configuration);
    section
}

/// Keeps a value, unless there are too many.
fn keep<T>(values: &mut Vec<T>, value: T) {
    if values.len() < MAX_TIMES {
        values.push(value);
    }
}
