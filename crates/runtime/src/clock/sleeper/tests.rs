use super::*;
use robocache_testing::ended;

const US: Duration = Duration::from_micros(1);

fn sleeper(period: Duration) -> Sleeper {
    Sleeper::of_this_thread(period)
}

#[test]
fn it_is_never_awake_too_soon() {
    let mut sleeper = sleeper(10_000 * US);
    for at in 0..50 {
        let began = Instant::now();
        let left = (at * 41 % 700) * US;
        sleeper.wait(left, Duration::from_millis(50));
        assert!(began.elapsed() >= left);
    }
}

/// A sleeper that has often woken this late.
fn usually(late: Duration) -> Sleeper {
    let mut sleeper = sleeper(10_000 * US);
    (0..200).for_each(|_| sleeper.woke(late));
    sleeper
}

#[test]
fn the_busy_wait_covers_usual_wake_ups_and_a_single_late_one_hardly_counts() {
    let mut sleeper = usually(80 * US);
    assert!((79 * US..=80 * US).contains(&sleeper.early));
    sleeper.woke(Duration::from_secs(1));
    assert!((130 * US..140 * US).contains(&sleeper.early));
    (0..400).for_each(|_| sleeper.woke(20 * US));
    assert!((20 * US..22 * US).contains(&sleeper.early));
    // One in four is later.
    (0..800).for_each(|k| sleeper.woke(if k % 4 == 0 { 120 * US } else { 20 * US }));
    assert!((80 * US..110 * US).contains(&sleeper.early), "{:?}", sleeper.early);
}

#[test]
fn a_sleep_ends_as_early_as_wake_ups_are_late() {
    assert_eq!(sleeper(10_000 * US).sleep_of(1_000 * US), 1_000 * US);
    let sleeper = usually(200 * US);
    assert!((800 * US..=802 * US).contains(&sleeper.sleep_of(1_000 * US)));
    assert_eq!(sleeper.sleep_of(150 * US), MOMENT);
}

#[test]
fn the_busy_wait_has_limits() {
    for (period, most) in [(100_000 * US, 500 * US), (10_000 * US, 500 * US), (1_000 * US, 50 * US)]
    {
        let mut sleeper = sleeper(period);
        (0..200).for_each(|_| sleeper.woke(Duration::from_secs(1)));
        assert!((most.saturating_sub(US)..=most).contains(&sleeper.early), "{:?}", sleeper.early);
    }
}

#[test]
fn a_long_wait_is_a_slice_and_no_busy_wait() {
    let wait = || {
        let mut sleeper = usually(300 * US);
        let early = sleeper.early;
        sleeper.wait(Duration::from_secs(3600), Duration::from_millis(5));
        assert_eq!(sleeper.early, early);
    };
    ended("the slice", std::thread::spawn(wait));
}

#[test]
fn the_timers_of_this_thread_have_no_slack() {
    let of_a_new_thread = || {
        sleeper(10_000 * US);
        nix::sys::prctl::get_timerslack().unwrap()
    };
    assert_eq!(std::thread::spawn(of_a_new_thread).join().unwrap(), 1);
}
