use super::*;
use robocache_core::spec::InputId;

fn at(s: i64) -> Stamp {
    Stamp::from_nanos(s * NANOS_PER_S)
}

fn arrival(number: u64) -> (Epoch, Stamp) {
    (Epoch::default(), Stamp::from_nanos(number as i64))
}

fn gap(first: u64, last: u64) -> Gap {
    let input = InputId::new(0);
    let epoch = Epoch::default();
    Gap { input, messages: last - first + 1, first, last, from: None, epoch }
}

fn whole(numbers: &mut Numbers, number: u64, now: Stamp) {
    numbers.announced(number, Some(arrival(number)), now);
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
    assert_eq!(numbers.lost(at(2)), Some(Some(arrival(4))));
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
    assert_eq!(numbers.lost(at(1)), Some(Some(arrival(1))));
}

#[test]
fn what_was_seen_a_moment_ago_is_not_lost_yet() {
    let mut numbers = Numbers::default();
    whole(&mut numbers, 2, at(0));
    whole(&mut numbers, 4, at(5));
    assert_eq!(numbers.lost(at(5)), Some(None));
    numbers.came(3);
    assert_eq!(numbers.lost(at(9)), None);
}

#[test]
fn what_a_gap_explains_is_not_lost() {
    // The odd numbers are of an input that lost all; the recorder tells that before it writes what waits.
    let mut numbers = Numbers::default();
    whole(&mut numbers, 2, at(0));
    numbers.told(&gap(1, 9));
    for number in [4, 6, 8, 10] {
        whole(&mut numbers, number, at(0));
    }
    assert_eq!(numbers.lost(at(1)), None);
    assert!(numbers.missing.is_empty());
}

#[test]
fn memory_is_bounded() {
    let mut numbers = Numbers::default();
    for k in 1..=3 {
        whole(&mut numbers, k * MOST_AHEAD, at(0));
        numbers.told(&gap(k, k));
    }
    assert!(numbers.missing.len() <= MOST_MISSING);
    assert_eq!(numbers.lost(at(1)), Some(None));
}
