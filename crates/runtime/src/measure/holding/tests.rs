use super::HoldingLine::{Begins, Ends};
use super::*;

const ARMS: StreamId = StreamId::new(0);
const GRIPPER: StreamId = StreamId::new(1);

/// Ticks that are 10 ms apart, and how many there were.
#[derive(Default)]
struct Ticks(Holding, i64);

impl Ticks {
    /// Serves ticks without a look at the lines.
    fn serve(&mut self, ticks: i64, by: impl Fn(i64) -> Option<StreamId>) {
        for tick in self.1..self.1 + ticks {
            self.0.note(Duration::from_millis(10 * tick.unsigned_abs()), tick, by(tick));
        }
        self.1 += ticks;
    }

    /// Serves ticks and takes the lines after each. Returns them, each with its tick.
    fn lines(
        &mut self,
        ticks: i64,
        by: impl Fn(i64) -> Option<StreamId>,
    ) -> Vec<(i64, HoldingLine)> {
        let mut lines = Vec::new();
        for tick in self.1..self.1 + ticks {
            self.serve(1, &by);
            lines.extend(self.0.take().map(|line| (tick, line)));
        }
        lines
    }
}

#[test]
fn each_begin_and_each_end_is_told() {
    let mut ticks = Ticks::default();
    let begins = |stream, first| (first, Begins { stream, first });
    let ends = |stream, first, ticks| (first, Ends { stream, first, ticks });
    assert_eq!(ticks.lines(200, |_| Some(ARMS)), [begins(ARMS, 0)]);
    assert_eq!(ticks.lines(800, |_| None), [ends(ARMS, 200, 200)]);
    // The same stream once more, 8 s later, and then another one instead.
    assert_eq!(ticks.lines(300, |_| Some(ARMS)), [begins(ARMS, 1000)]);
    assert_eq!(ticks.lines(300, |_| Some(GRIPPER)), [begins(GRIPPER, 1300)]);
    assert_eq!(ticks.lines(300, |_| None), [ends(GRIPPER, 1600, 300)]);
}

#[test]
fn a_line_that_comes_late_names_the_first_tick_of_what_it_tells() {
    let mut ticks = Ticks::default();
    let begins = |stream, first| Begins { stream, first };
    let ends = |stream, first, ticks| Ends { stream, first, ticks };
    assert_eq!(ticks.lines(30, |_| Some(ARMS)), [(0, begins(ARMS, 0))]);
    // A second after the line before.
    assert_eq!(ticks.lines(200, |_| None), [(100, ends(ARMS, 30, 30))]);
    // The end was refused once, at tick 30, and one late line is no flood: the next ones are a second apart, too.
    assert_eq!(ticks.lines(20, |_| Some(ARMS)), [(230, begins(ARMS, 230))]);
    let gripper = ticks.lines(100, |_| Some(GRIPPER));
    assert_eq!(gripper, [(330, begins(GRIPPER, 250))]);
    assert_eq!(ticks.lines(200, |_| None), [(430, ends(GRIPPER, 350, 100))]);
}

#[test]
fn ticks_that_are_held_back_in_turns_are_no_flood_and_the_last_line_is_true() {
    let mut ticks = Ticks::default();
    let told = ticks.lines(60_000, |tick| (tick % 2 == 0).then_some(ARMS));
    assert!((2..20).contains(&told.len()), "{told:?}");
    let held_back = 60_000 / 2;
    let told = [told, ticks.lines(100 * 140, |_| None)].concat();
    assert_eq!(ticks.0.said, None);
    let Some((_, Ends { first, .. })) = told.last() else { panic!("{told:?}") };
    assert!(*first < 60_000, "{told:?}");
    let ends = told.iter().map(|(_, line)| match line {
        Ends { ticks, .. } => *ticks,
        Begins { .. } => 0,
    });
    assert_eq!(ends.sum::<u64>(), held_back, "{told:?}");
    assert!(matches!(ticks.lines(1, |_| Some(ARMS))[..], [(_, Begins { stream: ARMS, .. })]));
}

#[test]
fn if_nobody_takes_the_lines_the_newest_ones_are_kept_in_order() {
    let mut ticks = Ticks::default();
    for _ in 0..10 {
        ticks.serve(200, |_| Some(ARMS));
        ticks.serve(200, |_| None);
    }
    ticks.serve(200, |_| Some(GRIPPER));
    let lines: Vec<_> = ticks.0.take().collect();
    assert_eq!(lines.len(), LINES);
    let first = |line: &HoldingLine| match *line {
        Begins { first, .. } | Ends { first, .. } => first,
    };
    let firsts: Vec<_> = lines.iter().map(first).collect();
    assert_eq!(firsts, [2600, 2800, 3000, 3200, 3400, 3600, 3800, 4000]);
    assert_eq!(lines[LINES - 1], Begins { stream: GRIPPER, first: 4000 });
    assert_eq!(ticks.0.take().count(), 0, "each line once");
}
