//! Runs a model in all orders of its threads.

/// How often one thread may take the place of another that could go on, per run. Three show almost every fault, and more take
/// minutes.
pub(crate) const PREEMPTIONS: usize = 3;

/// Runs a model in all orders of its threads, with at most so many preemptions.
pub(crate) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}
