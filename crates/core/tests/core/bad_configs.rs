//! Every file in `tests/configs/bad` gives exactly the errors that its first lines announce, each
//! as `# expect: FILE:LINE: KEY: expected ..., found ...`.

use std::path::{Path, PathBuf};

use robocache_core::command::output;
use robocache_core::config::{self, FRAMED};
use robocache_core::input::{Content, MessageType, TYPES};
use robocache_core::schema::Prefixes;

/// Lists of keys that several errors have. The files have their names in braces instead.
const KEYS: &[(&str, &str)] = &[
    (
        "{image_stream_keys}",
        "strategy, lag_ms, history, horizon, max_ahead_ms, max_age_ms, fill, required, timeline, \
         stamp_offset_ms, dtype, ring_rows, qos, frame_id, expected_rate_hz, image",
    ),
    (
        "{field_stream_keys}",
        "strategy, lag_ms, history, horizon, max_ahead_ms, max_age_ms, max_gap_ms, fill, required, \
         timeline, stamp_offset_ms, dtype, ring_rows, qos, frame_id, in_frame, expected_rate_hz, \
         fields, operators",
    ),
    (
        "{image_keys}",
        "preset, undistort, crop, resize, layout, color, range, mean, std, pad_value, \
         max_width_px, max_height_px, encoding_8uc, depth",
    ),
];

/// The lists that errors have, with their names in the files. Those of types have the order of the tables.
fn lists() -> Vec<(&'static str, String)> {
    let types: Vec<_> = TYPES.iter().map(|known| known.name).collect();
    let command_types: Vec<_> = output::TYPES.iter().map(|known| known.name).collect();
    let keys = KEYS.iter().map(|(name, keys)| (*name, (*keys).to_owned()));
    let types = [
        ("{message_types}", types.join(", ")),
        ("{framed_types}", FRAMED.join(", ")),
        ("{command_types}", command_types.join(", ")),
    ];
    keys.chain(types).collect()
}

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/configs/bad");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn each_bad_configuration_gives_exactly_its_errors() {
    let definitions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/definitions");
    let definitions = Prefixes::new(vec![definitions]);
    let lists = lists();
    let mut wrong = Vec::new();
    for path in bad_files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<_> =
            text.lines().map_while(|line| line.strip_prefix("# expect: ")).collect();
        assert!(!expected.is_empty(), "{name} announces no error");
        let expected = lists
            .iter()
            .fold(expected.join("\n"), |errors, (list, names)| errors.replace(list, names));
        match config::parse_with(&text, name, &definitions) {
            Ok(_) => wrong.push(format!("{name} is accepted")),
            Err(error) if error.to_string() == expected => {}
            Err(error) => wrong.push(format!("{error}\n  instead of\n{expected}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn there_are_enough_of_them() {
    assert!(bad_files().len() >= 80, "{}", bad_files().len());
}

#[test]
fn types_in_a_frame_have_fields_and_a_row_in_the_table_of_frames() {
    let page = include_str!("../../../../docs/frames.md");
    for name in FRAMED {
        let content = MessageType::find(name).map(|known| known.content);
        assert!(matches!(content, Some(Content::Fields(_))), "{name}: {content:?}");
        let short = name.rsplit('/').next().unwrap();
        let mut rows = page.lines().filter(|line| line.starts_with('|'));
        assert!(rows.any(|row| row.contains(short)), "{short} is missing in docs/frames.md");
    }
}

#[test]
fn users_find_each_type_of_messages() {
    let page = include_str!("../../../../docs/inputs.md");
    for known in TYPES {
        let short = known.name.rsplit('/').next().unwrap();
        let mut rows = page.lines().filter(|line| line.starts_with('|'));
        assert!(rows.any(|row| row.contains(short)), "{short} is missing in docs/inputs.md");
    }
}
