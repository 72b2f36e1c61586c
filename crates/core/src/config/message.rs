//! The type of a stream's messages.

use super::check::Check;
use super::defaults::{content, find_type, long_name};
use super::raw::RawStream;
use super::words::{near_type, one_of};
use crate::input::{Content, MessageType, TYPES};

/// The type of a stream's messages.
pub(super) struct Type {
    /// As `package/msg/Type`.
    pub name: String,
    pub content: Content,
}

/// True if the stream at `key` names the numbers that it takes, or one of its inputs does.
pub(super) fn selects(check: &Check<'_>, name: &str, key: &str) -> bool {
    let Some(stream) = check.stream(name) else { return false };
    let inputs = stream.get("inputs").and_then(|inputs| inputs.items()).unwrap_or_default();
    // A key that is misspelt counts as one that could not be read.
    let misspelt = |at: usize| check.is_unread(&format!("{key}.inputs[{at}].select"));
    matches!(content(&stream), Some(Content::Selected))
        || check.is_unread(&format!("{key}.select"))
        || (0..inputs.len()).any(misspelt)
}

/// The type of a stream's messages. If its inputs have types of their own, the first of them counts.
pub(super) fn message_type(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawStream,
    selects: bool,
) -> Option<Type> {
    let [key, inputs_key] = ["type", "inputs"].map(|name| format!("{key}.{name}"));
    let inputs = raw.inputs.as_deref().unwrap_or_default();
    let of_inputs = || inputs.iter().find_map(|input| input.ros_type.as_deref());
    let ros_type = raw.ros_type.as_deref().or_else(|| of_inputs().filter(|_| selects));
    if let (Some(name), true) = (ros_type, selects) {
        return Some(Type { name: long_name(name), content: Content::Selected });
    }
    let message = ros_type.and_then(find_type);
    // An input that could not be read may have the type, or `select`.
    if message.is_none() && !check.is_unread(&inputs_key) {
        let names: Vec<_> = TYPES.iter().map(|known| known.name).collect();
        let near = ros_type.and_then(|name| near_type(name, &names));
        check.fail(&key, format!("{}; or any other type, with the key `select`", one_of(&names)));
        if let Some(near) = near {
            check.hint(format!("did you mean `{near}`?"));
        }
    }
    message.map(|message| Type { name: message.name.to_owned(), content: message.content })
}

/// The names of all types with one of these contents, for an error.
pub(super) fn types(contents: &[Content]) -> String {
    let fits = |known: &&&MessageType| contents.iter().any(|of| of.is_as(known.content));
    TYPES.iter().filter(fits).map(|known| known.name).collect::<Vec<_>>().join(", ")
}
