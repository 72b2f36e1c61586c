use super::super::parse;
use super::*;
use crate::encoder::EncoderSpec;
use crate::spec::Config;
use robocache_ops::dtype::DType;
use robocache_ops::image::{Filter, Fit, ImageLayout, ImageSpec, Resize};

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
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/presets");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), PRESETS.len());
}

#[test]
fn what_a_stream_says_itself_wins() {
    let own = config("{preset: smolvla, resize: {width: 256}, pad_value: 7}", "");
    let (spec, dtype) = image(&own);
    let filter = Filter::TorchBilinear;
    let fit = Fit::PadTopLeft;
    assert_eq!(spec.resizes, [Resize { filter, fit, ..Resize::to(256, 512) }]);
    assert_eq!((spec.pad_value, spec.mean, spec.std, dtype), (7, [0.5; 3], [0.5; 3], DType::Bf16));
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
