//! Two motions over the same stretches of time.
//!
//! The stretches are those of the slower stream: from one image to the next, say. At each shift, the faster
//! motion is averaged over exactly these stretches. So both are smoothed alike, and nothing is resampled. Longer
//! stretches, which overlap, smooth more.

use super::motion::Piece;
use robocache_ops::time::{NANOS_PER_MS, Stamp};

/// Constant that is added to a speed before its logarithm is taken, as a share of the mean speed: a stop counts about
/// as much as a fast motion.
const FLOOR: f64 = 1.0;
/// Shorter pieces are joined \[ns\].
const SHORTEST_NS: i64 = 10 * NANOS_PER_MS;
/// Pieces are joined until at most about this many are left.
const MOST_STRETCHES: i64 = 200_000;

/// Two motions.
pub(super) struct Pair {
    /// The stretches of the slower one \[ns from the first stamp\].
    stretches: Vec<[i64; 2]>,
    /// Course of the slower motion, by stretch.
    slow: Vec<f64>,
    fast: Displacement,
    /// Which stretches are around each.
    around: Vec<[usize; 2]>,
    /// True if the reference is the slower one.
    reference_is_slow: bool,
    /// The median time from one stretch to the next \[ns\].
    pub usual_ns: i64,
}

/// How far something has moved.
struct Displacement {
    /// Instants \[ns from the first stamp\].
    at: Vec<i64>,
    /// The way until then.
    moved: Vec<f64>,
    /// For how long it was watched until then \[ns\].
    known_ns: Vec<i64>,
    /// The mean speed.
    level: f64,
}

/// Course of a motion over the stretches: the logarithm of its speed without its trend, and whether it is known.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    pub values: Vec<f64>,
    pub known: Vec<bool>,
    sums: Vec<(f64, u32)>,
}

impl Pair {
    /// A reference and a stream, each with a piece at least. A stretch has the length `window_ns` at least. A
    /// motion is compared with its mean over `trend_ns`, so that slower changes do not count.
    pub(super) fn new([reference, stream]: [&[Piece]; 2], window_ns: i64, trend_ns: i64) -> Pair {
        let ends = |of: fn(&Piece) -> Stamp| reference.iter().chain(stream).map(of);
        let first = ends(|piece| piece.from).min().unwrap_or(Stamp::ZERO);
        let last = ends(|piece| piece.to).max().unwrap_or(first);
        let usual = |pieces: &[Piece]| {
            let mut lengths: Vec<i64> =
                pieces.iter().map(|piece| piece.to.since(piece.from)).collect();
            lengths.sort_unstable();
            lengths[lengths.len() / 2]
        };
        let reference_is_slow = usual(reference) > usual(stream);
        let (slow, fast) =
            if reference_is_slow { (reference, stream) } else { (stream, reference) };
        let shortest_ns = SHORTEST_NS.max(last.since(first) / MOST_STRETCHES);
        let slow = joined(slow, shortest_ns);
        let usual_ns = if slow.is_empty() { shortest_ns } else { usual(&slow) };
        let slow = windows(&slow, window_ns);
        let stretches: Vec<[i64; 2]> =
            slow.iter().map(|piece| [piece.from, piece.to].map(|at| at.since(first))).collect();
        let mut pair = Pair {
            around: around(&stretches, trend_ns),
            stretches,
            slow: Vec::new(),
            fast: Displacement::new(fast, first),
            reference_is_slow,
            usual_ns,
        };
        let level = slow.iter().map(|piece| piece.speed).sum::<f64>() / slow.len().max(1) as f64;
        let mut course = Course::default();
        course.values.extend(slow.iter().map(|piece| logarithm(piece.speed, level)));
        course.known.resize(slow.len(), true);
        course.without_trend(&pair.around);
        pair.slow = course.values;
        pair
    }

    /// The instant in the middle of each stretch \[ns from the first stamp\].
    pub(super) fn middles(&self) -> impl Iterator<Item = i64> + '_ {
        self.stretches.iter().map(|[from, to]| i64::midpoint(*from, *to))
    }

    /// Course of the slower motion, by stretch. All of its values are known.
    pub(super) fn slow(&self) -> &[f64] {
        &self.slow
    }

    /// Course of the faster motion, by stretch, if this is added to the stamps of the stream.
    pub(super) fn fast(&self, offset_ns: i64, course: &mut Course) {
        let shift = if self.reference_is_slow { -offset_ns } else { offset_ns };
        course.values.clear();
        course.known.clear();
        let mut begin = 0;
        let mut end = 0;
        for [from, to] in &self.stretches {
            let from = from + shift;
            let to = to + shift;
            let [before, after] =
                [self.fast.until(from, &mut begin), self.fast.until(to, &mut end)];
            let known_ns = after.1 - before.1;
            let is_known = 2.0 * known_ns >= (to - from) as f64;
            let speed = if is_known { (after.0 - before.0) / known_ns } else { 0.0 };
            course.values.push(logarithm(speed, self.fast.level));
            course.known.push(is_known);
        }
        course.without_trend(&self.around);
    }

    /// Which of reference (0) and stream (1) does not move, or always by as much.
    pub(super) fn still(&self) -> Option<usize> {
        let mut fast = Course::default();
        self.fast(0, &mut fast);
        let slow = Course {
            values: self.slow.clone(),
            known: vec![true; self.slow.len()],
            ..Course::default()
        };
        let both = if self.reference_is_slow { [slow, fast] } else { [fast, slow] };
        both.iter().position(|course| !course.moves())
    }
}

