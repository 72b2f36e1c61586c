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
        // A missing step has no place, but it is a gap.
        if !y.is_finite() {
            gap = true;
            continue;
        }
        if !x.is_finite() || x < -1.0 || x > columns as f64 + 1.0 {
            continue;
        }
        let at = x.max(0.0) as usize;
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
mod tests;
