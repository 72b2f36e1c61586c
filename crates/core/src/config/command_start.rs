//! The key `start_from` of a group of commands: the stream with the measured values that commands begin at.

use super::check::Check;
use super::words::{nearest, one_of};
use crate::spec::{Interface, StartSpec, StreamId, StreamSpec};
use robocache_ops::dtype::DType;
use robocache_ops::operators::{Operator, VectorSpec};

/// The joints whose measured values are asked for.
#[derive(Clone, Copy)]
pub(super) struct StartJoints<'a> {
    pub names: &'a [String],
    pub interface: Interface,
    /// Those whose rows are added to the values of the tensor, by their numbers.
    pub relative: &'a [usize],
    /// The stream whose values these are, if a contract says so; otherwise it is the one that commands begin at.
    pub reference: Option<&'a str>,
}

/// Finds the joints in the stream of this name.
pub(super) fn start(
    check: &mut Check<'_>,
    key: &str,
    name: &str,
    streams: &[StreamSpec],
    joints: StartJoints<'_>,
) -> Option<StartSpec> {
    let Some(at) = streams.iter().position(|stream| stream.name == name) else {
        let names: Vec<_> = streams.iter().map(|stream| stream.name.as_str()).collect();
        check.fail(key, one_of(&names));
        if let Some(near) = nearest(name, &names) {
            check.hint(format!("did you mean `{near}`?"));
        }
        return None;
    };
    let stream = &streams[at];
    let vector = stream.encoder.as_vector().filter(|_| !stream.plans);
    let Some(vector) = vector else {
        check.fail(key, "a stream of measured joints: a vector, and no plan");
        return None;
    };
    let channels = channels(check, key, (name, vector), joints)?;
    // A policy knows the values of the stream that its contract names, and commands begin at the measured ones.
    if joints.reference.is_none_or(|reference| reference == name) {
        is_reference(check, key, (stream, vector), &channels, joints.relative)?;
    }
    Some(StartSpec { stream: StreamId::new(at), channels })
}

/// Checks the stream of a contract that has the values of relative joints, at the key `contract`.
pub(super) fn has_reference(
    check: &mut Check<'_>,
    key: &str,
    streams: &[StreamSpec],
    joints: StartJoints<'_>,
) -> Option<()> {
    let Some(name) = joints.reference else { return Some(()) };
    let found = streams.iter().find(|stream| stream.name == name);
    let found = found.and_then(|stream| Some((stream, stream.encoder.as_vector()?)));
    let Some((stream, vector)) = found else {
        let expected =
            format!("a vector `{name}` among the streams: relative rows are added to its values");
        check.fail(key, expected);
        return None;
    };
    let names: Vec<_> = joints.relative.iter().map(|joint| joints.names[*joint].clone()).collect();
    let relative: Vec<_> = (0..names.len()).collect();
    let joints = StartJoints { names: &names, relative: &relative, ..joints };
    let channels = channels(check, key, (name, vector), joints)?;
    is_reference(check, key, (stream, vector), &channels, &relative)
}

/// The channel of each joint. If several inputs have joints of their own, the topic in front of a name may be left out.
fn channels(
    check: &mut Check<'_>,
    key: &str,
    (stream, vector): (&str, &VectorSpec),
    joints: StartJoints<'_>,
) -> Option<Vec<usize>> {
    let quantity = joints.interface.name();
    let find = |joint: &String| {
        let name = format!("{joint}.{quantity}");
        let exact = vector.channels.iter().position(|channel| channel.name == name);
        let behind_topic = |own: &str| own.split_once(':').is_some_and(|(_, own)| own == name);
        let mut behind = vector.channels.iter().enumerate();
        let mut behind = behind.by_ref().filter(|(_, channel)| behind_topic(&channel.name));
        let first = behind.next().map(|(at, _)| at);
        // Two arms may have joints of one name.
        exact.or(first.filter(|_| behind.next().is_none()))
    };
    let found: Vec<_> = joints.names.iter().map(find).collect();
    let lacking = joints.names.iter().zip(&found).filter(|(_, found)| found.is_none());
    let lacking: Vec<_> = lacking.map(|(joint, _)| joint.as_str()).collect();
    if !lacking.is_empty() {
        let expected = format!("a stream with the {quantity} of each joint");
        let found = format!("`{stream}` without that of {}", lacking.join(", "));
        check.fail_found(key, expected, found);
        return None;
    }
    Some(found.into_iter().flatten().collect())
}

/// Checks that a policy can know the measured values by its tensors, if it must add them to rows.
fn is_reference(
    check: &mut Check<'_>,
    key: &str,
    (stream, vector): (&StreamSpec, &VectorSpec),
    channels: &[usize],
    relative: &[usize],
) -> Option<()> {
    if relative.is_empty() {
        return Some(());
    }
    if stream.dtype != DType::F32 {
        let expected = "a stream of dtype f32: `relative` rows are added to its values";
        check.fail_found(key, expected, format!("`{}` of {}", stream.name, stream.dtype.name()));
        return None;
    }
    let outputs = vector.outputs.iter();
    let mut limited = outputs.filter(|output| has_limit(&output.operators));
    let is_relative = |channel: usize| relative.iter().any(|joint| channels[*joint] == channel);
    if let Some(output) = limited.find(|output| is_relative(output.source.channel())) {
        let expected =
            "a stream without `clamp` of `relative` joints: rows are added to its values";
        check.fail_found(key, expected, format!("`{}` of `{}`", output.name, stream.name));
        return None;
    }
    Some(())
}

fn has_limit(operators: &[Operator]) -> bool {
    operators.iter().any(|operator| matches!(operator, Operator::Clamp { .. }))
}
