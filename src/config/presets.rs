//! Images as known policies take them: the key `preset` of `image`.
//!
//! A preset is a file of `config/presets/`, with keys of a stream: `image`, and `dtype` if the policy takes
//! bytes. A stream without one of these keys has that of the preset. If the stream itself names the preset,
//! it wins over `defaults`; if it has the preset from there, its keys are inherited as well. The file is in
//! the program, so that a node finds it wherever it is installed.

use std::rc::Rc;

use super::check::Check;
use super::document::entries;
use super::node::{self, Entry, Node, Value};
use super::read::Read;
use super::words::{nearest, one_of};

/// The presets: name and file.
pub(super) const PRESETS: [(&str, &str); 8] = [
    ("act", include_str!("../../config/presets/act.yaml")),
    ("diffusion_policy", include_str!("../../config/presets/diffusion_policy.yaml")),
    ("umi", include_str!("../../config/presets/umi.yaml")),
    ("pi0", include_str!("../../config/presets/pi0.yaml")),
    ("pi0_lerobot", include_str!("../../config/presets/pi0_lerobot.yaml")),
    ("smolvla", include_str!("../../config/presets/smolvla.yaml")),
    ("groot_n1_5", include_str!("../../config/presets/groot_n1_5.yaml")),
    ("groot_n1_7", include_str!("../../config/presets/groot_n1_7.yaml")),
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
    // The bytes of an inherited preset are pixels, and a depth image has distances.
    let other_kind = inherited && image.get("depth").is_some();
    let dtype = preset.get("dtype").filter(|_| !other_kind);
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
mod tests {
    use super::super::parse;
    use super::*;
    use crate::dtype::DType;
    use crate::ops::image::{Filter, Fit, ImageLayout, ImageSpec, Resize};
    use crate::spec::{Config, EncoderSpec};

    fn config(image: &str, rest: &str) -> Config {
        let text = format!(
            "rate_hz: 10\noutput: {{dtype: bf16}}\nstreams:\n  s:\n    type: sensor_msgs/Image\n    \
             topic: /s\n    max_age_ms: 9\n    image: {image}\n{rest}"
        );
        parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn image(config: &Config) -> (&ImageSpec, DType) {
        match &config.streams[0].encoder {
            EncoderSpec::Image(image) => (image, config.streams[0].dtype),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_preset_is_what_a_user_can_copy() {
        for (name, text) in PRESETS {
            let by_name = config(&format!("{{preset: {name}}}"), "");
            let keys: String = text.lines().map(|line| format!("    {line}\n")).collect();
            let copied = format!(
                "rate_hz: 10\noutput: {{dtype: bf16}}\nstreams:\n  s:\n    type: sensor_msgs/Image\n    \
                 topic: /s\n    max_age_ms: 9\n{keys}"
            );
            let copied = parse(&copied, name).unwrap_or_else(|error| panic!("{error}\n{copied}"));
            assert_eq!(by_name, copied, "{name}");
            assert!(text.starts_with("# ") && text.contains("\n# Source: "), "{name}");
        }
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("config/presets");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), PRESETS.len());
    }

    #[test]
    fn what_a_stream_says_itself_wins() {
        let own = config("{preset: smolvla, resize: {width: 256}, pad_value: 7}", "");
        let (spec, dtype) = image(&own);
        let (filter, fit) = (Filter::TorchBilinear, Fit::PadTopLeft);
        assert_eq!(spec.resizes, [Resize { filter, fit, ..Resize::to(256, 512) }]);
        assert_eq!(
            (spec.pad_value, spec.mean, spec.std, dtype),
            (7, [0.5; 3], [0.5; 3], DType::Bf16)
        );
        // Another normalisation replaces that of the preset, and so do bytes.
        let own = config("{preset: smolvla, mean: [0.1, 0.2, 0.3]}", "");
        assert_eq!((image(&own).0.mean, image(&own).0.std), ([0.1, 0.2, 0.3], [1.0; 3]));
        let own = config("{preset: act, range: [-1, 1]}", "");
        assert_eq!((image(&own).0.mean, image(&own).0.std), ([0.5; 3], [0.5; 3]));
        assert_eq!(image(&config("{preset: pi0}", "    dtype: u8\n")).1, DType::U8);
        let bytes = config("{preset: groot_n1_7}", "");
        assert_eq!((image(&bytes).0.resizes.len(), image(&bytes).1), (2, DType::U8));
        assert_eq!(image(&bytes).0.layout, ImageLayout::Hwc);
        assert_eq!(image(&config("{preset: groot_n1_7}", "    dtype: f16\n")).1, DType::F16);
    }

    #[test]
    fn presets_may_be_defaults() {
        let text = "rate_hz: 10
defaults: {image: {max_age_ms: 9, image: {preset: pi0}}}
streams:
  a: {type: sensor_msgs/Image, topic: /a}
  b: {type: sensor_msgs/Image, topic: /b, image: {preset: umi}}
";
        let config = parse(text, "test.yaml").unwrap_or_else(|error| panic!("{error}"));
        let fits = config.streams.iter().map(|stream| match &stream.encoder {
            EncoderSpec::Image(image) => image.last().fit,
            other => panic!("{other:?}"),
        });
        assert_eq!(fits.collect::<Vec<_>>(), [Fit::PadCenter, Fit::CoverCenter]);
    }

    /// A stream of images with these defaults.
    fn with_defaults(defaults: &str, stream: &str) -> Config {
        let text = format!(
            "rate_hz: 10\ndefaults: {{image: {{max_age_ms: 9, {defaults}}}}}\nstreams:\n  \
             a: {{type: sensor_msgs/Image, topic: /a, {stream}}}\n"
        );
        parse(&text, "test.yaml").unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn a_preset_of_the_stream_wins_over_defaults() {
        let defaults = "dtype: bf16, image: {layout: hwc, max_width_px: 64, mean: [0.485, 0.456, 0.406], \
                        std: [0.229, 0.224, 0.225], resize: {width: 224, height: 224, \
                        filter: nearest, crop_fraction: 0.5}}";
        for (name, _) in PRESETS {
            let alone = config(&format!("{{preset: {name}, max_width_px: 64}}"), "");
            let found = with_defaults(defaults, &format!("image: {{preset: {name}}}"));
            assert_eq!(image(&found), image(&alone), "{name}");
            assert_eq!(found.inputs[0].selection, alone.inputs[0].selection, "{name}");
        }
        // What the stream itself says still wins.
        let image_keys = "image: {preset: smolvla, resize: {width: 256}, mean: [0.1, 0.2, 0.3]}";
        let own = with_defaults(defaults, &format!("dtype: f16, {image_keys}"));
        let alone = config("{preset: smolvla, resize: {width: 256}, mean: [0.1, 0.2, 0.3]}", "");
        assert_eq!((image(&own).0, image(&own).1), (image(&alone).0, DType::F16));
        let bytes = with_defaults("dtype: u8", "image: {preset: smolvla}");
        assert_eq!(image(&bytes).1, DType::U8, "the preset says no dtype");
        let floats = with_defaults("dtype: bf16, image: {preset: groot_n1_5}", "lag_ms: 0");
        assert_eq!(image(&floats).1, DType::Bf16, "both are from defaults");
    }

    #[test]
    fn depth_images_take_of_an_inherited_preset_what_is_theirs() {
        for (name, _) in PRESETS {
            let own = "image: {depth: {}, resize: {width: 8, height: 6, fit: stretch}}";
            let found = with_defaults(&format!("image: {{preset: {name}}}"), own);
            let EncoderSpec::Depth(spec) = &found.streams[0].encoder else { panic!("{name}") };
            let dtype = found.streams[0].dtype;
            assert_eq!((spec.width, spec.height, dtype), (8, 6, DType::F32), "{name}");
        }
        let found = with_defaults("image: {preset: pi0}", "image: {depth: {}}");
        let EncoderSpec::Depth(spec) = &found.streams[0].encoder else { panic!("no depth") };
        assert_eq!((spec.width, spec.fit), (224, Fit::PadCenter));
        // Its own preset is of colours.
        let text = "rate_hz: 10\nstreams:\n  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 1, \
                    image: {preset: pi0, depth: {}}}\n";
        let error = parse(text, "t.yaml").unwrap_err().to_string();
        let expected = "t.yaml:3: streams.a.image.preset: expected no preset beside `depth`";
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn an_unknown_preset_is_an_error_that_lists_them() {
        let text = "rate_hz: 10
streams:
  a: {type: sensor_msgs/Image, topic: /a, max_age_ms: 1, image: {preset: pi0_lerobt}}
  b: {type: sensor_msgs/Image, topic: /b, max_age_ms: 1, image: {preset: pi0, layout: whc}}
  c: {type: sensor_msgs/Image, topic: /c, max_age_ms: 1, dtype: f16, image: {preset: pi0, color: mono}}
";
        let error = parse(text, "t.yaml").unwrap_err().to_string();
        let expected = "t.yaml:3: streams.a.image.preset: expected one of act, diffusion_policy, umi, pi0, \
             pi0_lerobot, smolvla, groot_n1_5, groot_n1_7, found pi0_lerobt (did you mean `pi0_lerobot`?)";
        assert_eq!(error.lines().next(), Some(expected), "and nothing about a missing size");
        assert!(
            error.contains("t.yaml:4: streams.b.image.layout: expected one of chw, hwc"),
            "{error}"
        );
    }
}
