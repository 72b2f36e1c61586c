//! Notes on a bag for a user, in words.

use super::{ClockEvent, ContentReport, Inspection, TopicReport};
use crate::report::counted;
use robocache_data::recording::NOT_ENDED;
use robocache_ops::time::{NANOS_PER_MS, Stamp};

/// A least delay below this is a clock that is ahead \[ns\].
const AHEAD_NS: i64 = -1_000_000;
/// A delay above this is no delay: the stamps are of another clock \[ns\].
pub(super) const OTHER_CLOCK_NS: i64 = 10_000_000_000;
/// If messages usually come so long before their stamps \[ns\], the sensor's clock is ahead.
const USUALLY_AHEAD_NS: i64 = 2_000_000;

/// The notes of a bag: of its clocks first, then of its topics.
pub(super) fn notes(found: &Inspection) -> Vec<String> {
    let mut notes = Vec::new();
    if found.messages == 0 {
        notes.push("the bag has no messages".to_owned());
    }
    if found.ended == Some(false) && found.whole {
        notes.push(NOT_ENDED.to_owned());
    }
    clocks(found, &mut notes);
    for topic in &found.topics {
        let mut of_topic = Vec::new();
        stamps(topic, &mut of_topic);
        delays(topic, found.is_simulated(), &mut of_topic);
        others(topic, &mut of_topic);
        notes.extend(of_topic.into_iter().map(|note| format!("{}: {note}", topic.name)));
    }
    frames(found, &mut notes);
    notes
}

fn ms(nanos: i64) -> String {
    let ms = nanos as f64 / 1e6;
    match ms.abs() {
        10_000.0.. => format!("{:.1} s", ms / 1e3),
        100.0.. => format!("{ms:.0} ms"),
        _ => format!("{ms:.2} ms"),
    }
}

fn clocks(found: &Inspection, notes: &mut Vec<String>) {
    let first = Stamp::from_nanos(found.first_ns.unwrap_or(0));
    let at = |at_ns: i64| {
        format!("{:.3} s after the start", Stamp::from_nanos(at_ns).since(first) as f64 / 1e9)
    };
    for event in &found.recorder.events {
        notes.push(match *event {
            ClockEvent::SetBack { at_ns, by_ns } => {
                format!("the recorder's clock was set back by {}, {}", ms(by_ns), at(at_ns))
            }
            ClockEvent::SetAhead { at_ns, by_ns } => {
                format!("the recorder's clock was set ahead by {}, {}", ms(by_ns), at(at_ns))
            }
            ClockEvent::Silence { at_ns, length_ns } => {
                format!("no topic has a message for {}, {}", ms(length_ns), at(at_ns))
            }
        });
    }
    if found.recorder.more_events > 0 {
        let more = found.recorder.more_events;
        let more = counted(more, "more silence or jump", "more silences and jumps");
        notes.push(format!("{more} like these"));
    }
    if found.lacks_clock {
        notes.push(
            "the stamps are of another clock than that of the recorder, as a simulator's are, and the bag has no \
             /clock: replay it with `--time header`"
                .into(),
        );
    }
    if let Some(clock) = &found.clock {
        let resets = clock.readings.backwards;
        if resets > 0 {
            let back = ms(clock.readings.furthest_back_ns);
            notes.push(format!(
                "/clock goes back {}, by up to {back}: each is an epoch",
                counted(resets, "time", "times")
            ));
        }
        if let Some(speed) = clock.speed.filter(|speed| (speed - 1.0).abs() > 0.02) {
            notes.push(format!("the simulator ran at {speed:.2} times real time"));
        }
    }
}

fn stamps(topic: &TopicReport, notes: &mut Vec<String>) {
    let headers = topic.stamps.headers;
    let share = |count: u64| format!("{count} of {headers}");
    if topic.stamps.zero > 0 {
        let zero = share(topic.stamps.zero);
        notes.push(format!("{zero} stamps are zero; `timeline: receive` takes such messages"));
    }
    if topic.stamps.bad > 0 {
        notes.push(format!(
            "{} stamps have a second or more of nanoseconds, or negative seconds",
            share(topic.stamps.bad)
        ));
    }
    let Some(stamped) = &topic.stamped else { return };
    if stamped.backwards > 0 {
        let back = ms(stamped.furthest_back_ns);
        notes.push(format!("{} stamps go back, by up to {back}", share(stamped.backwards)));
    }
    if stamped.repeated > 0 {
        let repeated = share(stamped.repeated);
        notes.push(format!(
            "{repeated} stamps repeat the one before; the later message replaces it"
        ));
    }
}

