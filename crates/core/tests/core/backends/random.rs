//! Random numbers from a seed, so that a case that fails can be run again.

use robocache_ops::dtype::DType;
use robocache_ops::resample::Lane;

/// The crate's generator, with what the tests draw.
pub(crate) struct Random(robocache_ops::random::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66;
        Random(robocache_ops::random::Random::new(seed))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// In `low..=high`.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.bits() % (high - low + 1) as u64) as usize
    }

    /// In `low..high`.
    pub(crate) fn float(&mut self, low: f32, high: f32) -> f32 {
        self.0.float(low, high)
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.bits().is_multiple_of(n)
    }

    pub(crate) fn choose<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.range(0, from.len() - 1)].clone()
    }

    pub(crate) fn dtype(&mut self) -> DType {
        self.choose(&[DType::F32, DType::F16, DType::Bf16])
    }

    /// An element type that rows of images can have.
    pub(crate) fn image_dtype(&mut self) -> DType {
        self.choose(&[DType::F32, DType::F16, DType::Bf16, DType::U8])
    }

    /// Lanes of a vector: as often all linear as of every kind.
    pub(crate) fn lanes(&mut self, dim: usize) -> Vec<Lane> {
        let plain = self.one_in(2);
        let mut lanes = Vec::with_capacity(dim);
        while lanes.len() < dim {
            match self.range(0, 5) {
                0 if !plain => lanes.push(Lane::Angular),
                2 if !plain => lanes.push(Lane::Held),
                1 if !plain && dim - lanes.len() >= 4 => lanes.extend([Lane::Quaternion; 4]),
                _ => lanes.push(Lane::Linear),
            }
        }
        lanes
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.range(0, i));
        }
    }
}
