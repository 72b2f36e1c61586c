use super::*;

/// A group of an angle and a joint that slides, with a tick each 10 ms, by its number.
pub(in crate::view) fn group(ticks: &[(i64, Option<f64>)]) -> GroupTrack {
    let shown = |(number, value): &(i64, Option<f64>)| CommandShown {
        tick: (1, *number),
        stamp: Stamp::from_nanos(number * 10_000_000),
        stage: Stage::Following,
        sends: value.is_some(),
        turns: false,
    };
    GroupTrack {
        name: "arm".into(),
        joints: vec!["turning".into(), "sliding".into()],
        angular: vec![true, false],
        interface: "position".into(),
        ticks: ticks.iter().map(shown).collect(),
        values: ticks.iter().flat_map(|(_, value)| [value.unwrap_or(f64::NAN); 2]).collect(),
        clipped: vec![0; 2],
        ..GroupTrack::default()
    }
}

/// A chunk that tick 3 finds, with a row each 20 ms from tick `first` on.
fn chunk(first: i64, rows_late: usize, values: &[f64]) -> ChunkShown {
    let stamp = |row: usize| Stamp::from_nanos((first + 2 * row as i64) * 10_000_000);
    ChunkShown {
        sequence: 1,
        tick: (1, 3),
        found: Stamp::from_nanos(30_000_000),
        refused: None,
        counts: rows_late < values.len(),
        rows_late,
        instants: (0..values.len()).map(stamp).collect(),
        values: values.iter().flat_map(|value| [*value; 2]).collect(),
    }
}

#[test]
fn a_line_has_a_gap_where_no_command_is_and_where_a_tick_is_missing() {
    let group = group(&[(1, Some(1.0)), (2, None), (3, Some(2.0)), (5, Some(3.0)), (6, Some(4.0))]);
    let line: Vec<_> = group.line(0).map(|(stamp, value)| (stamp.nanos(), value)).collect();
    let at = |number: i64| number * 10_000_000;
    let values: Vec<i64> =
        line.iter().filter(|(_, value)| value.is_finite()).map(|(at, _)| *at).collect();
    assert_eq!(values, [at(1), at(3), at(5), at(6)]);
    let gaps: Vec<i64> =
        line.iter().filter(|(_, value)| value.is_nan()).map(|(at, _)| *at).collect();
    assert_eq!(gaps, [at(2), at(5) - 1]);
}

#[test]
fn the_rows_of_an_angle_are_drawn_at_the_turn_of_the_commands() {
    let ticks: Vec<(i64, Option<f64>)> =
        (0..20).map(|at| (at, (at > 4).then_some(TAU + 0.5))).collect();
    let turned = |first, late, values: &[f64]| {
        let chunks = vec![chunk(first, late, values)];
        let mut group = GroupTrack { chunks, ..group(&ticks) };
        group.turn_rows();
        let of = |joint: usize| -> Vec<f64> {
            let rows = group.rows(joint, true).chain(group.rows(joint, false));
            rows.map(|(_, _, value)| value).collect()
        };
        assert_eq!(of(1), values, "a joint that slides has no turns");
        of(0)
    };
    // Tick 5 has the first command. The second row is its last one before.
    assert_eq!(turned(2, 1, &[-2.0, 0.25, 5.0]), [-2.0 + TAU, 0.25 + TAU, 5.0 + TAU]);
    assert_eq!(turned(7, 0, &[0.75, 1.0]), [0.75 + TAU, 1.0 + TAU]);
    assert_eq!(turned(5, 0, &[TAU + 1.0, TAU]), [TAU + 1.0, TAU], "they are there");
    // No command is at one of its rows.
    assert_eq!(turned(40, 0, &[0.75, 1.0]), [0.75, 1.0]);
    assert_eq!(turned(0, 2, &[0.75, 1.0]), [0.75, 1.0]);
    // All rows were past, and commands went on.
    let ticks: Vec<(i64, Option<f64>)> = (0..20).map(|at| (at, Some(-TAU))).collect();
    let mut late = GroupTrack { chunks: vec![chunk(-4, 2, &[0.75, 1.0])], ..group(&ticks) };
    late.turn_rows();
    assert_eq!(late.chunks[0].values, [0.75 - TAU, 0.75, 1.0 - TAU, 1.0]);
}
