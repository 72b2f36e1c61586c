use super::*;
use robocache_ops::time::Stamp;
use robocache_runtime::VirtualTime;
use std::sync::{Arc, Mutex};
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Formats events into lines.
struct Lines(Console, Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> tracing_subscriber::Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        let mut line = String::new();
        event.record(&mut text);
        self.0.line(&mut line, event.metadata(), &text.message).unwrap();
        self.1.lock().unwrap().push(line);
    }
}

fn line_of(format: &str) -> String {
    let time = VirtualTime::starting_at(Stamp::from_nanos(1_795_000_000_012_345_678)).source();
    let console = Console { parts: parse(format), colors: false, offset: UtcOffset::UTC, time };
    let lines = Arc::default();
    let subscriber = tracing_subscriber::registry().with(Lines(console, Arc::clone(&lines)));
    tracing::subscriber::with_default(subscriber, || tracing::warn!(stream = 3, "no message"));
    lines.lock().unwrap().remove(0)
}

#[test]
fn lines_look_like_those_of_other_nodes() {
    assert_eq!(line_of(FORMAT), "[WARN] [1795000000.012345678] [fusion_node]: no message stream=3");
}

#[test]
fn every_token_of_the_variable_is_known_and_others_stay() {
    let line = line_of("{time_as_nanoseconds}|{date_time_with_ms}|{name}|{unknown}{|\\t\\q");
    assert_eq!(line, "1795000000012345678|2026-11-18 11:06:40.012|fusion_node|{unknown}{|\t\\q");
    let place = line_of("{file_name}:{line_number} {function_name}()");
    assert!(place.contains("tests.rs:") && place.ends_with("::console::tests()"), "{place}");
}
