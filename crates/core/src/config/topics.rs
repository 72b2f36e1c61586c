//! Topics over all streams.

use super::check::Check;
use crate::spec::{CommandsSpec, InputSpec};

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

/// Checks that commands go to topics of their own.
pub(super) fn take_no_commands(
    check: &mut Check<'_>,
    commands: Option<&CommandsSpec>,
    inputs: &[InputSpec],
    output_topic: &str,
) {
    let groups = commands.map_or(&[][..], |commands| &commands.groups);
    for (at, group) in groups.iter().enumerate() {
        let topic = &group.output.topic;
        let input = inputs.iter().find(|input| input.topic == *topic);
        let other = groups[..at].iter().find(|other| other.output.topic == *topic);
        let taken_by = match (input, other) {
            _ if topic == output_topic => "the tensors".to_owned(),
            (Some(input), _) => format!("the input '{}'", input.name),
            (None, Some(other)) => format!("the group '{}'", other.name),
            (None, None) => continue,
        };
        let key = format!("commands.groups.{}.output.topic", group.name);
        check.fail(&key, format!("a topic that nothing else has (it is that of {taken_by})"));
    }
}

/// Path of the key with an input's type: its name is that of its stream, and its number if there are several.
fn key_of(name: &str) -> String {
    match name.split_once('[') {
        Some((stream, number)) => format!("streams.{stream}.inputs[{number}.type"),
        None => format!("streams.{name}.type"),
    }
}
