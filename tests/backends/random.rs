//! Random numbers from a seed, so that a case that fails can be run again.

use robocache::config::Lane;
use robocache::dtype::DType;

/// D. Lemire's SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In `low..=high`.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// In `low..high`.
    pub fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 / (1u64 << 24) as f32)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.bits().is_multiple_of(n)
    }

    pub fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() - 1)].clone()
    }

    pub fn dtype(&mut self) -> DType {
        self.choose(&[DType::F32, DType::F16, DType::Bf16])
    }

    /// Lanes of a vector: as often all linear as of every kind.
    pub fn lanes(&mut self, dim: usize) -> Vec<Lane> {
        let plain = self.one_in(2);
        let mut lanes = Vec::with_capacity(dim);
        while lanes.len() < dim {
            match self.range(0, 5) {
                0 if !plain => lanes.push(Lane::Angular),
                1 if !plain && dim - lanes.len() >= 4 => lanes.extend([Lane::Quaternion; 4]),
                _ => lanes.push(Lane::Linear),
            }
        }
        lanes
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.range(0, i));
        }
    }
}
