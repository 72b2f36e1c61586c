use super::*;
use crate::config;

fn report(streams: &str) -> RecordingReport {
    let text = format!("rate_hz: 10\nstreams:\n{streams}");
    RecordingReport::new(&config::parse(&text, "test.yaml").unwrap())
}

const WRENCH: &str =
    "type: geometry_msgs/WrenchStamped, topic: /w, strategy: hold, max_age_ms: 1000";
const CAMERA: &str = "type: sensor_msgs/Image, topic: /c, strategy: hold, max_age_ms: 1000";

#[test]
fn sizes_and_rates_that_are_known_are_added() {
    let found = report(&format!(
        "  w: {{{WRENCH}, expected_rate_hz: 100}}\n  c: {{{CAMERA}, expected_rate_hz: 30, image: \
         {{resize: {{width: 8, height: 8}}, max_width_px: 640, max_height_px: 480}}}}\n"
    ));
    let image = 1024.0 + 4.0 * 640.0 * 480.0;
    assert_eq!(found.bytes_per_second, 100.0 * 1024.0 + 30.0 * image);
    assert_eq!(found.words(), "at most 37.0 MB/s with record_to");
}

#[test]
fn what_is_not_known_is_named() {
    let found = report(&format!(
        "  w: {{{WRENCH}, expected_rate_hz: 1000}}\n  a: {{{}}}\n  c: {{{CAMERA}, expected_rate_hz: 30, \
         image: {{resize: {{width: 8, height: 8}}}}}}\n  z: {{{}, image: {{resize: {{width: 8, height: 8}}}}}}\n",
        WRENCH.replace("/w", "/a"),
        CAMERA.replace("/c", "/z").replace("/Image", "/CompressedImage"),
    ));
    let words = "at most 1.0 MB/s with record_to, and what is not known: /a (no expected_rate_hz), \
                 /c (no max_width_px), /z (compressed)";
    assert_eq!(found.words(), words);
    let nothing = report(&format!("  w: {{{WRENCH}}}\n")).words();
    assert_eq!(nothing, "not known with record_to: /w (no expected_rate_hz)");
}

#[test]
fn a_topic_of_several_streams_counts_once() {
    let found = report(&format!(
        "  w: {{{WRENCH}}}\n  v: {{{WRENCH}, expected_rate_hz: 100}}\n  u: {{{WRENCH}, \
         expected_rate_hz: 50}}\n"
    ));
    assert_eq!((found.bytes_per_second, found.unknown.len()), (102_400.0, 0));
}
