//! Times of a run, as a table and as JSON.

use std::fmt;

use serde::Serialize;

use crate::error::BenchError;
use crate::options::Options;
use crate::pair::Hardware;
use crate::soak::SoakReport;
#[cfg(feature = "cuda")]
use crate::timer::Times;

/// All times of a run.
#[derive(Debug, Serialize)]
pub(crate) struct RunTimes {
    /// The commit that was built, or `unknown`.
    pub commit: &'static str,
    /// Processor that it ran on.
    #[serde(flatten)]
    pub hardware: Hardware,
    /// Bandwidth of a copy in device memory, bytes read plus bytes written \[GB/s\].
    pub copy_gb_per_s: Option<f64>,
    /// Time of an empty kernel in a graph \[us\].
    pub empty_us: Option<f64>,
    /// The cases.
    pub cases: Vec<Case>,
    /// Ticks at 1 kHz.
    pub soak: Option<SoakReport>,
    /// Cases that were not asked for.
    #[serde(skip)]
    pub skipped: Vec<String>,
}

/// Times of one case \[us\].
#[derive(Debug, Serialize)]
pub(crate) struct Case {
    /// Name of the case.
    pub name: String,
    /// Median.
    pub median_us: f64,
    /// 10th percentile.
    pub p10_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// Median where no call starts before the last one has ended.
    pub alone_us: Option<f64>,
    /// Median of one input and one output again and again, which stay in the cache.
    pub warm_us: Option<f64>,
    /// Least bytes that have to move through device memory.
    pub bytes: Option<u64>,
    /// Their time at the bandwidth of a copy, plus the time of an empty kernel \[us\].
    pub floor_us: Option<f64>,
    /// The target on an H100 \[us\].
    pub target_us: Option<f64>,
}

impl Case {
    /// From single times: at least one.
    pub(crate) fn new(name: impl Into<String>, mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        Case {
            name: name.into(),
            median_us: at(0.5),
            p10_us: at(0.1),
            p99_us: at(0.99),
            alone_us: None,
            warm_us: None,
            bytes: None,
            floor_us: None,
            target_us: None,
        }
    }

    /// From the times of kernels.
    #[cfg(feature = "cuda")]
    pub(crate) fn of_kernels(name: impl Into<String>, times: Times) -> Self {
        let alone = Case::new("", times.alone).median_us;
        Case { alone_us: Some(alone), ..Case::new(name, times.each) }
    }

    /// With the times of one input and one output.
    #[cfg(feature = "cuda")]
    pub(crate) fn warm(self, times: Times) -> Self {
        Case { warm_us: Some(Case::new("", times.alone).median_us), ..self }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn bytes(self, bytes: u64) -> Self {
        Case { bytes: Some(bytes), ..self }
    }

    pub(crate) fn target(self, us: f64) -> Self {
        Case { target_us: Some(us), ..self }
    }
}

impl RunTimes {
    /// True if the user asked for the case `name`; notes it if not. To be asked before any set-up.
    pub(crate) fn wants(&mut self, options: &Options, name: &str) -> bool {
        let wanted = options.case.as_ref().is_none_or(|text| name.contains(text.as_str()));
        if !wanted {
            self.skipped.push(name.into());
        }
        wanted
    }

    /// Gives each case its floor, if the times of a copy and of an empty kernel are known.
    pub(crate) fn set_floors(&mut self) {
        let (Some(copy), Some(empty)) = (self.copy_gb_per_s, self.empty_us) else { return };
        for case in &mut self.cases {
            case.floor_us = case.bytes.map(|bytes| bytes as f64 / copy / 1e3 + empty);
        }
    }

    /// Checks the verdict of a soak, if there was one.
    ///
    /// # Errors
    /// [`BenchError::Soak`] with what a soak found wrong.
    pub(crate) fn verdict(&self) -> Result<(), BenchError> {
        match &self.soak {
            Some(soak) if !soak.problems.is_empty() => {
                Err(BenchError::Soak(soak.problems.join("; ")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RunTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} backend on {}", self.hardware.backend, self.hardware.device)?;
        if let Some(soak) = &self.soak {
            return write!(f, "{soak}");
        }
        if let (Some(copy), Some(empty)) = (self.copy_gb_per_s, self.empty_us) {
            writeln!(f, "copy {copy:.0} GB/s, empty kernel {empty:.2} us")?;
        }
        let columns = ["median us", "p10", "p99", "alone", "warm", "floor", "x floor", "target"];
        write!(f, "{:52}", "case")?;
        columns.iter().try_for_each(|column| write!(f, " {column:>9}"))?;
        writeln!(f)?;
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        for case in &self.cases {
            let ratio = case.floor_us.map(|floor| case.median_us / floor);
            let values = [
                Some(case.median_us),
                Some(case.p10_us),
                Some(case.p99_us),
                case.alone_us,
                case.warm_us,
                case.floor_us,
                ratio,
                case.target_us,
            ];
            write!(f, "{:52}", case.name)?;
            values.iter().try_for_each(|value| write!(f, " {:>9}", number(*value)))?;
            let missed = case.target_us.is_some_and(|target| case.median_us > target);
            writeln!(f, "{}", if missed { "  missed" } else { "" })?;
        }
        Ok(())
    }
}
