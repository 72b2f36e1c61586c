//! Reproducible randomness, for the simulated robot, the benchmarks and the tests.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014):
/// eight bytes of state, no dependency, the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A generator that depends on `seed` and `keys` alone. If the keys are a message's stream and
    /// number, its faults do not depend on the start of the run or on the other streams.
    pub fn keyed(seed: u64, keys: [u64; 2]) -> Self {
        keys.into_iter().fold(Random(seed), |mut random, key| Random(random.bits() ^ key))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// In `0..below`; `below` must be far less than 2^64.
    pub fn below(&mut self, below: u64) -> u64 {
        self.bits() % below
    }

    /// An `f32`, uniform in `[low, high)`.
    pub fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 / (1u64 << 24) as f32)
    }
}
