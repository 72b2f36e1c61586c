//! Backends that panic or fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use super::groups::grouped;
use super::*;

/// A backend that panics at its first message.
struct Panicking(AtomicBool);

impl Backend for Panicking {
    fn name(&self) -> &'static str {
        "panicking"
    }

    fn encode(&self, _: RingId, _: Slot, _: &PlacedSample<'_>) -> Result<PointDrops, BackendError> {
        assert!(self.0.swap(true, Ordering::Relaxed), "on purpose");
        Ok(PointDrops::default())
    }

    fn fuse(&self, _: &[StepJob], _: OutputMut<'_>) -> Result<(), BackendError> {
        Ok(())
    }
}

#[test]
fn if_a_message_makes_the_backend_panic_its_input_takes_no_other() {
    let config = one_joint("max_age_ms: 50", "").config().clone();
    let pipeline = Pipeline::new(config, Arc::new(Panicking(AtomicBool::new(false)))).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| push_ms(&pipeline, 10))).is_err());
    let message = joint_state(Stamp::from_nanos(20 * MS), &["a"], &[1.0]);
    let error = pipeline.push(FIRST, &message, Arrival::default()).unwrap_err();
    assert!(matches!(error, NotTaken::Failed(_)));
    let words = "an earlier message of 'joints' made it panic";
    assert!(error.to_string().ends_with(words), "{error}");
    let mut message = pipeline.new_message();
    assert_eq!(pipeline.tick(2, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(states(&message), [NEVER]);
}

#[test]
fn if_a_message_makes_the_backend_panic_its_ring_takes_no_other_of_any_input() {
    let config = grouped("").config().clone();
    let pipeline = Pipeline::new(config, Arc::new(Panicking(AtomicBool::new(false)))).unwrap();
    let push = |input: usize, joints: &[&str]| {
        let message = joint_state(Stamp::from_nanos(MS), joints, &vec![1.0; joints.len()]);
        pipeline.push(InputId::new(input), &message, Arrival::default())
    };
    assert!(catch_unwind(AssertUnwindSafe(|| push(0, &["a", "b"]))).is_err());
    let error = push(1, &["a", "b"]).unwrap_err();
    assert!(error.to_string().ends_with("message of 'joints' made it panic"), "{error}");
    push(1, &["g"]).expect("the gripper has a ring of its own");
}

/// The CPU backend, except that a tick can panic or fail before it writes anything.
struct Failing {
    cpu: CpuBackend,
    panics: AtomicBool,
    fails: AtomicBool,
}

impl Backend for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn encode(
        &self,
        at: RingId,
        to: Slot,
        of: &PlacedSample<'_>,
    ) -> Result<PointDrops, BackendError> {
        self.cpu.encode(at, to, of)
    }

    fn fuse(&self, jobs: &[StepJob], out: OutputMut<'_>) -> Result<(), BackendError> {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "on purpose");
        if self.fails.swap(false, Ordering::Relaxed) {
            let operation = "fuse";
            let detail = "on purpose".into();
            return Err(BackendError::Failed { backend: "failing", operation, detail });
        }
        self.cpu.fuse(jobs, out)
    }
}

#[test]
fn if_a_tick_panics_or_fails_the_next_tick_writes_its_values() {
    let config = two_streams().config().clone();
    let cpu = CpuBackend::new(&config, &Layout::new(&config)).unwrap();
    let panics = AtomicBool::new(false);
    let fails = AtomicBool::new(false);
    let backend = Arc::new(Failing { cpu, panics, fails });
    let pipeline = Pipeline::new(config, backend.clone()).unwrap();
    let mut message = pipeline.new_message();
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    backend.panics.store(true, Ordering::Relaxed);
    assert!(
        catch_unwind(AssertUnwindSafe(|| pipeline.tick(10, Epoch::default(), &mut message)))
            .is_err()
    );
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [0.0]);
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [2.0]);
    push_value(&pipeline, 1, 105, 3.0);
    backend.fails.store(true, Ordering::Relaxed);
    assert!(pipeline.tick(11, Epoch::default(), &mut message).is_err());
    assert_eq!(pipeline.tick(11, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [3.0]);
}
