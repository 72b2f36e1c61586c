//! At which shift two motions are most alike.

use super::grid::Grid;
use crate::random::Random;

/// Most blocks.
const MOST_BLOCKS: usize = 256;
/// Length of a block \[ns\]. It must be longer than the motion remembers.
const BLOCK_NS: i64 = 2_000_000_000;
/// Bootstrap resamples.
const RESAMPLES: usize = 400;
/// Over which time the motions' own correlation is summed \[ns\], and in which steps.
const MEMORY_NS: i64 = 5_000_000_000;
const MEMORY_STEP_NS: i64 = 20_000_000;

/// Sums over pairs of cells: their number, both, their squares, their product.
type Sums = [f64; 6];

/// The sums of each block at each shift.
pub(super) struct Curve {
    /// By block, then by shift from `-most` to `most` cells.
    blocks: Vec<Vec<Sums>>,
    most: usize,
}

/// A peak of the correlations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    /// Where it is, to a part of a cell: what must be added to the second motion's times.
    pub cells: f64,
    /// The correlation there.
    pub height: f64,
    at: usize,
}

impl Curve {
    /// Compares a reference with a motion that is shifted by up to `most` cells.
    pub fn new(reference: &Grid, motion: &Grid, most: usize) -> Curve {
        let cells = reference.values.len();
        let length = ((BLOCK_NS / reference.cell_ns()) as usize).max(cells / MOST_BLOCKS + 1);
        let mut blocks = vec![vec![[0.0; 6]; 2 * most + 1]; cells.div_ceil(length)];
        for (block, sums) in blocks.iter_mut().enumerate() {
            let range = block * length..((block + 1) * length).min(cells);
            for (shift, sums) in sums.iter_mut().enumerate() {
                // The motion's cell k + most - shift comes to the reference's cell k.
                for k in range.clone() {
                    let Some(other) = (k + most).checked_sub(shift).filter(|other| *other < cells)
                    else {
                        continue;
                    };
                    if !(reference.known[k] && motion.known[other]) {
                        continue;
                    }
                    let (x, y) = (reference.values[k], motion.values[other]);
                    for (sum, add) in sums.iter_mut().zip([1.0, x, y, x * x, y * y, x * y]) {
                        *sum += add;
                    }
                }
            }
        }
        Curve { blocks, most }
    }

    /// Cells in which both are known, at no shift.
    pub fn pairs(&self) -> u64 {
        self.blocks.iter().map(|sums| sums[self.most][0]).sum::<f64>() as u64
    }

    /// Pearson's correlation at each shift.
    pub fn correlations(&self) -> Vec<f64> {
        self.of(0..self.blocks.len())
    }

    /// The same of the first and the second half of the blocks.
    pub fn halves(&self) -> [Vec<f64>; 2] {
        let middle = self.blocks.len() / 2;
        [self.of(0..middle), self.of(middle..self.blocks.len())]
    }

    fn of(&self, blocks: impl Iterator<Item = usize>) -> Vec<f64> {
        let mut all = vec![[0.0; 6]; 2 * self.most + 1];
        for block in blocks {
            for (all, sums) in all.iter_mut().zip(&self.blocks[block]) {
                all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
            }
        }
        all.iter().map(pearson).collect()
    }

    /// The standard error of the best shift, and half of the interval that holds 95 % of the resamples \[cells\].
    ///
    /// The blocks are drawn with replacement, and the peak is sought again: the block bootstrap of Künsch, "The
    /// jackknife and the bootstrap for general stationary observations", Annals of Statistics 17(3), 1989. Within
    /// a block the motion keeps its memory. The numbers are the same in every run.
    pub fn bootstrap(&self, reach: usize) -> [f64; 2] {
        let mut random = Random::new(1);
        let count = self.blocks.len();
        let mut peaks: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn: Vec<usize> =
                    (0..count).map(|_| random.below(count as u64) as usize).collect();
                Shift::best(&self.of(drawn.into_iter()), reach).cells
            })
            .collect();
        peaks.sort_unstable_by(f64::total_cmp);
        let mean = peaks.iter().sum::<f64>() / RESAMPLES as f64;
        let variance =
            peaks.iter().map(|peak| (peak - mean).powi(2)).sum::<f64>() / RESAMPLES as f64;
        let at = |share: f64| peaks[(share * (RESAMPLES - 1) as f64).round() as usize];
        [variance.sqrt(), (at(0.975) - at(0.025)) / 2.0]
    }
}

