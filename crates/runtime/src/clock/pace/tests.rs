use super::*;

const MS: i64 = 1_000_000;

#[test]
fn a_clock_at_half_speed_is_interpolated_and_never_reaches_the_next_step() {
    let mut pace = Pace::default();
    let real = Duration::from_millis;
    pace.note(25 * MS, real(50));
    pace.note(25 * MS, real(50));
    assert_eq!((pace.step_ns(), pace.past_reading_ns(real(10))), (None, 0));
    pace.note(25 * MS, real(50));
    assert_eq!(pace.step_ns(), Some(25 * MS));
    assert_eq!(pace.past_reading_ns(real(10)), 5 * MS);
    assert_eq!(pace.past_reading_ns(real(60_000)), 25 * MS - 1);
    // A pause and a burst.
    pace.note(25 * MS, real(90_000));
    pace.note(25 * MS, Duration::ZERO);
    assert_eq!(pace.past_reading_ns(real(10)), 5 * MS);
    // A single step: the next reading may be as near again.
    pace.note(MS, real(2));
    assert_eq!(pace.past_reading_ns(real(10)), MS - 1);
}
