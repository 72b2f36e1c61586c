//! No text makes the parser panic.

use std::fmt::Write as _;

use proptest::prelude::{ProptestConfig, any, prop, proptest};
use proptest::sample::select;

use super::super::tests::reference_with_commands;
use super::super::*;
use crate::command::CommandGroup;
use crate::command::output::CommandType;
use crate::config::describe::Report;

#[test]
fn deep_nesting_and_alias_bombs_are_harmless() {
    for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000)] {
        assert!(parse(&text, "test.yaml").is_err());
    }
    let mut bomb = String::from("a0: &a0 [x, x]\n");
    for i in 1..60 {
        let _ = writeln!(bomb, "a{i}: &a{i} [*a{0}, *a{0}]", i - 1);
    }
    let error = parse(&bomb, "test.yaml").unwrap_err().to_string();
    assert!(error.contains("expected at most 262144 values, with what aliases repeat"), "{error}");
    assert!(parse("rate_hz: &a [*a]\n", "test.yaml").is_err());
    // Aliases that repeat little, but nest deeply.
    let mut chain = String::from("a0: &a0 [x]\n");
    for i in 1..1000 {
        let _ = writeln!(chain, "a{i}: &a{i} [*a{}]", i - 1);
    }
    let error = parse(&chain, "test.yaml").unwrap_err().to_string();
    assert_eq!(error, "test.yaml:24: expected at most 24 levels, found more");
}

/// A merge key repeats what it merges: mappings that merge each other grow with the square of their
/// number, and `defaults` with the number of streams.
#[test]
fn what_merge_keys_and_defaults_repeat_is_bounded() {
    let mut merges = String::from("a0: &a0 {k0: x}\n");
    for i in 1..5000 {
        let _ = writeln!(merges, "a{i}: &a{i} {{k{i}: x, <<: *a{}}}", i - 1);
    }
    let error = parse(&merges, "test.yaml").unwrap_err().to_string();
    assert!(error.contains("expected at most 262144 values, with what aliases repeat"), "{error}");
    let joints = "1, ".repeat(5000);
    let mut streams = format!("defaults: {{image: {{image: {{mean: [{joints}]}}}}}}\nstreams:\n");
    for i in 0..100 {
        let _ = writeln!(streams, "  s{i}: {{type: sensor_msgs/Image}}");
    }
    let error = parse(&streams, "test.yaml").unwrap_err().to_string();
    assert!(error.contains("expected at most 262144 values, with those of `defaults`"), "{error}");
    let fewer: String = streams.lines().take(12).map(|line| format!("{line}\n")).collect();
    assert!(
        parse(&fewer, "t.yaml").unwrap_err().to_string().contains("image.mean: expected a list")
    );
}

/// Parses the text. If it is a configuration, a report of it can be made; if not, each problem has
/// a line.
pub(super) fn assert_read(text: &str) {
    let problems = match parse(text, "m.yaml") {
        Ok(config) => {
            assert!(!Report::new(&config, &Prefixes::default()).to_string().is_empty());
            open_groups(&config);
            return;
        }
        Err(ConfigError::Invalid(problems)) => problems,
        Err(error) => panic!("{error}"),
    };
    assert!(!problems.is_empty());
    let lines = text.split(['\n', '\r']).count();
    for problem in problems {
        assert!((1..=lines + 1).contains(&problem.line), "{problem}");
    }
}

/// Takes the memory of all groups of commands.
fn open_groups(config: &Config) {
    let Some(commands) = &config.commands else { return };
    for spec in &commands.groups {
        let group = CommandGroup::new(spec, commands.grid);
        let output = CommandType::find(spec.output.ros_type).unwrap();
        drop(output.open(&group, spec.output.form));
    }
}

/// Numbers at which arithmetic and conversions often fail, and many of the largest for a key.
const NUMBERS: [&str; 24] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "0.000001",
    "5e-324",
    "0.1",
    "255",
    "1024",
    "2000",
    "4096",
    "8192",
    "10000",
    "100000",
    "1000000",
    "1048576",
    "1000000000",
    "1e308",
    "-1e308",
    "1e999",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "99999999999999999999",
];

/// The byte ranges of the keys and values of a file, without its comments.
fn words(text: &str) -> Vec<std::ops::Range<usize>> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    let mut words = Vec::new();
    let mut line_start = 0;
    for line in text.split_inclusive('\n') {
        let code = line.split('#').next().unwrap_or_default();
        let mut start = None;
        for (at, c) in code.char_indices().chain([(code.len(), ' ')]) {
            match (in_word(c), start) {
                (true, None) => start = Some(line_start + at),
                (false, Some(first)) => {
                    words.push(first..line_start + at);
                    start = None;
                }
                _ => {}
            }
        }
        line_start += line.len();
    }
    words
}

#[test]
fn extreme_values_never_panic() {
    let reference = reference_with_commands();
    let words = words(&reference);
    assert!(words.len() > 250, "{}", words.len());
    for word in words {
        for other in NUMBERS.into_iter().chain(["\"\"", "[]", "{}", "a"]) {
            let mut text = reference.clone();
            text.replace_range(word.clone(), other);
            assert_read(&text);
        }
    }
}

/// Pieces of YAML that change what is around them.
const PIECES: [&str; 26] = [
    "\t",
    "\n",
    "  ",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a",
    "<<: *a",
    "defaults: {image: {max_age_ms: 1}}\n",
    "!!int ",
    "|\n",
    ">",
    "\"",
    "'",
    "---\n",
    "...\n",
    ".inf",
    "-1e308",
    "99999999999999999999",
    "\u{0}",
    "\u{feff}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn mutations_of_the_reference_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..32, any::<u8>(), 0usize..80), 1..6)
    ) {
        let mut bytes = reference_with_commands().into_bytes();
        for (at, kind, byte, cut) in edits {
            let at = at.index(bytes.len());
            match kind {
                0..26 => drop(bytes.splice(at..at, PIECES[kind].bytes())),
                26..29 => bytes[at] = byte,
                29 => bytes.truncate(at + 1),
                _ => drop(bytes.drain(at..(at + cut).min(bytes.len() - 1).max(at))),
            }
        }
        assert_read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn combinations_of_extreme_numbers_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), select(&NUMBERS[..])), 2..5)
    ) {
        let mut text = reference_with_commands();
        for (at, number) in edits {
            let mut words = words(&text);
            words.retain(|word| text[word.clone()].parse::<f64>().is_ok());
            text.replace_range(words[at.index(words.len())].clone(), number);
        }
        assert_read(&text);
    }
}
