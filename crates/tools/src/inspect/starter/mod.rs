//! A starting configuration for a bag, annotated with what was found.
//!
//! Each topic becomes a stream, or is named at the end with the reason why not. Every stream is validated as a
//! configuration of its own before it is written, so that the file is valid as a whole.

mod clouds;
mod images;
mod streams;
mod timing;

use std::fmt::Write;

use super::Inspection;
use robocache_core::config::{self, ConfigError};
use robocache_core::schema::Definitions;
use robocache_core::spec::{Config, InputSpec};
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};
use timing::milliseconds;

/// Fewest messages of a topic that becomes a stream.
const FEWEST: u64 = 10;
/// A stream that needs a longer lag has one of its own, so that it does not delay the others \[ns\].
const LONGEST_LAG_NS: i64 = 500 * NANOS_PER_MS;
/// Frames that robots are known by.
const BASE_FRAMES: [&str; 5] = ["base_link", "base_footprint", "base", "body", "chassis"];

/// A configuration for a bag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    /// The file's text.
    pub text: String,
    /// The topics that became streams.
    pub streams: Vec<String>,
    /// The topics that did not, and why.
    pub left_out: Vec<(String, String)>,
}

/// A stream as it is written.
struct StarterStream {
    topic: String,
    name: String,
    /// Lines with their indentation inside of the stream.
    lines: Vec<String>,
    /// The lag that would do \[ns\].
    lag_ns: i64,
    rate_hz: Option<f64>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Image,
    Cloud,
    Vector,
}

impl StarterStream {
    /// Rows that must be kept, if the default is too few: for a lag \[ns\] and ticks of a rate \[Hz\].
    fn ring_rows(&self, common_ns: i64, ticks_hz: f64) -> Option<u64> {
        let usual = if self.kind == Kind::Vector { 1024 } else { 16 };
        let reach_s = self.lag_ns.max(common_ns) as f64 / NANOS_PER_S as f64 + 1.0 / ticks_hz;
        let needed = (reach_s * self.rate_hz.unwrap_or(0.0)).ceil() as u64 + 4;
        (needed > usual).then_some(needed)
    }
}

impl Starter {
    /// Makes the configuration of an inspected bag. `definitions` are those of the bag, for streams with
    /// `select`.
    ///
    /// # Errors
    /// Why, if no topic can become a stream.
    pub fn new(found: &Inspection, definitions: &dyn Definitions) -> Result<Starter, String> {
        let base = base_frame(found);
        let mut streams = Vec::new();
        let mut left_out = Vec::new();
        for topic in &found.topics {
            let made = streams::stream(found, &base, topic).and_then(|mut stream| {
                stream.name = new_name(&topic.name, &streams);
                let alone = [stream];
                validate(&write(found, &base, &alone, &[]), definitions)?;
                let [stream] = alone;
                Ok(stream)
            });
            match made {
                Ok(stream) => streams.push(stream),
                Err(why) => left_out.push((topic.name.clone(), why)),
            }
        }
        if streams.is_empty() {
            let why = |(topic, why): &(String, String)| format!("{topic}: {why}");
            let all: Vec<String> = left_out.iter().map(why).collect();
            return Err(format!("no topic can become a stream\n{}", all.join("\n")));
        }
        let text = write(found, &base, &streams, &left_out);
        validate(&text, definitions)?;
        let streams = streams.into_iter().map(|stream| stream.topic).collect();
        Ok(Starter { text, streams, left_out })
    }
}

impl Starter {
    /// The input of a topic, as its stream in a starting configuration has it, but without an offset of its stamps: who asks
    /// measures that.
    ///
    /// # Errors
    /// Why the topic is left out.
    pub fn input(
        found: &Inspection,
        topic: &str,
        definitions: &dyn Definitions,
    ) -> Result<InputSpec, String> {
        let base = base_frame(found);
        let report = found.topic(topic).ok_or("the bag has no such topic")?;
        let mut stream = streams::stream(found, &base, report)?;
        stream.name = new_name(topic, &[]);
        let config = validate(&write(found, &base, &[stream], &[]), definitions)?;
        let mut input = config.inputs.into_iter().next().ok_or("it has no input")?;
        input.stamp_offset_ns = 0;
        Ok(input)
    }
}

