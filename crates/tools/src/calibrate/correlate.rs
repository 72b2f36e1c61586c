//! At which offset two motions are most alike.

use super::pair::{Course, Pair};
use robocache_ops::random::Random;
use robocache_ops::time::NANOS_PER_MS;

/// From one offset to the next \[ns\].
pub(super) const STEP_NS: i64 = 2 * NANOS_PER_MS;
pub(super) const STEP_MS: f64 = STEP_NS as f64 / NANOS_PER_MS as f64;
/// Steps to each side of the highest correlation that the parabola fits.
const REACH: usize = 4;
/// Most blocks.
const MOST_BLOCKS: usize = 256;
/// Length of a block \[ns\]. It must be longer than the motion remembers.
const BLOCK_NS: i64 = 2_000_000_000;
/// Between two peaks, the correlations are below this share of the highest one.
const VALLEY: f64 = 0.8;
/// Bootstrap resamples.
const RESAMPLES: usize = 400;
/// Over which time the motions' own correlation is summed \[ns\], and in which steps.
const MEMORY_NS: i64 = 5_000_000_000;
const MEMORY_STEP_NS: i64 = 20_000_000;

/// Sums over stretches: their number, both, their squares, their product.
type Sums = [f64; 6];

/// The sums of each block at each offset.
pub(super) struct Curve {
    /// By block, then by offset from `-most` to `most` steps around the middle.
    blocks: Vec<Vec<Sums>>,
    /// \[steps\]
    middle: i64,
    most: usize,
}

/// A peak of the correlations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shift {
    /// Offset of the peak: what must be added to the stamps of the stream, beside the middle of the search \[steps\].
    pub steps: f64,
    /// The correlation there.
    pub height: f64,
    at: usize,
}

/// How the peaks of resamples vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resampled {
    /// The standard error of the best offset \[steps\].
    pub error: f64,
    /// Half of the interval that holds 95 % of the peaks \[steps\].
    pub interval: f64,
}

impl Curve {
    /// Compares two motions at offsets of up to `most` steps to each side of a middle.
    pub(super) fn new(pair: &Pair, middle: i64, most: usize) -> Curve {
        let middles: Vec<i64> = pair.middles().collect();
        let begin = middles.first().copied().unwrap_or(0);
        let length_ns = middles.last().map_or(0, |last| last - begin);
        let block_ns = BLOCK_NS.max(length_ns / MOST_BLOCKS as i64 + 1);
        let count = (length_ns / block_ns + 1) as usize;
        let mut blocks = vec![vec![[0.0; 6]; 2 * most + 1]; count];
        let mut course = Course::default();
        let reach = most as i64;
        for (at, steps) in (middle - reach..=middle + reach).enumerate() {
            pair.fast(steps * STEP_NS, &mut course);
            let both = course.values.iter().zip(pair.slow()).zip(&course.known).zip(&middles);
            for (((x, y), _), middle) in both.filter(|((_, known), _)| **known) {
                let block = ((middle - begin) / block_ns) as usize;
                let add = [1.0, *x, *y, x * x, y * y, x * y];
                blocks[block][at].iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
            }
        }
        Curve { blocks, middle, most }
    }

    /// An offset of this curve \[ms\].
    pub(super) fn ms(&self, shift: &Shift) -> f64 {
        (self.middle as f64 + shift.steps) * STEP_MS
    }

    /// Stretches in which both are known, in the middle.
    pub(super) fn pairs(&self) -> u64 {
        self.blocks.iter().map(|sums| sums[self.most][0]).sum::<f64>() as u64
    }

    /// Pearson's correlation at each offset.
    pub(super) fn correlations(&self) -> Vec<f64> {
        self.of(0..self.blocks.len())
    }

    /// Pearson's correlations of the first and of the second half of the blocks.
    pub(super) fn halves(&self) -> [Vec<f64>; 2] {
        let middle = self.blocks.len() / 2;
        [self.of(0..middle), self.of(middle..self.blocks.len())]
    }

    /// The correlations of some blocks.
    fn of(&self, blocks: impl Iterator<Item = usize>) -> Vec<f64> {
        let mut all = vec![[0.0; 6]; 2 * self.most + 1];
        for block in blocks {
            for (all, sums) in all.iter_mut().zip(&self.blocks[block]) {
                all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
            }
        }
        all.iter().map(pearson).collect()
    }