/// The `stamp_offset_ms` of a sensor whose messages usually come with this delay \[ns\]; 0 if it needs none. In whole
/// milliseconds, rounded down, so that few stamps are ahead.
pub(super) fn offset_ns(usual_delay_ns: i64, simulated: bool) -> i64 {
    match !simulated && usual_delay_ns < -USUALLY_AHEAD_NS {
        true => usual_delay_ns.div_euclid(NANOS_PER_MS) * NANOS_PER_MS,
        false => 0,
    }
}

fn delays(topic: &TopicReport, simulated: bool, notes: &mut Vec<String>) {
    let Some(delay) = topic.delay else { return };
    if delay.p50_ns.saturating_abs() > OTHER_CLOCK_NS {
        let usual = ms(delay.p50_ns);
        notes.push(format!(
            "messages arrive {usual} after their stamps: these are of another clock, so take \
             `timeline: receive`"
        ));
    } else if delay.p1_ns < AHEAD_NS {
        let ahead = ms(-delay.min_ns);
        let offset = match offset_ns(delay.p50_ns, simulated) {
            0 => String::new(),
            offset_ns => {
                format!("; `stamp_offset_ms: {}` makes up for it", offset_ns / NANOS_PER_MS)
            }
        };
        notes.push(format!(
            "stamps are up to {ahead} ahead of the arrival: the sensor's clock, or that of the recorder, is off{offset}"
        ));
    }
    if let Some(drift) = topic.drift_ppm {
        notes.push(format!(
            "the delay drifts by {drift:.0} ppm: the two clocks run at different rates"
        ));
    }
}

fn others(topic: &TopicReport, notes: &mut Vec<String>) {
    let intervals = topic.stamped.as_ref().unwrap_or(&topic.received);
    if let Some(gap) = intervals.longest.first() {
        let gaps = counted(intervals.gaps, "gap", "gaps");
        let longest = ms(gap.length_ns);
        let of = topic.measure();
        notes.push(format!(
            "{gaps} of more than 2.5 usual intervals of {of}, the longest {longest}"
        ));
    }
    if topic.unreadable > 0 {
        let why = topic.first_problem.as_deref().unwrap_or_default();
        let messages = counted(topic.unreadable, "message is", "messages are");
        notes.push(format!("{messages} malformed, the first: {why}"));
    }
    if topic.frame_ids.len() > 1 {
        let names: Vec<_> =
            topic.frame_ids.keys().take(8).map(|name| format!("'{name}'")).collect();
        notes.push(format!("several frames: {}", names.join(", ")));
    }
    match &topic.content {
        Some(ContentReport::Images(images)) if images.forms.len() > 1 => {
            let forms = images.forms.len() as u64 + images.others.min(1);
            notes.push(format!("images of {forms} different forms"));
        }
        Some(ContentReport::Joints(joints)) if joints.sets.len() > 1 => {
            notes.push(format!("messages with {} different lists of joints", joints.sets.len()));
        }
        Some(ContentReport::Clouds(clouds)) if clouds.other_fields > 0 => {
            let clouds = counted(clouds.other_fields, "cloud has", "clouds have");
            notes.push(format!("{clouds} other fields than the first"));
        }
        _ => {}
    }
}

fn frames(found: &Inspection, notes: &mut Vec<String>) {
    for link in &found.frames.links {
        if link.parents.len() > 1 {
            let parents = link.parents.join(", ");
            notes.push(format!("the frame {} has several parents: {parents}", link.child));
        }
    }
    if found.frames.roots.len() > 1 {
        let roots = found.frames.roots.join(", ");
        notes.push(format!("the frames form several trees, with the roots {roots}"));
    }
    let latched =
        found.topics.iter().find(|topic| topic.name == "/tf_static" && topic.messages > 0);
    if let Some(topic) = latched
        && !topic.offers.is_empty()
        && !topic.offers.iter().any(super::Offer::is_latched)
    {
        notes.push(
            "/tf_static was not offered as transient_local: a node that starts late misses it"
                .into(),
        );
    }
}
