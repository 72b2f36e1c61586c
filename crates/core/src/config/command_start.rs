//! The key `start_from` of a group of commands: the stream with the measured values that commands begin at.

use super::check::Check;
use super::words::{nearest, one_of};
use crate::contract::channel;
use crate::spec::{Interface, StartSpec, StreamId, StreamSpec};
use robocache_ops::operators::VectorSpec;

/// Finds these joints in the stream of this name.
pub(super) fn start(
    check: &mut Check<'_>,
    key: &str,
    name: &str,
    streams: &[StreamSpec],
    joints: &[String],
    interface: Interface,
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
    let channels = channels(check, key, name, vector, joints, interface)?;
    Some(StartSpec { stream: StreamId::new(at), channels })
}

/// The channel of each joint.
fn channels(
    check: &mut Check<'_>,
    key: &str,
    stream: &str,
    vector: &VectorSpec,
    joints: &[String],
    interface: Interface,
) -> Option<Vec<usize>> {
    let quantity = interface.name();
    let names = vector.channels.iter().map(|channel| channel.name.as_str());
    let find = |joint: &String| channel(names.clone(), &format!("{joint}.{quantity}"));
    let found: Vec<_> = joints.iter().map(find).collect();
    let lacking = joints.iter().zip(&found).filter(|(_, found)| found.is_none());
    let lacking: Vec<_> = lacking.map(|(joint, _)| joint.as_str()).collect();
    if !lacking.is_empty() {
        let expected = format!("a stream with the {quantity} of each joint");
        let found = format!("`{stream}` without that of {}", lacking.join(", "));
        check.fail_found(key, expected, found);
        return None;
    }
    Some(found.into_iter().flatten().collect())
}
