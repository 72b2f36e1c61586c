//! How values follow from the rows of a stream, as Python's side has it for many calls.

use pyo3::prelude::*;
use robocache_ops::align::{AlignRule, Fill, Strategy};
use robocache_ops::resample::Lane;

use crate::errors::wrong;

/// The rule of a stream, and the lanes of its rows.
#[pyclass(frozen, module = "robocache._native")]
pub struct Rule {
    /// A number of its own.
    pub(super) id: u64,
    pub(super) rule: AlignRule,
    pub(super) lanes: Vec<Lane>,
}

#[pymethods]
impl Rule {
    /// The rule for rows of `dim` elements. `lanes` has a letter per element, `l`, `a`, `q` or `h`, for linear, angular,
    /// of a quaternion, or held; if it is empty, all are linear.
    #[new]
    fn new(
        strategy: &str,
        max_age_ns: i64,
        max_gap_ns: i64,
        fill: &str,
        dim: usize,
        lanes: &str,
    ) -> PyResult<Self> {
        let strategies = [Strategy::Hold, Strategy::Nearest, Strategy::Linear, Strategy::Slerp];
        let found = strategies.into_iter().find(|each| each.name() == strategy);
        let strategy = found.ok_or_else(|| {
            wrong(format!("strategy: expected hold, nearest, linear or slerp, found {strategy}"))
        })?;
        let fill = [Fill::Zero, Fill::Last, Fill::First]
            .into_iter()
            .find(|each| each.name() == fill)
            .ok_or_else(|| wrong(format!("fill: expected zero, last or first, found {fill}")))?;
        if max_age_ns < 0 || max_gap_ns < 0 {
            let message = "max_age_ns and max_gap_ns: expected no negative numbers, found";
            return Err(wrong(format!("{message} {max_age_ns} and {max_gap_ns}")));
        }
        let rule = AlignRule { strategy, max_age_ns, max_gap_ns, fill };
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        Ok(Rule {
            id: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            rule,
            lanes: lanes_of(dim, lanes, strategy)?,
        })
    }
}

fn lanes_of(dim: usize, letters: &str, strategy: Strategy) -> PyResult<Vec<Lane>> {
    // Kernels count elements in 32 bits.
    if dim > i32::MAX as usize {
        return Err(wrong(format!("rows: expected fewer than 2^31 elements in each, found {dim}")));
    }
    let default = if strategy == Strategy::Slerp { Lane::Quaternion } else { Lane::Linear };
    let lanes = match letters.is_empty() {
        true => vec![default; dim],
        false => letters
            .chars()
            .map(|letter| match letter {
                'l' => Ok(Lane::Linear),
                'a' => Ok(Lane::Angular),
                'q' => Ok(Lane::Quaternion),
                'h' => Ok(Lane::Held),
                _ => Err(wrong(format!(
                    "lanes: expected linear, angular, quaternion or held, found {letter}"
                ))),
            })
            .collect::<PyResult<_>>()?,
    };
    if lanes.len() != dim {
        let found = lanes.len();
        return Err(wrong(format!(
            "lanes: expected one for each of {dim} elements, found {found}"
        )));
    }
    let runs = lanes.chunk_by(|a, b| a == b);
    let mut quaternions = runs.filter(|run| run[0] == Lane::Quaternion);
    if let Some(odd) = quaternions.find(|run| !run.len().is_multiple_of(4)) {
        let found = odd.len();
        return Err(wrong(format!(
            "lanes: expected quaternions of 4 elements, found {found} of them"
        )));
    }
    Ok(lanes)
}
