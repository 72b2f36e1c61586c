//! Messages of any type: which of their numbers become a vector.

use std::sync::Arc;

use super::check::Check;
use super::defaults::long_name;
use super::raw::RawStream;
use super::words::{nearest, one_of};
use crate::schema::{self, FieldReader, Path};
use crate::spec::MAX_INPUTS;
use robocache_ops::operators::{Channel, Group, VectorSpec};
use robocache_ops::resample::Lane;

/// Selections of a stream's inputs.
pub(super) struct Selected {
    /// The row: the numbers of the first input, then those of the next. Each input is a group.
    pub row: VectorSpec,
    /// At least one.
    pub inputs: Vec<SelectedInput>,
    /// Text in front of the names of each input's channels: its topic and a colon if there are several.
    pub labels: Vec<String>,
}

/// Selection of one input.
pub(super) struct SelectedInput {
    /// The key of the paths: that of the input, or else that of its stream.
    pub key: String,
    /// The type of messages, as `package/msg/Type`.
    pub ros_type: String,
    pub plan: Arc<FieldReader>,
}

/// The keys of one input as they are written, with their places.
struct Written {
    ros_type: (String, Option<String>),
    select: (String, Option<Vec<String>>),
    stamp: (String, Option<String>),
    /// Text in front of the names of its channels.
    label: String,
}

/// Validates the keys `type`, `select` and `stamp` of the stream at `key` and of its inputs, and the
/// stream's keys `angular` and `held`.
pub(super) fn select(check: &mut Check<'_>, key: &str, raw: &mut RawStream) -> Option<Selected> {
    let written = written(check, key, raw);
    let lanes =
        [("angular", raw.angular.take(), Lane::Angular), ("held", raw.held.take(), Lane::Held)];
    let mut channels = Vec::new();
    let mut groups = Vec::new();
    let mut labels = Vec::new();
    // All are checked, so that all problems are reported together.
    let mut inputs = Vec::new();
    for written in written? {
        let label = written.label.clone();
        let input = input(check, written);
        if let Some(SelectedInput { plan, .. }) = &input {
            let first = channels.len();
            channels.extend(
                plan.channels()
                    .iter()
                    .map(|(name, lane)| Channel { name: format!("{label}{name}"), lane: *lane }),
            );
            groups.push(Group { channels: (first..channels.len()).collect() });
        }
        labels.push(label);
        inputs.push(input);
    }
    let inputs = inputs.into_iter().collect::<Option<Vec<_>>>()?;
    for (name, names, lane) in lanes {
        if let Some(names) = names {
            mark(check, &format!("{key}.{name}"), &names, &labels, &mut channels, lane)?;
        }
    }
    Some(Selected { row: VectorSpec { channels, groups, outputs: Vec::new() }, inputs, labels })
}

/// Takes the keys of each input from `raw`. If an input lacks one, it is that of the stream. `None` if
/// the inputs could not be read, or if they are too many.
fn written(check: &Check<'_>, key: &str, raw: &mut RawStream) -> Option<Vec<Written>> {
    let at = |name: &str| format!("{key}.{name}");
    let own = Written {
        ros_type: (at("type"), raw.ros_type.clone()),
        select: (at("select"), raw.select.take()),
        stamp: (at("stamp"), raw.stamp.take()),
        label: String::new(),
    };
    if check.is_unread(&at("inputs")) {
        return None;
    }
    let listed = raw.inputs.as_deref_mut().unwrap_or_default();
    if listed.is_empty() {
        return Some(vec![own]);
    }
    if listed.len() > MAX_INPUTS {
        return None; // this is reported with the other keys of the inputs
    }
    let several = listed.len() > 1;
    let listed = listed.iter_mut().enumerate().map(|(i, input)| {
        let at = |name: &str| format!("{key}.inputs[{i}].{name}");
        // A topic has no colon, so the name of a channel says where the path begins.
        let topic = input.topic.as_deref().filter(|_| several);
        Written {
            ros_type: of_input(check, at("type"), input.ros_type.clone(), &own.ros_type),
            select: of_input(check, at("select"), input.select.take(), &own.select),
            stamp: of_input(check, at("stamp"), input.stamp.take(), &own.stamp),
            label: topic.map(|topic| format!("{topic}:")).unwrap_or_default(),
        }
    });
    Some(listed.collect())
}

