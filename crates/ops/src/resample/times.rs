//! Seconds of a caller as the nanoseconds of stamps and targets.
//!
//! A float is an absolute time nowhere else: it is converted before anything is compared or subtracted. The kernels do
//! the same as they read an array (`nanos` in `kernels/resample/align.cuh`).

use pulp::Arch;

/// Unit and type of the stamps and targets of a batch in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Times {
    /// Nanoseconds, `i64`.
    #[default]
    Nanos,
    /// Seconds, `f32`.
    Seconds32,
    /// Seconds, `f64`.
    Seconds64,
}

impl Times {
    /// Bytes of a time.
    pub const fn size(self) -> usize {
        match self {
            Times::Nanos | Times::Seconds64 => 8,
            Times::Seconds32 => 4,
        }
    }

    /// The end of the names of the kernels that read such times.
    #[cfg(feature = "cuda")]
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Times::Nanos => "",
            Times::Seconds32 => "_seconds32",
            Times::Seconds64 => "_seconds64",
        }
    }
}

/// Nanoseconds of seconds: their products with 1e9 as `f64`, to the nearest integer, ties to even.
///
/// # Errors
/// A number is NaN, infinite, or no instant that 64 bits hold. The kernels ask nobody: there, values beside such a time
/// are NaN.
pub fn nanos<T: Copy + Into<f64>>(seconds: &[T]) -> Result<Vec<i64>, String> {
    let fits = |seconds: T| rounded(seconds.into()).abs() < RANGE;
    let (found, all_fit) = Arch::new().dispatch(|| {
        let mut all_fit = true;
        let converted = seconds.iter().map(|seconds| {
            all_fit &= fits(*seconds);
            rounded((*seconds).into()) as i64
        });
        (converted.collect::<Vec<_>>(), all_fit)
    });
    match seconds.iter().position(|seconds| !all_fit && !fits(*seconds)) {
        None => Ok(found),
        Some(at) => Err(format!(
            "times: expected seconds between -9.2e9 and 9.2e9, found {} at element {at}",
            seconds[at].into(),
        )),
    }
}

/// 2^63, the first instant beyond those of 64 bits.
const RANGE: f64 = (1_u64 << 63) as f64;

#[inline(always)]
fn rounded(seconds: f64) -> f64 {
    (seconds * 1e9).round_ties_even()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_the_nearest_nanoseconds() {
        let seconds = [0.0, 1.5, -2.0, 1e-9, 2.5e-9, 3.5e-9, -2.5e-9, 1_795_000_000.125, 9.2e9];
        let expected = [
            0,
            1_500_000_000,
            -2_000_000_000,
            1,
            2,
            4,
            -2,
            // An f64 holds every 256th of such numbers.
            1_795_000_000_124_999_936,
            9_200_000_000_000_000_000,
        ];
        assert_eq!(nanos(&seconds).unwrap(), expected);
        assert_eq!(nanos(&[0.1f32, 16_777_216.0]).unwrap(), [100_000_001, 16_777_216_000_000_000]);
        assert_eq!(nanos::<f32>(&[]).unwrap(), []);
    }

    #[test]
    fn what_is_no_instant_is_an_error() {
        for (wrong, word) in [
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (9.3e9, "9300000000"),
            (-9.3e9, "-9300000000"),
        ] {
            let found = nanos(&[0.0, 1.0, wrong, 2.0]).unwrap_err();
            assert!(found.ends_with(&format!("found {word} at element 2")), "{found}");
        }
        assert!(nanos(&[f32::NAN]).is_err());
    }
}
