//! Log lines on the console, in the format of ROS's own nodes.
//!
//! `RCUTILS_CONSOLE_OUTPUT_FORMAT` sets the format and `RCUTILS_COLORIZED_OUTPUT` the colours, as
//! for every ROS node. Source: "Logging and logger configuration" of the ROS 2 documentation.

use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use time::{OffsetDateTime, UtcOffset};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::NODE_NAME;

/// The format without the variable.
const FORMAT: &str = "[{severity}] [{time}] [{name}]: {message}";
/// The variable with the format.
const FORMAT_VARIABLE: &str = "RCUTILS_CONSOLE_OUTPUT_FORMAT";
/// The variable that turns colours on (1) or off (0).
const COLOR_VARIABLE: &str = "RCUTILS_COLORIZED_OUTPUT";

/// The name of the node's logger, when it is known.
static LOGGER: OnceLock<String> = OnceLock::new();

/// Names the logger of all later lines. Only the first call counts.
pub fn name_logger(name: String) {
    // A second node in the process logs under the name of the first.
    let _ = LOGGER.set(name);
}

/// Formats log lines.
#[derive(Debug)]
pub struct Console {
    parts: Vec<Part>,
    colors: bool,
    offset: UtcOffset,
}

/// A part of the format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Severity,
    Name,
    Message,
    Function,
    File,
    Line,
    /// Seconds since 1970 with nine decimals.
    Time,
    /// Nanoseconds since 1970.
    Nanoseconds,
    /// Local date and time with milliseconds.
    DateTime,
}

impl Console {
    /// Makes the format that the environment asks for. `terminal` says whether a terminal shows the
    /// lines, so that they have colours. The process may have no other thread, because the offset
    /// of the local time cannot be read then; without it, dates are in UTC.
    pub fn from_env(terminal: bool) -> Self {
        let format = std::env::var(FORMAT_VARIABLE).ok().filter(|format| !format.is_empty());
        let colors = match std::env::var(COLOR_VARIABLE).as_deref() {
            Ok("1") => true,
            Ok("0") => false,
            _ => terminal,
        };
        let offset = UtcOffset::current_local_offset().unwrap_or(UtcOffset::UTC);
        Console { parts: parse(format.as_deref().unwrap_or(FORMAT)), colors, offset }
    }

    fn line(
        &self,
        out: &mut impl fmt::Write,
        (meta, message): (&Metadata<'_>, &str),
        now: SystemTime,
    ) -> fmt::Result {
        let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.write_str(text)?,
                Part::Severity => out.write_str(severity(*meta.level()).0)?,
                Part::Name => out.write_str(LOGGER.get().map_or(NODE_NAME, String::as_str))?,
                Part::Message => out.write_str(message)?,
                Part::Function => out.write_str(meta.target())?,
                Part::File => out.write_str(meta.file().unwrap_or_default())?,
                Part::Line => write!(out, "{}", meta.line().unwrap_or_default())?,
                Part::Time => {
                    write!(out, "{}.{:09}", since_1970.as_secs(), since_1970.subsec_nanos())?;
                }
                Part::Nanoseconds => write!(out, "{}", since_1970.as_nanos())?,
                Part::DateTime => {
                    let at = OffsetDateTime::from(now).to_offset(self.offset);
                    let (date, time) = (at.date(), at.time());
                    let (h, m, s, ms) = time.as_hms_milli();
                    write!(out, "{date} {h:02}:{m:02}:{s:02}.{ms:03}")?;
                }
            }
        }
        Ok(())
    }
}

/// Splits a format into its parts. A token that is not known stays as it is.
fn parse(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let text = |parts: &mut Vec<Part>, more: &str| match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(more),
        _ => parts.push(Part::Text(more.to_owned())),
    };
    let mut rest = format;
    while let Some(open) = rest.find(['{', '\\']) {
        text(&mut parts, &rest[..open]);
        rest = &rest[open..];
        let (part, len) = match (token(rest), escape(rest)) {
            (Some((part, len)), _) => (part, len),
            (None, Some(escaped)) => (Part::Text(escaped.to_owned()), 2),
            (None, None) => (Part::Text(rest[..1].to_owned()), 1),
        };
        match part {
            Part::Text(more) => text(&mut parts, &more),
            part => parts.push(part),
        }
        rest = &rest[len..];
    }
    text(&mut parts, rest);
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    parts
}

