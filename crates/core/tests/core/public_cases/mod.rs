//! Messages that people reported in public, because another program read them wrongly. Each row of a table names its
//! report (`REPOSITORY#ISSUE`), and has the right answer.

mod cameras;
mod clouds;
mod joints;

use crate::common::{pipeline, values};
use robocache_core::cdr::Writer;
use robocache_core::pipeline::{Arrival, NotTaken, TickOutcome};
use robocache_core::rejected::DropReason;
use robocache_core::spec::SegmentId;
use robocache_ops::time::{Epoch, Stamp};

const MS: i64 = 1_000_000;
/// The instant of the tick, at which all messages arrive.
const NOW: Stamp = Stamp::from_nanos(1_700_000_000 * 1_000 * MS);

/// Messages to the stream `s`, and what a policy must get at [`NOW`].
struct Case {
    report: &'static str,
    /// The keys of the stream.
    keys: String,
    given: Vec<Given>,
    expected: Answer,
    /// How far a value may be from the expected one.
    within: f32,
}

/// A message for the input of this name.
type Given = (&'static str, Vec<u8>);

/// The reasons of dropped messages, and the value at [`NOW`]; `None` if it is invalid.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    drops: Vec<DropReason>,
    value: Option<Vec<f32>>,
}

/// A value, when no message is dropped.
fn value(value: impl Into<Vec<f32>>) -> Answer {
    Answer { drops: Vec::new(), value: Some(value.into()) }
}

/// No value, because each message is dropped for a reason.
fn dropped(reasons: &[DropReason]) -> Answer {
    Answer { drops: reasons.to_vec(), value: None }
}

/// A case of one stream whose value must be exact.
fn case(
    report: &'static str,
    keys: impl Into<String>,
    given: Vec<Given>,
    expected: Answer,
) -> Case {
    Case { report, keys: keys.into(), given, expected, within: 0.0 }
}

/// Gives all messages to the stream `s`.
fn to_s(messages: impl IntoIterator<Item = Vec<u8>>) -> Vec<Given> {
    messages.into_iter().map(|message| ("s", message)).collect()
}

/// Answer of a stream with these keys to the messages.
fn answer(keys: &str, given: &[Given]) -> Answer {
    let yaml = format!("rate_hz: 100\nbase_frame: base\nstreams: {{s: {{{keys}}}}}");
    let pipeline = pipeline(&yaml);
    let mut drops = Vec::new();
    for (name, message) in given {
        let mut ids = pipeline.config().input_ids();
        let input = ids.find(|id| pipeline.config().input(*id).name == *name);
        let arrival = Arrival { stamp: Some(NOW), ..Arrival::default() };
        match pipeline.push(input.unwrap_or_else(|| panic!("{name}")), message, arrival) {
            Ok(_) => {}
            Err(NotTaken::Dropped(rejected)) => drops.push(rejected.reason),
            Err(error) => panic!("{error:?}"),
        }
    }
    let mut message = pipeline.new_message();
    let tick = pipeline.config().grid.tick_at(NOW);
    assert_eq!(pipeline.tick(tick, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    let segment = SegmentId::new(0);
    let is_valid = message.steps(segment)[0].valid;
    Answer { drops, value: is_valid.then(|| values(&pipeline, &message, segment)) }
}

/// Compares the answers of all cases, and names the reports whose answer is another.
fn check(cases: Vec<Case>) {
    let mut wrong = Vec::new();
    for Case { report, keys, given, expected, within } in cases {
        let found = answer(&keys, &given);
        let is_near = match (&found.value, &expected.value) {
            (Some(found), Some(expected)) => {
                let mut pairs = found.iter().zip(expected);
                found.len() == expected.len() && pairs.all(|(a, b)| (a - b).abs() <= within)
            }
            (found, expected) => found == expected,
        };
        if !is_near || found.drops != expected.drops {
            wrong.push(format!("{report}: expected {}, found {}", short(&expected), short(&found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An answer in a line.
fn short(answer: &Answer) -> String {
    let first = answer.value.as_ref().map(|value| &value[..value.len().min(12)]);
    format!("{first:?} after {:?}", answer.drops)
}

/// A message that begins with a header, `ms` before [`NOW`].
fn begun(ms: i64, frame_id: &str) -> Writer {
    let mut writer = Writer::new();
    writer.header(NOW.offset(-ms * MS), frame_id);
    writer
}
