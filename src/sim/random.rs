//! Reproducible randomness.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// eight bytes of state, no dependency, the same numbers on every machine.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The generator that belongs to `keys` alone. Drawing a message's faults from its stream and
    /// number rather than from a running generator makes them the same wherever a run starts and
    /// whichever other streams it has.
    pub(super) fn keyed(seed: u64, keys: [u64; 2]) -> Self {
        keys.into_iter().fold(Random(seed), |mut random, key| Random(random.bits() ^ key))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[low, high)`.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Normal with deviation 1/3, cut off at -1 and 1 (Box and Muller, 1958).
    pub(super) fn bounded_normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.unit()).cos();
        (normal / 3.0).clamp(-1.0, 1.0)
    }
}
