//! An inspection as a report: one page with a table, a timeline, and the delays and intervals of each topic.

use super::{BINS, ClockEvent, Distribution, Inspection, TopicReport, table};
use crate::report::{Figure, Histogram, Page, Section, Table, Timeline, Tone};
use robocache_ops::time::Stamp;

/// Bars of a histogram.
const BARS: usize = 60;
/// A part of the recording with less than this share of the usual messages is shown as thin.
const THIN: f64 = 0.5;
/// Kinds of spans of the timeline, by number.
const KINDS: [(&str, Tone); 3] =
    [("messages", Tone::Good), ("fewer than half of the usual", Tone::Notice), ("gap", Tone::Bad)];

/// Makes the page of some bags.
pub fn page(bags: &[Inspection]) -> Page {
    let mut page = Page::new("robocache inspect");
    let sum = |of: &dyn Fn(&Inspection) -> u64| bags.iter().map(of).sum::<u64>();
    let seconds: f64 = bags.iter().map(|bag| bag.length_ns() as f64 / 1e9).sum();
    page.tile(&bags.len().to_string(), if bags.len() == 1 { "bag" } else { "bags" });
    page.tile(&sum(&|bag| bag.messages).to_string(), "messages");
    page.tile(&format!("{seconds:.1} s"), "recorded");
    page.tile(&format!("{:.1} MB", sum(&|bag| bag.bytes) as f64 / 1e6), "of messages");
    let damaged: Vec<&str> =
        bags.iter().flat_map(|bag| &bag.problems).map(String::as_str).collect();
    match damaged.is_empty() {
        true => page.passed("Every file could be read to its end."),
        false => page.failed("Not everything could be read.", &damaged),
    };
    for bag in bags {
        let name = if bags.len() > 1 { format!("{}: ", bag.bag) } else { String::new() };
        if bags.len() == 1 {
            page.about(&bag.bag);
        }
        for section in sections(bag) {
            let title = format!("{name}{}", section.title());
            page.add(section.titled(&title));
        }
    }
    page
}

fn sections(bag: &Inspection) -> Vec<Section> {
    let mut notes = Section::new("Notes");
    notes.list(&bag.notes);
    let mut topics = Section::new("Topics");
    let mut rows = Table::new(&table::HEAD).texts(2);
    bag.topics.iter().for_each(|topic| {
        rows.row(&table::row(topic));
    });
    topics.table(&rows);
    topics.text(table::MEASURE);
    let mut times = Section::new("Timeline");
    times.figure(&timeline(bag), "When each topic had messages, by their arrival");
    let mut contents = Section::new("Contents");
    contents.list(&bag.topics.iter().filter_map(table::content).collect::<Vec<_>>());
    let mut frames = Section::new("Frames");
    frames.list(&bag.frame_lines());
    let mut delays = Section::new("Delays and intervals");
    for topic in &bag.topics {
        let figures = figures(topic);
        if !figures.is_empty() {
            delays.heading(&topic.name, &topic.ros_type);
            delays.pair(figures);
        }
    }
    let all = [notes, topics, times, delays, contents, frames];
    all.into_iter().filter(|section| !section.is_empty()).collect()
}

fn timeline(bag: &Inspection) -> Timeline {
    let first = Stamp::from_nanos(bag.first_ns.unwrap_or(0));
    let seconds = |nanos: i64| Stamp::from_nanos(nanos).since(first) as f64 / 1e9;
    let length = (bag.length_ns() as f64 / 1e9).max(1e-3);
    let mut timeline = Timeline::new("messages of each topic", "time [s]", (0.0, length), &KINDS);
    for topic in bag.topics.iter().filter(|topic| topic.messages > 0) {
        let mut counts: Vec<u32> =
            topic.timeline.iter().copied().filter(|count| *count > 0).collect();
        counts.sort_unstable();
        let usual = counts.get(counts.len() / 2).copied().unwrap_or(0);
        let part = length / BINS as f64;
        let filled = topic.timeline.iter().enumerate().filter(|(_, count)| **count > 0);
        let spans = filled.map(|(at, count)| {
            // Of slow topics, a part has one message or none.
            let thin = usual > 3 && f64::from(*count) < THIN * f64::from(usual);
            (at as f64 * part, (at + 1) as f64 * part, usize::from(thin))
        });
        let gap = |gap: &super::Gap| {
            (seconds(gap.start_ns), seconds(gap.start_ns.saturating_add(gap.length_ns)), 2)
        };
        let gaps = topic.received.longest.iter().map(gap);
        timeline.row(&topic.name, spans.chain(gaps));
    }
    let mut events = bag.recorder.events.iter().map(|event| match *event {
        ClockEvent::SetBack { at_ns, .. } | ClockEvent::SetAhead { at_ns, .. } => {
            (seconds(at_ns), seconds(at_ns), 2)
        }
        ClockEvent::Silence { at_ns, length_ns } => {
            (seconds(at_ns), seconds(at_ns.saturating_add(length_ns)), 2)
        }
    });
    if let Some(event) = events.next() {
        timeline.row("recorder", std::iter::once(event).chain(events));
    }
    timeline
}

/// The histograms of a topic.
fn figures(topic: &TopicReport) -> Vec<(Figure, String)> {
    let intervals =
        topic.stamped.as_ref().and_then(|stamped| stamped.intervals).or(topic.received.intervals);
    let of = |title: &str, counts: &[(i64, u64)], distribution: Option<Distribution>| {
        let told = distribution.filter(|told| told.count > 1)?;
        let title = format!("{title} of {}", topic.name);
        let bins = bins(counts, told);
        let mut figure = Histogram::of_bins(&title, "ms", "messages", &bins);
        figure
            .height(160)
            .mark("median", told.p50_ns as f64 / 1e6)
            .mark("99 %", told.p99_ns as f64 / 1e6);
        Some((Figure::from(&figure), title))
    };
    let both =
        [of("delay", &topic.delays, topic.delay), of("interval", &topic.intervals, intervals)];
    both.into_iter().flatten().collect()
}

/// Counts in bars of equal width \[ms\], from the least to 99.9 %; what is beyond is in the last one.
fn bins(counts: &[(i64, u64)], told: Distribution) -> Vec<(f64, f64, u64)> {
    let ms = |nanos: i64| nanos as f64 / 1e6;
    let low = ms(told.min_ns);
    let high = ms(told.p999_ns);
    let width = ((high - low) / BARS as f64).max(1e-6);
    let bar = |at: usize| (low + at as f64 * width, low + (at + 1) as f64 * width, 0);
    let mut bins: Vec<(f64, f64, u64)> = (0..BARS).map(bar).collect();
    for (nanos, count) in counts {
        let at = ((ms(*nanos) - low) / width).floor().clamp(0.0, (BARS - 1) as f64) as usize;
        bins[at].2 += count;
    }
    bins
}