fn logarithm(speed: f64, level: f64) -> f64 {
    // A motion of 0 has a level of 0.
    (speed.max(0.0) + FLOOR * level).max(f64::MIN_POSITIVE).ln()
}

/// Joins neighbours until each piece has this length. What is left over at a gap is left out.
fn joined(pieces: &[Piece], shortest_ns: i64) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    let mut open: Option<Piece> = None;
    for piece in pieces {
        let whole = match open.filter(|open| open.to == piece.from) {
            Some(open) => {
                let [one, other] = [&open, piece].map(|piece| piece.to.since(piece.from) as f64);
                let speed = (open.speed * one + piece.speed * other) / (one + other);
                Piece { from: open.from, to: piece.to, speed }
            }
            None => *piece,
        };
        open = Some(whole);
        if whole.to.since(whole.from) >= shortest_ns {
            joined.extend(open.take());
        }
    }
    joined
}

/// For each piece a longer one that begins with it, of neighbours until it has this length.
fn windows(pieces: &[Piece], window_ns: i64) -> Vec<Piece> {
    let ways = pieces.iter().scan(0.0, |way, piece| {
        *way += piece.speed * piece.to.since(piece.from) as f64;
        Some(*way)
    });
    let ways: Vec<f64> = std::iter::once(0.0).chain(ways).collect();
    let mut last = 0;
    let mut window = |at: usize| {
        let from = pieces[at].from;
        last = last.max(at);
        while pieces[last].to.since(from) < window_ns {
            let next = pieces.get(last + 1)?;
            if next.from != pieces[last].to {
                return None;
            }
            last += 1;
        }
        let to = pieces[last].to;
        let speed = (ways[last + 1] - ways[at]) / to.since(from) as f64;
        Some(Piece { from, to, speed })
    };
    (0..pieces.len()).filter_map(&mut window).collect()
}

/// For each stretch the range of those whose middles are within half of this time.
fn around(stretches: &[[i64; 2]], trend_ns: i64) -> Vec<[usize; 2]> {
    let middle = |[from, to]: &[i64; 2]| i64::midpoint(*from, *to);
    let mut low = 0;
    let mut high = 0;
    let range = |stretch: &[i64; 2]| {
        while 2 * (middle(stretch) - middle(&stretches[low])) > trend_ns {
            low += 1;
        }
        while stretches
            .get(high)
            .is_some_and(|last| 2 * (middle(last) - middle(stretch)) <= trend_ns)
        {
            high += 1;
        }
        [low, high]
    };
    stretches.iter().map(range).collect()
}

impl Displacement {
    fn new(pieces: &[Piece], first: Stamp) -> Displacement {
        let mut way =
            Displacement { at: Vec::new(), moved: Vec::new(), known_ns: Vec::new(), level: 0.0 };
        let mut moved = 0.0;
        let mut known_ns = 0;
        for piece in pieces {
            let [from, to] = [piece.from, piece.to].map(|at| at.since(first));
            // Pieces over each other: a clock was set back. The later one counts where it is alone.
            let from = from.max(way.at.last().copied().unwrap_or(from));
            if from >= to {
                continue;
            }
            if way.at.last() != Some(&from) {
                way.add(from, moved, known_ns);
            }
            moved += piece.speed * (to - from) as f64;
            known_ns += to - from;
            way.add(to, moved, known_ns);
        }
        way.level = moved / (known_ns.max(1)) as f64;
        way
    }

    fn add(&mut self, at: i64, moved: f64, known_ns: i64) {
        self.at.push(at);
        self.moved.push(moved);
        self.known_ns.push(known_ns);
    }

    /// The way until an instant, and for how long it was watched. Instants are asked for in their order; `next`
    /// begins with 0.
    fn until(&self, at: i64, next: &mut usize) -> (f64, f64) {
        while self.at.get(*next).is_some_and(|known| *known < at) {
            *next += 1;
        }
        let of = |index: usize| (self.moved[index], self.known_ns[index] as f64);
        match (*next).checked_sub(1) {
            _ if self.at.is_empty() => (0.0, 0.0),
            None => of(0),
            Some(before) if *next == self.at.len() => of(before),
            Some(before) => {
                let length = (self.at[*next] - self.at[before]) as f64;
                let share = (at - self.at[before]) as f64 / length;
                let a = of(before);
                let b = of(*next);
                (a.0 + share * (b.0 - a.0), a.1 + share * (b.1 - a.1))
            }
        }
    }
}

impl Course {
    /// Subtracts from each value the mean of the known ones around it. Unknown values become 0.
    fn without_trend(&mut self, around: &[[usize; 2]]) {
        let Course { values, known, sums } = self;
        sums.clear();
        sums.push((0.0, 0));
        let mut sum = 0.0;
        let mut count = 0;
        for (value, known) in values.iter().zip(&*known) {
            if *known {
                sum += value;
                count += 1;
            }
            sums.push((sum, count));
        }
        for ((value, known), [from, to]) in values.iter_mut().zip(&*known).zip(around) {
            let sum = sums[*to].0 - sums[*from].0;
            let count = sums[*to].1 - sums[*from].1;
            *value = if *known { *value - sum / f64::from(count) } else { 0.0 };
        }
    }

    /// True if the course changes by more than the rounding of its sums.
    fn moves(&self) -> bool {
        let values = || self.values.iter().zip(&self.known).filter(|(_, known)| **known);
        let count = values().count().max(1) as f64;
        (values().map(|(value, _)| value * value).sum::<f64>() / count).sqrt() > 1e-6
    }
}
