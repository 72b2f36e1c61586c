//! A motion in cells of equal time.

use super::motion::Piece;
use crate::time::Stamp;

/// A motion is compared with its mean over this time, so that slow changes do not count \[ns\].
const TREND_NS: i64 = 1_000_000_000;

/// What is added to a speed before its logarithm is taken, as a share of the mean speed.
const FLOOR: f64 = 0.1;

/// The speed in each cell, and whether it is known.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// 0 where it is not known.
    pub values: Vec<f64>,
    pub known: Vec<bool>,
    cell_ns: i64,
    /// The median length of the pieces \[ns\].
    pub usual_ns: i64,
    /// The mean speed.
    level: f64,
}

impl Grid {
    /// The mean speed in each cell from `first` to `last`. A piece has its speed over all of its length, so that
    /// the grid is neither ahead nor behind.
    pub fn new(pieces: &[Piece], first: Stamp, last: Stamp, cell_ns: i64) -> Grid {
        let count = (last.since(first) / cell_ns + 1) as usize;
        let (mut sums, mut covered) = (vec![0.0; count], vec![0_i64; count]);
        for piece in pieces {
            let (from, to) = (piece.from.since(first), piece.to.since(first));
            for cell in
                (from / cell_ns) as usize..=((to - 1) / cell_ns).min(count as i64 - 1) as usize
            {
                let begins = cell as i64 * cell_ns;
                let part = to.min(begins + cell_ns) - from.max(begins);
                sums[cell] += piece.speed * part as f64;
                covered[cell] += part;
            }
        }
        let mut lengths: Vec<i64> = pieces.iter().map(|piece| piece.to.since(piece.from)).collect();
        lengths.sort_unstable();
        let known: Vec<bool> = covered.iter().map(|covered| 2 * covered >= cell_ns).collect();
        let values = sums.iter().zip(&covered).zip(&known);
        let values =
            values.map(|((sum, covered), known)| if *known { sum / *covered as f64 } else { 0.0 });
        let usual_ns = lengths.get(lengths.len() / 2).copied().unwrap_or(cell_ns);
        Grid { values: values.collect(), known, cell_ns, usual_ns, level: 0.0 }
    }

    /// Smoothed over `window_ns` and without its trend, with a mean of 0. All windows are symmetric: they shift
    /// nothing. The logarithm makes a stop count as much as a fast motion, and whatever the sensor's gain is.
    pub fn prepared(&self, window_ns: i64) -> Grid {
        let half = |ns: i64| (ns / self.cell_ns / 2) as usize;
        let mut grid = self.smoothed(half(window_ns)).smoothed(half(window_ns));
        let count = grid.known.iter().filter(|known| **known).count().max(1);
        grid.level = grid.values.iter().sum::<f64>() / count as f64;
        let floor = FLOOR * grid.level;
        if floor > 0.0 {
            grid.values.iter_mut().for_each(|value| *value = (value.max(0.0) + floor).ln());
        }
        let trend = grid.smoothed(half(TREND_NS));
        for (at, value) in grid.values.iter_mut().enumerate() {
            grid.known[at] &= trend.known[at];
            *value = if grid.known[at] { *value - trend.values[at] } else { 0.0 };
        }
        grid
    }

    /// The mean over a cell and `half` cells at each side, as far as they are known; known if the cell is.
    fn smoothed(&self, half: usize) -> Grid {
        let mut sums = vec![0.0; self.values.len() + 1];
        let mut counts = vec![0_u32; self.values.len() + 1];
        for (at, (value, known)) in self.values.iter().zip(&self.known).enumerate() {
            sums[at + 1] = sums[at] + if *known { *value } else { 0.0 };
            counts[at + 1] = counts[at] + u32::from(*known);
        }
        let value = |at: usize| {
            // As many cells at each side, also at the ends.
            let half = half.min(at).min(self.values.len() - 1 - at);
            let (from, to) = (at - half, at + half + 1);
            match counts[to] - counts[from] {
                0 => 0.0,
                count => (sums[to] - sums[from]) / f64::from(count),
            }
        };
        let values = (0..self.values.len()).map(|at| if self.known[at] { value(at) } else { 0.0 });
        Grid { values: values.collect(), known: self.known.clone(), ..*self }
    }

    /// How long a cell is \[ns\].
    pub fn cell_ns(&self) -> i64 {
        self.cell_ns
    }

    /// Whether it changes by more than the rounding of its sums.
    pub fn moves(&self) -> bool {
        self.level > 0.0 && self.deviation() > 1e-6
    }

    /// The standard deviation where it is known.
    fn deviation(&self) -> f64 {
        let known =
            || self.values.iter().zip(&self.known).filter(|(_, known)| **known).map(|(v, _)| *v);
        let count = known().count().max(1) as f64;
        let mean = known().sum::<f64>() / count;
        (known().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}
