use super::*;
use robocache_core::spec::InputId;

fn at(s: i64) -> Stamp {
    Stamp::from_nanos(s * NANOS_PER_S)
}

fn gap(first: u64, last: u64) -> Gap {
    let input = InputId::new(0);
    let epoch = Epoch::default();
    Gap { input, messages: last - first + 1, first, last, from: None, epoch }
}

fn whole(numbers: &mut Numbers, number: u64, now: Stamp) {
    numbers.announced(number, None, now);
    numbers.came(number);
}

#[test]
fn what_is_missing_without_a_word_is_found_and_disorder_is_not() {
    let mut numbers = Numbers::default();
    for number in [1, 3, 2, 4, 8] {
        whole(&mut numbers, number, at(0));
    }
    numbers.told(&gap(5, 5));
    assert_eq!(numbers.lost(at(0)), None);
    let lost = numbers.lost(at(2));
    assert_eq!(lost, Some(Lost { messages: 2, last: 7, after: None }));
    assert_eq!(numbers.lost(at(9)), None);
    numbers.announced(u64::MAX, None, at(9));
    assert_eq!(numbers.lost(at(99)), None);
}

#[test]
fn a_message_without_its_bytes_is_missing() {
    let mut numbers = Numbers::default();
    whole(&mut numbers, 1, at(0));
    numbers.announced(2, None, at(0));
    whole(&mut numbers, 3, at(0));
    assert_eq!(numbers.lost(at(1)), Some(Lost { messages: 1, last: 2, after: None }));
}

#[test]
fn what_was_seen_a_moment_ago_is_not_lost_yet() {
    let mut numbers = Numbers::default();
    whole(&mut numbers, 2, at(0));
    whole(&mut numbers, 4, at(5));
    assert_eq!(numbers.lost(at(5)), Some(Lost { messages: 1, last: 1, after: None }));
    numbers.came(3);
    assert_eq!(numbers.lost(at(9)), None);
}

#[test]
fn a_gap_does_not_hide_what_other_inputs_lack() {
    // The odd numbers are of an input that lost all five; of the other, 4 never came.
    let wide = Gap { messages: 5, ..gap(1, 9) };
    for lacks in [Some(4), None] {
        let mut numbers = Numbers::default();
        numbers.told(&wide);
        for number in [2, 4, 6, 8, 10].into_iter().filter(|number| Some(*number) != lacks) {
            whole(&mut numbers, number, at(0));
        }
        assert_eq!(numbers.lost(at(0)), None);
        // It may have been any of them, so what follows the first is doubtful.
        let lost = lacks.map(|_| Lost { messages: 1, last: 9, after: None });
        assert_eq!(numbers.lost(at(1)), lost);
        assert!(numbers.wide.is_empty());
    }
    // The recorder reports a loss before it writes what waits.
    let mut numbers = Numbers::default();
    whole(&mut numbers, 1, at(0));
    numbers.told(&Gap { messages: 2, ..gap(3, 5) });
    numbers.announced(2, None, at(0));
    whole(&mut numbers, 4, at(0));
    whole(&mut numbers, 6, at(0));
    assert_eq!(numbers.lost(at(1)).map(|lost| lost.messages), Some(1), "2 has no bytes");
}

#[test]
fn a_gap_cuts_runs_and_memory_is_bounded() {
    let mut numbers = Numbers::default();
    whole(&mut numbers, 10, at(0));
    numbers.told(&gap(4, 6));
    assert_eq!(numbers.lost(at(1)), Some(Lost { messages: 6, last: 9, after: None }));
    let mut numbers = Numbers::default();
    let steps = 3 * MOST_RUNS as u64;
    let step = MOST_AHEAD;
    for k in 1..=steps {
        whole(&mut numbers, k * step, at(0));
    }
    assert!(numbers.missing.len() <= MOST_RUNS);
    let lost = numbers.lost(at(1)).unwrap();
    assert_eq!((lost.messages, lost.last), (steps * (step - 1), steps * step - 1));
}
