//! Topics over all streams.

use super::check::Check;
use crate::spec::InputSpec;

/// Checks that each topic has one type, as ROS wants it. A subscription of a second type fails.
pub(super) fn have_one_type(check: &mut Check<'_>, inputs: &[InputSpec]) {
    for (at, input) in inputs.iter().enumerate() {
        let is_other =
            |known: &&InputSpec| known.topic == input.topic && known.ros_type != input.ros_type;
        if let Some(known) = inputs[..at].iter().find(is_other) {
            let InputSpec { topic, ros_type, .. } = known;
            let expected =
                format!("{ros_type} for {topic}, as in '{}': a topic has one type", known.name);
            check.fail_found(&key_of(&input.name), expected, &input.ros_type);
        }
    }
}

/// Where an input has its type: its name is that of its stream, and its number if there are several.
fn key_of(name: &str) -> String {
    match name.split_once('[') {
        Some((stream, number)) => format!("streams.{stream}.inputs[{number}.type"),
        None => format!("streams.{name}.type"),
    }
}