/// Checks a configuration; the error says what is wrong first.
fn validate(text: &str, definitions: &dyn Definitions) -> Result<Config, String> {
    match config::parse_with(text, "starting configuration", definitions) {
        Ok(config) => Ok(config),
        Err(ConfigError::Invalid(problems)) => {
            let problem = problems.first().map(|problem| {
                format!("{}: expected {}, found {}", problem.key, problem.expected, problem.found)
            });
            Err(problem.unwrap_or_default())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The frame that grids are in: one that robots usually have, or what an odometry moves, or the root.
fn base_frame(found: &Inspection) -> String {
    let usual =
        BASE_FRAMES.iter().find(|name| found.has_frame(name)).map(|name| (*name).to_owned());
    let moved = || {
        let moving = found.frames.links.iter().find(|link| !link.is_fixed)?;
        Some(moving.child.clone())
    };
    let root = || found.frames.roots.first().cloned();
    usual.or_else(moved).or_else(root).unwrap_or_else(|| BASE_FRAMES[0].to_owned())
}

/// A name for a stream: of the topic, as `a-z`, `0-9` and `_`, and of no other stream.
fn new_name(topic: &str, others: &[StarterStream]) -> String {
    let words: Vec<String> = topic
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut name = words.join("_");
    for end in ["_image_raw", "_image_compressed", "_raw"] {
        name.truncate(name.strip_suffix(end).map_or(name.len(), str::len));
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name = format!("stream_{name}");
    }
    name.truncate(48);
    let is_new = |name: &String| others.iter().all(|other| other.name != *name);
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_new).unwrap_or(name)
}

/// Rate of the ticks: that of the fastest camera, as policies mostly see one image per step; without a camera
/// that of the fastest stream, at most 100 Hz.
fn rate_hz(streams: &[StarterStream]) -> f64 {
    let fastest = |kind: Kind| {
        let rates = streams.iter().filter(|stream| stream.kind == kind).filter_map(|s| s.rate_hz);
        rates.fold(None, |most: Option<f64>, rate| Some(most.map_or(rate, |most| most.max(rate))))
    };
    let rate =
        fastest(Kind::Image).or_else(|| fastest(Kind::Vector)).or_else(|| fastest(Kind::Cloud));
    let rate = rate.unwrap_or(10.0).min(100.0);
    if rate >= 3.0 { rate.round() } else { (rate * 100.0).round().max(10.0) / 100.0 }
}

fn write(
    found: &Inspection,
    base: &str,
    streams: &[StarterStream],
    left_out: &[(String, String)],
) -> String {
    let lag = |stream: &StarterStream| Some(stream.lag_ns).filter(|lag| *lag <= LONGEST_LAG_NS);
    let common_ns = streams.iter().filter_map(lag).max().unwrap_or(0);
    let mut text = String::new();
    let mut line = |written: &str| {
        text.push_str(written);
        text.push('\n');
    };
    line(&comment(&format!("A starting configuration for {}", found.bag)));
    line(
        "# `robocache inspect --write-config` wrote it from what the bag has. Every option is explained in",
    );
    line(
        "# config/robocache.yaml. What policy and robot need, the bag does not tell: look at each stream.",
    );
    line("");
    line(
        "# Rate of the ticks [Hz]: that of the fastest camera. If there is none, that of the fastest stream of numbers.\n\
         # At most 100 Hz.",
    );
    line(&format!("rate_hz: {}", rate_hz(streams)));
    line(
        "# The longest of the lags that would do for the streams: delay plus distance between messages.",
    );
    line(&format!("lag_ms: {}", milliseconds(common_ns)));
    line(&format!("base_frame: {}", quoted(base)));
    if found.clock.is_some() {
        line("# The bag has /clock: delays are on that clock.");
    }
    if found.lacks_clock {
        line(
            "# The stamps are of a clock that the bag lacks, as a simulator's /clock. Delays are on that clock. Replay the\n\
             # bag with --time header; a node needs use_sim_time and /clock.",
        );
    }
    line("streams:");
    for stream in streams {
        line(&format!("  {}:", stream.name));
        stream.lines.iter().for_each(|of_stream| line(&format!("    {of_stream}")));
        if let Some(rows) = stream.ring_rows(common_ns, rate_hz(streams)) {
            line(&format!("    ring_rows: {rows} # for what arrives during lag and tick"));
        }
        if stream.lag_ns > LONGEST_LAG_NS {
            line("    # Its own lag, so that it does not delay the others.");
            line(&format!("    lag_ms: {}", milliseconds(stream.lag_ns)));
        }
    }
    if !left_out.is_empty() {
        line("");
        line("# Left out:");
        for (topic, why) in left_out {
            line(&comment(&format!("  {topic}: {why}")));
        }
    }
    text
}

/// A comment of one line, whatever the text has.
fn comment(text: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    format!("# {}", text.chars().map(printable).collect::<String>())
}

/// A text as YAML: as it is if it is a plain word, else in quotes.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let is_word = !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
        .contains(&text.to_ascii_lowercase().as_str());
    if starts && is_word && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(c);
            }
            c if c.is_control() => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
