//! Values as colours.

/// The colour map viridis from its lowest to its highest value, at equal distances.
const VIRIDIS: [[f32; 3]; 5] = [
    [0.267, 0.005, 0.329],
    [0.231, 0.322, 0.545],
    [0.129, 0.569, 0.549],
    [0.369, 0.788, 0.384],
    [0.992, 0.906, 0.145],
];

/// Gives the lowest of some values the darkest colour, and the highest the brightest.
#[derive(Clone, Copy, Debug)]
pub struct ColorMap {
    low: f32,
    high: f32,
}

impl ColorMap {
    /// The map of these values. Those that are not finite do not count.
    pub fn of(values: impl Iterator<Item = f32>) -> Self {
        let begin = ColorMap { low: f32::INFINITY, high: f32::NEG_INFINITY };
        values.filter(|value| value.is_finite()).fold(begin, |map, value| ColorMap {
            low: map.low.min(value),
            high: map.high.max(value),
        })
    }

    /// Red, green and blue from 0 to 1: the middle of the map if there is one value only.
    pub fn color(self, value: f32) -> [f32; 3] {
        let share = (value - self.low) / (self.high - self.low);
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        let at = share * (VIRIDIS.len() - 1) as f32;
        let below = (at as usize).min(VIRIDIS.len() - 2);
        let from = VIRIDIS[below];
        let to = VIRIDIS[below + 1];
        let part = at - below as f32;
        std::array::from_fn(|i| from[i] + (to[i] - from[i]) * part)
    }
}

#[cfg(test)]
mod tests;