/// A key of an input and its value; those of the stream if the stream alone has the key.
fn of_input<T: Clone>(
    check: &Check<'_>,
    key: String,
    value: Option<T>,
    stream: &(String, Option<T>),
) -> (String, Option<T>) {
    let (stream_key, of_stream) = stream;
    // One that could not be read is given, too.
    let given = value.is_some() || check.is_unread(&key);
    match given || (of_stream.is_none() && !check.is_unread(stream_key)) {
        true => (key, value),
        false => (stream_key.clone(), of_stream.clone()),
    }
}

/// Validates what one input selects.
fn input(check: &mut Check<'_>, written: Written) -> Option<SelectedInput> {
    let Written { ros_type: (type_key, ros_type), select: (key, texts), stamp, .. } = written;
    let (stamp_key, stamp) = stamp;
    let stamp_unread = check.is_unread(&stamp_key);
    let stamp = stamp.map(|text| path(check, &stamp_key, &text));
    let paths = texts.or_else(|| {
        check.fail(&key, "the numbers that it takes, as other inputs of the stream have");
        None
    });
    let paths = paths.and_then(|texts| paths_of(check, &key, &texts));
    let ros_type = check.required(&type_key, ros_type, "the type of its messages")?;
    let ros_type = long_name(&ros_type);
    let root = schema::resolve(&ros_type, check.definitions()).map_err(|error| {
        check.fail(&type_key, format!("a type whose definition can be read ({error})"));
    });
    let stamp = match stamp {
        Some(stamp) => Some(stamp?),
        None => None,
    };
    let plan = FieldReader::new(&root.ok()?, &paths?, stamp.as_ref()).map_err(|error| {
        let key = match error.path {
            Some(path) => format!("{key}[{path}]"),
            None => stamp_key,
        };
        check.fail(&key, error.expected);
        if let Some((wrong, known)) = error.unknown {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            if let Some(near) = nearest(&wrong, &known) {
                check.hint(format!("did you mean `{near}`?"));
            }
        }
    });
    let plan = plan.ok()?;
    distinct(check, &key, plan.channels())?;
    // The consequences of the stamp are unknown.
    (!stamp_unread).then(|| SelectedInput { key, ros_type, plan: Arc::new(plan) })
}

/// The paths at a key, at least one.
fn paths_of(check: &mut Check<'_>, key: &str, texts: &[String]) -> Option<Vec<Path>> {
    check.names(key, texts, "path")?;
    let paths = texts.iter().enumerate();
    let paths = paths.map(|(i, text)| path(check, &format!("{key}[{i}]"), text));
    paths.collect::<Vec<_>>().into_iter().collect()
}

fn path(check: &mut Check<'_>, key: &str, text: &str) -> Option<Path> {
    match Path::parse(text) {
        Ok(path) => Some(path),
        Err(error) => {
            check.fail(key, format!("a path such as pose.position.x or values[3] ({error})"));
            None
        }
    }
}

/// Checks that no number is selected twice, by two paths.
fn distinct(check: &mut Check<'_>, key: &str, channels: &[(String, Lane)]) -> Option<()> {
    let mut names: Vec<&str> = channels.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Some(()),
        Some(twice) => {
            check.fail_found(key, "each number once", format!("`{}` repeatedly", twice[0]));
            None
        }
    }
}

/// Marks the channels that are angles or held. Before the path in a channel's name is a label.
fn mark(
    check: &mut Check<'_>,
    key: &str,
    names: &[String],
    labels: &[String],
    channels: &mut [Channel],
    lane: Lane,
) -> Option<()> {
    check.names(key, names, "channel")?;
    let mut all = true;
    for (i, name) in names.iter().enumerate() {
        let name = canonical(name, labels);
        match channels.iter_mut().find(|channel| channel.name == name) {
            Some(channel) if channel.lane == Lane::Linear => channel.lane = lane,
            Some(channel) => {
                let expected = match channel.lane {
                    Lane::Quaternion => "a number that is no part of a quaternion",
                    _ => "a number that is in one list alone: angular or held",
                };
                check.fail(&format!("{key}[{i}]"), expected);
                all = false;
            }
            None => {
                let known: Vec<_> = channels.iter().map(|channel| channel.name.as_str()).collect();
                check.fail(&format!("{key}[{i}]"), one_of(&known[..known.len().min(32)]));
                all = false;
            }
        }
    }
    all.then_some(())
}

/// The name of a channel as it is: the user may have written other quotes than it has.
fn canonical(name: &str, labels: &[String]) -> String {
    let label = labels.iter().find(|label| name.starts_with(label.as_str()));
    let label = label.map_or("", String::as_str);
    match Path::parse(&name[label.len()..]) {
        Ok(path) => format!("{label}{path}"),
        Err(_) => name.to_owned(),
    }
}
