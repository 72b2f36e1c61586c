use super::*;

const MS: u64 = 1_000_000;

/// Wakes both witnesses every 50 ms from `from` to `to` \[ms\].
fn run(standstills: &Standstills, from: u64, to: u64) {
    for ms in (from..to).step_by(50) {
        standstills.awake_at(Witness::Tick, ms * MS);
        standstills.awake_at(Witness::Report, (ms + 7) * MS);
    }
}

#[test]
fn a_standstill_is_told_once() {
    let standstills = Standstills::default();
    run(&standstills, 10_000, 20_000);
    assert_eq!(standstills.newest(), None);
    run(&standstills, 23_000, 24_000);
    let stood = standstills.newest().unwrap();
    assert!((2_900..3_060).contains(&stood.as_millis()), "{stood:?}");
    assert_eq!(standstills.newest(), None);
    run(&standstills, 25_000, 26_000);
    assert!(standstills.newest().is_some());
}

#[test]
fn one_thread_that_was_held_up_shows_nothing() {
    let standstills = Standstills::default();
    run(&standstills, 10_000, 11_000);
    for ms in (11_000..14_000).step_by(50) {
        standstills.awake_at(Witness::Tick, ms * MS);
    }
    let held_up = standstills.awake_at(Witness::Report, 14_000 * MS);
    assert!(held_up.is_some_and(|time| time > Duration::from_secs(3)));
    assert_eq!(standstills.newest(), None);
    // Nor do two threads that were held up one after the other.
    for ms in (14_050..16_000).step_by(50) {
        standstills.awake_at(Witness::Report, ms * MS);
    }
    assert!(standstills.awake_at(Witness::Tick, 16_000 * MS).is_some());
    assert_eq!(standstills.newest(), None);
}

#[test]
fn a_thread_that_goes_on_later_than_the_other_shows_it_too() {
    let standstills = Standstills::default();
    run(&standstills, 10_000, 11_000);
    for ms in (14_000..16_000).step_by(50) {
        standstills.awake_at(Witness::Tick, ms * MS);
        assert_eq!(standstills.newest(), None);
    }
    standstills.awake_at(Witness::Report, 16_000 * MS);
    let stood = standstills.newest().unwrap();
    assert!((3_000..3_100).contains(&stood.as_millis()), "{stood:?}");
}
