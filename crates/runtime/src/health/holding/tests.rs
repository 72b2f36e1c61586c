use super::HoldingLine::{Begins, Ends};
use super::*;

const ARMS: StreamId = StreamId::new(0);
const GRIPPER: StreamId = StreamId::new(1);

/// The lines of ticks that are 10 ms apart, each with its tick.
struct Lines(Holding, u64);

impl Lines {
    fn of(&mut self, ticks: u64, by: impl Fn(u64) -> Option<StreamId>) -> Vec<(u64, HoldingLine)> {
        let lines = (self.1..self.1 + ticks).filter_map(|tick| {
            let line = self.0.note(Duration::from_millis(10 * tick), by(tick));
            line.map(|line| (tick, line))
        });
        let lines = lines.collect();
        self.1 += ticks;
        lines
    }
}

#[test]
fn each_begin_and_each_end_is_told() {
    let mut lines = Lines(Holding::default(), 0);
    assert_eq!(lines.of(200, |_| Some(ARMS)), [(0, Begins(ARMS))]);
    assert_eq!(lines.of(800, |_| None), [(200, Ends { stream: ARMS, ticks: 200 })]);
    // The same stream once more, 8 s later, and then another one instead.
    assert_eq!(lines.of(300, |_| Some(ARMS)), [(1000, Begins(ARMS))]);
    assert_eq!(lines.of(300, |_| Some(GRIPPER)), [(1300, Begins(GRIPPER))]);
    assert_eq!(lines.of(300, |_| None), [(1600, Ends { stream: GRIPPER, ticks: 300 })]);
}

#[test]
fn ticks_that_are_held_back_in_turns_are_no_flood_and_the_last_line_is_true() {
    let mut lines = Lines(Holding::default(), 0);
    let told = lines.of(60_000, |tick| tick.is_multiple_of(2).then_some(ARMS));
    assert!((2..20).contains(&told.len()), "{told:?}");
    lines.of(100 * 140, |_| None);
    assert_eq!(lines.0.said, None);
    assert!(matches!(lines.of(1, |_| Some(ARMS))[..], [(_, Begins(ARMS))]));
}
