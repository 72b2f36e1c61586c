use super::*;

const MS: Duration = Duration::from_millis(1);
const START: Stamp = Stamp::from_nanos(1_795_000_000_000_000_000);

/// Readings of the monotonic clock, the time since the boot and the system's clock.
fn read(time: &TimeSource) -> (Instant, u64, Stamp) {
    (time.monotonic(), time.boot_ns().unwrap(), time.system())
}

/// How far each clock moved \[ms\].
fn moved(before: (Instant, u64, Stamp), after: (Instant, u64, Stamp)) -> [i64; 3] {
    let monotonic = after.0.duration_since(before.0).as_nanos() as i64;
    [monotonic, (after.1 - before.1) as i64, after.2.since(before.2)].map(|ns| ns / 1_000_000)
}

#[test]
fn real_clocks_are_those_of_the_machine() {
    let time = TimeSource::real();
    let before = Instant::now();
    let first = read(&time);
    let second = read(&time);
    assert!(before <= first.0 && first.0 <= second.0 && second.0 <= Instant::now());
    assert!(first.1 > 0 && first.1 <= second.1);
    let apart = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    // Somebody may set the clock meanwhile, but not by a year.
    assert!((apart - first.2.nanos()).abs() < 365 * 86_400 * 1_000_000_000);
}

#[test]
fn virtual_clocks_stand_until_they_are_moved_and_clones_share_them() {
    let owner = VirtualTime::starting_at(START);
    let time = owner.source();
    let other = time.clone();
    let start = read(&time);
    assert_eq!((read(&other), start.2), (start, START));
    assert_ne!(start.1, 0, "zero stands for never");
    owner.advance(250 * MS);
    assert_eq!(moved(start, read(&time)), [250; 3]);
    assert_eq!(read(&time), read(&other));
}

#[test]
fn a_suspend_stops_the_monotonic_clock_and_a_user_sets_the_systems_alone() {
    let owner = VirtualTime::starting_at(START);
    let time = owner.source();
    let start = read(&time);
    owner.suspend(3000 * MS);
    assert_eq!(moved(start, read(&time)), [0, 3000, 3000]);
    owner.set_system(START.offset(-1_000_000_000));
    assert_eq!(moved(start, read(&time)), [0, 3000, -1000]);
    owner.advance(10 * MS);
    assert_eq!(moved(start, read(&time)), [10, 3010, -990]);
}

#[test]
fn a_wait_ends_when_the_source_says_so() {
    let owner = VirtualTime::starting_at(START);
    let time = owner.source();
    let begin = time.monotonic();
    let end = begin + 50 * MS;
    assert_eq!((time.since(begin), time.until(end)), (Duration::ZERO, 50 * MS));
    owner.advance(20 * MS);
    assert_eq!((time.since(begin), time.until(end)), (20 * MS, 30 * MS));
    owner.advance(40 * MS);
    assert_eq!((time.since(begin), time.until(end)), (60 * MS, Duration::ZERO));
    assert_eq!(time.since(end + 100 * MS), Duration::ZERO, "still to come");
}

#[test]
fn readings_show_that_somebody_looks() {
    let owner = VirtualTime::starting_at(START);
    let time = owner.source();
    assert_eq!(owner.readings(), 0);
    let end = time.monotonic();
    time.until(end);
    time.since(end);
    assert_eq!(owner.readings(), 3);
}

#[test]
fn runs_that_begin_at_different_instants_differ_and_none_is_zero() {
    let owner = VirtualTime::starting_at(Stamp::ZERO);
    let time = owner.source();
    let first = time.draw_run();
    owner.advance(250 * MS);
    let second = time.draw_run();
    owner.advance(MS);
    let runs = [0, first, second, time.draw_run()];
    assert!(runs.is_sorted_by(|before, after| before < after), "{runs:?}");
}
