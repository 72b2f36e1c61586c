//! Fewer points of a curve, without its extremes getting lost.

/// A point of a curve in the chart's own coordinates.
pub(super) type Point = (f64, f64);

/// The runs of a curve between its gaps. Of the points in each of `columns` columns of width 1, a run keeps
/// the first, the lowest, the highest and the last. A gap, where y is not finite, within a column is too
/// narrow to be seen. `points` are ordered by x; those whose x is not finite or outside are left out.
pub(super) fn runs(points: impl IntoIterator<Item = Point>, columns: usize) -> Vec<Vec<Point>> {
    let mut runs = vec![Vec::new()];
    let mut column: Option<Column> = None;
    let mut gap = false;
    for (x, y) in points {
        if !x.is_finite() || x < -1.0 || x > columns as f64 + 1.0 {
            continue;
        }
        let at = x.max(0.0) as usize;
        if !y.is_finite() {
            gap = true;
            continue;
        }
        match &mut column {
            Some(column) if column.at == at => column.note((x, y)),
            open => {
                if let Some(done) = open.take() {
                    done.write(&mut runs);
                }
                if gap {
                    runs.push(Vec::new());
                }
                *open = Some(Column::new(at, (x, y)));
            }
        }
        gap = false;
    }
    if let Some(done) = column {
        done.write(&mut runs);
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// The points that are kept of a column, with their places in the curve.
struct Column {
    at: usize,
    points: usize,
    first: Point,
    low: (usize, Point),
    high: (usize, Point),
    last: Point,
}

impl Column {
    fn new(at: usize, point: Point) -> Self {
        Column { at, points: 1, first: point, low: (0, point), high: (0, point), last: point }
    }

    fn note(&mut self, point: Point) {
        if point.1 < self.low.1.1 {
            self.low = (self.points, point);
        }
        if point.1 > self.high.1.1 {
            self.high = (self.points, point);
        }
        self.last = point;
        self.points += 1;
    }

    fn write(self, runs: &mut [Vec<Point>]) {
        let Some(run) = runs.last_mut() else { return };
        let mut kept = [(0, self.first), self.low, self.high, (self.points - 1, self.last)];
        kept.sort_by_key(|(at, _)| *at);
        let mut before = None;
        for (at, point) in kept {
            if before != Some(at) {
                run.push(point);
            }
            before = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extremes_first_and_last_stay() {
        let spike = |at: usize| if at == 51_234 { 9.0 } else { (at % 7) as f64 / 7.0 };
        let made = runs((0..100_000).map(|at| (at as f64 / 1000.0, spike(at))), 100);
        let [run] = &made[..] else { panic!("{} runs", made.len()) };
        assert!(run.len() <= 400);
        assert_eq!((run[0], run[run.len() - 1].0), ((0.0, 0.0), 99.999));
        assert!(run.contains(&(51.234, 9.0)));
        assert!(run.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (0.2, 3.0), (0.4, 2.0), (5.0, 2.0)];
        assert_eq!(runs(points, 10), [points.to_vec()]);
        assert!(runs([], 10).is_empty());
        assert!(runs([(f64::NAN, 1.0), (99.0, 1.0), (1.0, f64::NAN)], 10).is_empty());
    }

    #[test]
    fn a_gap_ends_a_run() {
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (3.1, f64::NAN)];
        assert_eq!(runs(points, 10), [vec![(0.0, 1.0), (1.0, 1.0)], vec![(3.0, 1.0)]]);
    }
}