/// The token at the start of `format`, and its length.
fn token(format: &str) -> Option<(Part, usize)> {
    let (name, _) = format.strip_prefix('{')?.split_once('}')?;
    let part = match name {
        "severity" => Part::Severity,
        "name" => Part::Name,
        "message" => Part::Message,
        "function_name" => Part::Function,
        "file_name" => Part::File,
        "line_number" => Part::Line,
        "time" => Part::Time,
        "time_as_nanoseconds" => Part::Nanoseconds,
        "date_time_with_ms" => Part::DateTime,
        _ => return None,
    };
    Some((part, name.len() + 2))
}

/// The character that an escape sequence at the start of `format` means.
fn escape(format: &str) -> Option<&'static str> {
    Some(match format.get(..2)? {
        "\\n" => "\n",
        "\\t" => "\t",
        "\\r" => "\r",
        "\\\\" => "\\",
        "\\\"" => "\"",
        "\\'" => "'",
        _ => return None,
    })
}

/// The name of a level and its colour, an escape sequence of terminals.
fn severity(level: Level) -> (&'static str, &'static str) {
    match level {
        Level::ERROR => ("ERROR", "\x1b[31m"),
        Level::WARN => ("WARN", "\x1b[33m"),
        Level::INFO => ("INFO", ""),
        Level::DEBUG | Level::TRACE => ("DEBUG", "\x1b[32m"),
    }
}

impl<S, N> FormatEvent<S, N> for Console
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let color = if self.colors { severity(*meta.level()).1 } else { "" };
        writer.write_str(color)?;
        self.line(&mut writer, (meta, &text.message), SystemTime::now())?;
        writeln!(writer, "{}", if color.is_empty() { "" } else { "\x1b[0m" })
    }
}

/// An event's message, with its other fields after it.
#[derive(Default)]
pub struct Text {
    /// The text.
    pub message: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if name.starts_with("log.") => Ok(()),
            name => write!(self.message, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::{Context, SubscriberExt};

    /// Formats events into lines.
    struct Lines(Console, Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let (mut text, mut line) = (Text::default(), String::new());
            event.record(&mut text);
            let now = UNIX_EPOCH + std::time::Duration::from_nanos(1_795_000_000_012_345_678);
            self.0.line(&mut line, (event.metadata(), &text.message), now).unwrap();
            self.1.lock().unwrap().push(line);
        }
    }

    fn line_of(format: &str) -> String {
        let console = Console { parts: parse(format), colors: false, offset: UtcOffset::UTC };
        let lines = Arc::default();
        let subscriber = tracing_subscriber::registry().with(Lines(console, Arc::clone(&lines)));
        tracing::subscriber::with_default(subscriber, || tracing::warn!(stream = 3, "no message"));
        lines.lock().unwrap().remove(0)
    }

    #[test]
    fn lines_look_like_those_of_other_nodes() {
        assert_eq!(
            line_of(FORMAT),
            "[WARN] [1795000000.012345678] [fusion_node]: no message stream=3"
        );
    }

    #[test]
    fn every_token_of_the_variable_is_known_and_others_stay() {
        let line = line_of("{time_as_nanoseconds}|{date_time_with_ms}|{name}|{unknown}{|\\t\\q");
        assert_eq!(
            line,
            "1795000000012345678|2026-11-18 11:06:40.012|fusion_node|{unknown}{|\t\\q"
        );
        let place = line_of("{file_name}:{line_number} {function_name}()");
        assert!(place.contains("console.rs:") && place.ends_with("::console::tests()"), "{place}");
    }
}