fn pearson([n, x, y, xx, yy, xy]: &Sums) -> f64 {
    let variances = (n * xx - x * x) * (n * yy - y * y);
    if *n > 1.0 && variances > 0.0 { (n * xy - x * y) / variances.sqrt() } else { 0.0 }
}

impl Shift {
    /// The highest correlation, and between the cells the top of a parabola that fits those within `reach` best.
    pub fn best(r: &[f64], reach: usize) -> Shift {
        let at = (0..r.len()).fold(0, |best, at| if r[at] > r[best] { at } else { best });
        Self::refined(r, at, reach)
    }

    fn refined(r: &[f64], at: usize, reach: usize) -> Shift {
        let middle = (r.len() / 2) as f64;
        let reach = reach.min(at).min(r.len() - 1 - at);
        let top =
            top(&r[at - reach..=at + reach]).unwrap_or(0.0).clamp(-(reach as f64), reach as f64);
        Shift { cells: at as f64 + top - middle, height: r[at], at }
    }

    /// Whether a larger search could find a higher correlation.
    pub fn is_at_edge(&self, r: &[f64]) -> bool {
        self.at < 2 || self.at + 2 >= r.len()
    }

    /// Another peak that is at least this high in relation, behind a valley.
    pub fn second(&self, r: &[f64], relation: f64) -> Option<Shift> {
        let enough = relation * self.height;
        let valley = self.height - 2.0 * (self.height - enough);
        let side = |steps: &mut dyn Iterator<Item = usize>| {
            let mut behind = false;
            let mut best: Option<usize> = None;
            for at in steps {
                behind |= r[at] < valley;
                if behind && r[at] >= enough && best.is_none_or(|best| r[at] > r[best]) {
                    best = Some(at);
                }
            }
            best
        };
        let found = [side(&mut (0..self.at).rev()), side(&mut (self.at + 1..r.len()))];
        let highest = found.into_iter().flatten().max_by(|a, b| r[*a].total_cmp(&r[*b]))?;
        Some(Self::refined(r, highest, 0))
    }
}

/// Where the parabola of least squares through values at equal distances has its top, from the middle one; `None`
/// if it has none.
fn top(values: &[f64]) -> Option<f64> {
    let half = (values.len() / 2) as f64;
    let x = |at: usize| at as f64 - half;
    // The sums of odd powers are 0.
    let power = |n: i32| (0..values.len()).map(|at| x(at).powi(n)).sum::<f64>();
    let moment = |n: i32| values.iter().enumerate().map(|(at, v)| x(at).powi(n) * v).sum::<f64>();
    let (count, second, fourth) = (values.len() as f64, power(2), power(4));
    let slope = moment(1) / second;
    let bend = (count * moment(2) - second * moment(0)) / (count * fourth - second * second);
    (bend < 0.0 && bend.is_finite()).then(|| -slope / (2.0 * bend))
}

/// The standard error of the correlation of two motions that have nothing to do with each other.
///
/// Its variance is the sum of the products of both autocorrelations over the number of pairs: Bartlett, "On the
/// theoretical specification and sampling properties of autocorrelated time-series", Supplement to the Journal of
/// the Royal Statistical Society 8(1), 1946. Periodic motions remember for long, so chance makes them alike.
pub(super) fn chance(grids: &[Grid; 2], cell_ns: i64) -> f64 {
    let step = ((MEMORY_STEP_NS / cell_ns) as usize).max(1);
    let lags = (MEMORY_NS / cell_ns) as usize / step;
    let own = |grid: &Grid| -> Vec<f64> {
        let at = |lag: usize| -> f64 {
            let pairs = (lag * step..grid.values.len()).step_by(step);
            pairs.map(|k| grid.values[k] * grid.values[k - lag * step]).sum()
        };
        let all: Vec<f64> = (0..=lags).map(at).collect();
        all.iter().map(|sum| sum / all[0]).collect()
    };
    let [a, b] = [own(&grids[0]), own(&grids[1])];
    let products = a.iter().zip(&b).skip(1).map(|(a, b)| a * b).sum::<f64>();
    let known = grids[0].known.iter().zip(&grids[1].known).filter(|(a, b)| **a && **b).count();
    let pairs = (known / step).max(1) as f64;
    ((1.0 + 2.0 * products).max(1.0) / pairs).sqrt()
}
