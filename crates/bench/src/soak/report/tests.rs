use super::*;
use robocache_core::backend::Choice;

/// The problems of a soak of 10 s with 20 ticks to compare.
fn found(no_overruns: bool, spoil: impl FnOnce(&mut ThreadNotes)) -> Vec<String> {
    let backend = Choice::Cpu;
    let soak_s = 10;
    let device = 0;
    let repeats = 1;
    let case = None;
    let random_sizes = false;
    let options =
        Options { backend, device, repeats, case, soak_s, random_sizes, no_overruns, json: None };
    let probe = Probe { priority: 0, late: Vec::new(), missed: 0, stalls: Vec::new() };
    let mut parts = ThreadNotes {
        tick: Ticks::default(),
        processors: Processors::default(),
        priority: [0; 2],
        refused: 0,
        skipped: 0,
        waits: 0,
        pushes: Vec::new(),
        probe,
        checked: Checked { equal: 20, ..Checked::default() },
        memory: (MemoryUse { device: None, resident: None }, Vec::new()),
    };
    spoil(&mut parts);
    problems(&options, &parts)
}

#[test]
fn overruns_fail_where_a_tick_took_too_long_or_where_none_is_allowed() {
    assert!(found(true, |_| {}).is_empty());
    // Woke late, or copied.
    let late = |parts: &mut ThreadNotes| (parts.tick.missed, parts.tick.missed_copying) = (5, 2);
    assert!(found(false, late).is_empty());
    assert_eq!(found(true, late), ["overruns: expected none, found 5"]);
    let long = |parts: &mut ThreadNotes| (parts.tick.missed, parts.tick.missed_awake) = (5, 1);
    assert_eq!(found(false, long), ["overruns: expected none after a long tick, found 1"]);
}

#[test]
fn messages_that_are_not_sent_fail() {
    let problems = found(false, |parts| parts.refused = 3);
    assert!(problems[0].starts_with("refused pushes: expected none, found 3"), "{problems:?}");
}

#[test]
fn too_few_comparisons_fail_unless_input_was_late() {
    let problems = |equal: u64, unsettled: u64, waits: u64| {
        let problems = found(false, |parts| {
            (parts.checked.equal, parts.checked.unsettled) = (equal, unsettled);
            parts.waits = waits;
        });
        assert!(problems.iter().all(|problem| problem.starts_with("comparisons: ")));
        problems.len()
    };
    assert_eq!([problems(18, 0, 0), problems(17, 0, 0)], [0, 1]);
    assert_eq!([problems(1, 17, 0), problems(1, 16, 0), problems(0, 20, 0)], [0, 1, 1]);
    // Late because the messages waited for the comparison.
    assert_eq!([problems(17, 3, 1), problems(18, 2, 1)], [1, 0]);
}
