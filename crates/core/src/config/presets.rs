//! Images as known policies take them: the key `preset` of `image`.
//!
//! A preset is a file of `config/presets/`, with keys of a stream: `image`, and `dtype` if the policy takes
//! bytes. A stream without one of these keys has that of the preset. If the stream itself names the preset,
//! it wins over `defaults`; if it has the preset from there, its keys are inherited as well. The file is in
//! the program, so that a node finds it wherever it is installed.

use std::rc::Rc;

use super::check::Check;
use super::document::entries;
use super::image::has_other_form;
use super::node::{self, Entry, Node, Value};
use super::read::Read;
use super::words::{nearest, one_of};

/// The presets: name and file.
pub(super) const PRESETS: [(&str, &str); 8] = [
    ("act", include_str!("../../../../config/presets/act.yaml")),
    ("diffusion_policy", include_str!("../../../../config/presets/diffusion_policy.yaml")),
    ("umi", include_str!("../../../../config/presets/umi.yaml")),
    ("pi0", include_str!("../../../../config/presets/pi0.yaml")),
    ("pi0_lerobot", include_str!("../../../../config/presets/pi0_lerobot.yaml")),
    ("smolvla", include_str!("../../../../config/presets/smolvla.yaml")),
    ("groot_n1_5", include_str!("../../../../config/presets/groot_n1_5.yaml")),
    ("groot_n1_7", include_str!("../../../../config/presets/groot_n1_7.yaml")),
];

/// Keys that say which value a byte has.
const NORMALISATION: [&str; 3] = ["range", "mean", "std"];

/// The name of a preset. [`fill_in`] has put its keys beside it.
pub(super) struct Preset;

impl Read for Preset {
    fn read(check: &mut Check<'_>, key: &str, node: &Node) -> Option<Self> {
        let names = PRESETS.map(|(name, _)| name);
        let found = node.scalar().unwrap_or_default();
        if names.contains(&found) {
            return Some(Preset);
        }
        check.fail(key, one_of(&names));
        if let Some(near) = nearest(found, &names) {
            check.hint(format!("did you mean `{near}`?"));
        }
        None
    }
}

/// The file with what each stream has from the preset that it names.
pub(super) fn fill_in(root: &Rc<Node>) -> Rc<Node> {
    let Some(streams) = root.get("streams").filter(|streams| streams.entries().is_some()) else {
        return Rc::clone(root);
    };
    let output = root.get("output").and_then(|output| output.get("dtype"));
    let dtype = output.and_then(|dtype| dtype.scalar());
    let filled = entries(streams).iter().map(|entry| {
        let node = of_stream(&entry.node, dtype).map_or_else(|| Rc::clone(&entry.node), Rc::new);
        Entry { node, ..entry.clone() }
    });
    let streams = Rc::new(Node::collection(Value::Mapping(filled.collect()), streams.line));
    let with_streams = |entry: &Entry| match entry.key.as_str() {
        "streams" => Entry { node: Rc::clone(&streams), ..entry.clone() },
        _ => entry.clone(),
    };
    let all = entries(root).iter().map(with_streams).collect();
    Rc::new(Node::collection(Value::Mapping(all), root.line))
}

/// A stream with the keys of its preset; `None` if it names none that is known. `default` is the element
/// type of streams that say none.
fn of_stream(stream: &Node, default: Option<&str>) -> Option<Node> {
    let image = entries(stream).iter().find(|entry| entry.key == "image")?;
    let name = image.node.entries()?.iter().find(|entry| entry.key == "preset")?;
    let inherited = image.inherited || name.inherited;
    let image = &image.node;
    let (preset, text) =
        PRESETS.into_iter().find(|(known, _)| name.node.scalar() == Some(known))?;
    // The text is part of the program, and a test reads each.
    let preset = node::read(text, "preset", &mut Vec::new()).ok()?.of_preset(preset, name.line);
    let pixels = preset.get("image")?;
    // The bytes of an inherited preset are pixels, and rows of another form hold other numbers.
    let other_form = inherited && has_other_form(image);
    let dtype = preset.get("dtype").filter(|_| !other_form);
    let mut all: Vec<Entry> = entries(stream).to_vec();
    if dtype.is_some() && !inherited {
        all.retain(|entry| entry.key != "dtype" || !entry.inherited);
    }
    let own_dtype = all.iter().find(|entry| entry.key == "dtype").map(|entry| &entry.node);
    let missing = entries(&preset).iter().find(|entry| entry.key == "dtype");
    let missing = missing.filter(|_| dtype.is_some() && own_dtype.is_none());
    let bytes = own_dtype.or(dtype).and_then(|node| node.scalar()).or(default) == Some("u8");
    let image = if inherited { Rc::clone(image) } else { yielded(image, pixels, bytes) };
    let own = |key: &str| image.get(key).is_some();
    let left_out = |key: &str| {
        let other = if key == "range" { own("mean") || own("std") } else { own("range") };
        NORMALISATION.contains(&key) && (bytes || other)
    };
    let kept = entries(pixels).iter().filter(|entry| !left_out(&entry.key));
    let image = merged(&image, kept, inherited);
    for entry in &mut all {
        if entry.key == "image" {
            entry.node = Rc::new(image);
            break;
        }
    }
    if let Some(dtype) = missing {
        all.push(Entry { inherited, ..dtype.clone() });
    }
    Some(Node::collection(Value::Mapping(all), stream.line))
}

/// The key `image` without what it inherits and the stream's own preset says: entries that the preset has,
/// and another normalisation than that of the preset or of bytes. A mapping `resize` keeps its own keys.
fn yielded(image: &Node, preset: &Node, bytes: bool) -> Rc<Node> {
    let normalises = bytes || NORMALISATION.iter().any(|key| preset.get(key).is_some());
    let without_inherited = |node: &Node| {
        let own = entries(node).iter().filter(|entry| !entry.inherited).cloned();
        Rc::new(Node::collection(Value::Mapping(own.collect()), node.line))
    };
    let kept = entries(image).iter().filter_map(|entry| {
        let key = entry.key.as_str();
        let theirs = preset.get(key);
        if entry.inherited {
            let yields = theirs.is_some() || (normalises && NORMALISATION.contains(&key));
            return (!yields).then(|| entry.clone());
        }
        let are_mappings =
            entry.node.entries().is_some() && theirs.is_some_and(|it| it.entries().is_some());
        let node =
            if are_mappings { without_inherited(&entry.node) } else { Rc::clone(&entry.node) };
        Some(Entry { node, ..entry.clone() })
    });
    Rc::new(Node::collection(Value::Mapping(kept.collect()), image.line))
}

/// A mapping and the entries that it lacks. If both have a mapping `resize`, its keys are filled in one by
/// one.
fn merged<'a>(own: &Node, preset: impl Iterator<Item = &'a Entry>, inherited: bool) -> Node {
    let mut all: Vec<Entry> = entries(own).to_vec();
    for theirs in preset {
        match all.iter_mut().find(|entry| entry.key == theirs.key) {
            None => all.push(Entry { inherited, ..theirs.clone() }),
            Some(entry) => {
                if let (Some(_), Some(common)) = (entry.node.entries(), theirs.node.entries()) {
                    entry.node = Rc::new(merged(&entry.node, common.iter(), inherited));
                }
            }
        }
    }
    Node::collection(Value::Mapping(all), own.line)
}

#[cfg(test)]
mod tests;