    /// How the best offset varies if the recording does.
    ///
    /// The blocks are drawn with replacement, and the peak is sought again: the block bootstrap of Künsch, "The
    /// jackknife and the bootstrap for general stationary observations", Annals of Statistics 17(3), 1989. Within
    /// a block the motion keeps its memory. The numbers are the same in every run.
    pub(super) fn bootstrap(&self) -> Resampled {
        let mut random = Random::new(1);
        let count = self.blocks.len();
        let mut peaks: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn: Vec<usize> =
                    (0..count).map(|_| random.below(count as u64) as usize).collect();
                Shift::best(&self.of(drawn.into_iter())).steps
            })
            .collect();
        peaks.sort_unstable_by(f64::total_cmp);
        let mean = peaks.iter().sum::<f64>() / RESAMPLES as f64;
        let variance =
            peaks.iter().map(|peak| (peak - mean).powi(2)).sum::<f64>() / RESAMPLES as f64;
        let at = |share: f64| peaks[(share * (RESAMPLES - 1) as f64).round() as usize];
        Resampled { error: variance.sqrt(), interval: (at(0.975) - at(0.025)) / 2.0 }
    }
}

fn pearson([n, x, y, xx, yy, xy]: &Sums) -> f64 {
    let variances = (n * xx - x * x) * (n * yy - y * y);
    if *n > 1.0 && variances > 0.0 { (n * xy - x * y) / variances.sqrt() } else { 0.0 }
}

impl Shift {
    /// The highest correlation, and between the steps the top of a parabola that fits those around it best.
    pub(super) fn best(r: &[f64]) -> Shift {
        let at = (0..r.len()).fold(0, |best, at| if r[at] > r[best] { at } else { best });
        Self::refined(r, at, REACH)
    }

    fn refined(r: &[f64], at: usize, reach: usize) -> Shift {
        let middle = (r.len() / 2) as f64;
        let reach = reach.min(at).min(r.len() - 1 - at);
        let top =
            top(&r[at - reach..=at + reach]).unwrap_or(0.0).clamp(-(reach as f64), reach as f64);
        Shift { steps: at as f64 + top - middle, height: r[at], at }
    }

    /// True if a larger search could find a higher correlation.
    pub(super) fn is_at_edge(&self, r: &[f64]) -> bool {
        self.at < 2 || self.at + 2 >= r.len()
    }

    /// Another peak that is at least this high in relation, behind a valley.
    pub(super) fn second(&self, r: &[f64], relation: f64) -> Option<Shift> {
        let enough = relation * self.height;
        let valley = VALLEY * self.height;
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

/// Top of the parabola of least squares through values at equal distances, from the middle one; `None` if it has none.
fn top(values: &[f64]) -> Option<f64> {
    let half = (values.len() / 2) as f64;
    let x = |at: usize| at as f64 - half;
    // The sums of odd powers are 0.
    let power = |n: i32| (0..values.len()).map(|at| x(at).powi(n)).sum::<f64>();
    let moment = |n: i32| values.iter().enumerate().map(|(at, v)| x(at).powi(n) * v).sum::<f64>();
    let count = values.len() as f64;
    let second = power(2);
    let fourth = power(4);
    let slope = moment(1) / second;
    let bend = (count * moment(2) - second * moment(0)) / (count * fourth - second * second);
    (bend < 0.0 && bend.is_finite()).then(|| -slope / (2.0 * bend))
}

/// The standard error of the correlation of two motions that have nothing to do with each other, at this offset.
///
/// Its variance is the sum of the products of both autocorrelations over the number of pairs: Bartlett, "On the
/// theoretical specification and sampling properties of autocorrelated time-series", Supplement to the Journal of
/// the Royal Statistical Society 8(1), 1946. Periodic motions remember for long, so chance makes them alike.
pub(super) fn chance(pair: &Pair, offset_ns: i64) -> f64 {
    let mut fast = Course::default();
    pair.fast(offset_ns, &mut fast);
    let step = ((MEMORY_STEP_NS / pair.usual_ns.max(1)) as usize).max(1);
    let lags = (MEMORY_NS / pair.usual_ns.max(1)) as usize / step;
    let own = |values: &[f64]| -> Vec<f64> {
        let at = |lag: usize| -> f64 {
            let pairs = (lag * step..values.len()).step_by(step);
            pairs.map(|k| values[k] * values[k - lag * step]).sum()
        };
        let all: Vec<f64> = (0..=lags).map(at).collect();
        all.iter().map(|sum| sum / all[0]).collect()
    };
    let [a, b] = [own(&fast.values), own(pair.slow())];
    let products = a.iter().zip(&b).skip(1).map(|(a, b)| a * b).sum::<f64>();
    let known = fast.known.iter().filter(|known| **known).count();
    let pairs = (known / step).max(1) as f64;
    ((1.0 + 2.0 * products).max(1.0) / pairs).sqrt()
}
