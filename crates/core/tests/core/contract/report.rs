//! Every field that `robocache check --json` shows either bears on a policy's inputs, or does not.

use std::collections::BTreeSet;

use serde_json::Value;

use robocache_core::config::describe::Report;
use robocache_core::schema::Prefixes;

use super::parsed;
use crate::encoders::KEYS;

const REFERENCE: &str = include_str!("../../../../../config/robocache.yaml");

/// Fields that are refused when they differ. `*` is any entry.
const REFUSED: &[&str] = &[
    "rate_hz",
    "period_ns",
    "base_frame",
    "streams.name",
    "streams.kind",
    "streams.encoder.*",
    "streams.fields",
    "streams.joints",
    "streams.strategy",
    "streams.lag_ns",
    "streams.steps",
    "streams.step_ns",
    "streams.horizon_steps",
    "streams.horizon_step_ns",
    "streams.max_ahead_ns",
    "streams.max_age_ns",
    "streams.max_gap_ns",
    "streams.fill",
    "streams.dtype",
    "streams.valid_when",
    "streams.inputs.type",
    "streams.inputs.timeline",
    "streams.inputs.stamp_offset_ns",
    "streams.inputs.t_base_sensor",
    "streams.inputs.in_frame",
    "streams.inputs.max_age_ns",
    "segments.name",
    "segments.types",
    "segments.timelines",
    "segments.strategy",
    "segments.shape",
    "segments.dtype",
    "segments.targets_ns",
    "segments.horizon_steps",
    "contract.*",
    "contract_digest",
];

/// Fields that are accepted when they differ, beside the limits of encoders.
const ACCEPTED: &[&str] = &[
    "output_topic",
    "streams.required",
    "streams.ring_rows",
    "streams.kept_bytes",
    "streams.inputs.name",
    "streams.inputs.topic",
    "streams.inputs.reliability",
    "streams.inputs.durability",
    "streams.inputs.depth",
    "streams.inputs.frame_id",
    "streams.inputs.expected_rate_hz",
    "streams.camera_info.*",
    "segments.topics",
    "segments.byte_offset",
    "segments.byte_len",
    "segments.ring_rows",
    "segments.ring_bytes",
    "segments.gpu_bytes",
    "segments.pinned_bytes",
    "bytes_per_tick",
    "bytes_per_second",
    "ring_bytes",
    "gpu_bytes",
    "pinned_bytes",
    "recording.*",
    "shared_memory.*",
    "warnings",
];

/// The fields of a report, without the numbers of entries.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                fields(value, &path, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            items.iter().for_each(|item| fields(item, path, found));
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

fn is_in(list: &[&str], field: &str) -> bool {
    let matches = |known: &&str| match known.strip_suffix('*') {
        Some(start) => field.starts_with(start),
        None => *known == field,
    };
    list.iter().any(matches)
}

#[test]
fn every_field_of_the_report_is_in_one_of_both_lists() {
    let all = || KEYS.iter().copied().flatten();
    let mut found = BTreeSet::new();
    for text in all().map(|keys| keys.config).chain([REFERENCE]) {
        let report = Report::new(&parsed(text), &Prefixes::default());
        fields(&serde_json::to_value(&report).unwrap(), "", &mut found);
    }
    let limits = all().flat_map(|keys| keys.limits);
    let accepted: Vec<&str> = ACCEPTED.iter().chain(limits).copied().collect();
    assert!(found.len() > 60, "{found:?}");
    for field in &found {
        assert!(
            is_in(REFUSED, field) != is_in(&accepted, field),
            "{field}: does it bear on what a policy takes? Then it belongs in a contract and in REFUSED, otherwise in \
             ACCEPTED or in the limits of its encoder"
        );
    }
    let unused = REFUSED.iter().chain(&accepted).filter(|known| {
        let start = known.trim_end_matches('*');
        !found.iter().any(|field| field.starts_with(start))
    });
    assert_eq!(unused.collect::<Vec<_>>(), Vec::<&&str>::new());
}
