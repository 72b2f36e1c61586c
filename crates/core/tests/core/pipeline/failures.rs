//! Backends that panic or fail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::groups::grouped;
use super::hooked::hooked;
use super::*;

#[test]
fn if_a_message_makes_the_backend_panic_its_input_takes_no_other() {
    let (pipeline, backend) = hooked(&one_joint("max_age_ms: 50", ""));
    backend.encode.once(|| panic!("on purpose"));
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
    let (pipeline, backend) = hooked(&grouped(""));
    backend.encode.once(|| panic!("on purpose"));
    let push = |input: usize, joints: &[&str]| {
        let message = joint_state(Stamp::from_nanos(MS), joints, &vec![1.0; joints.len()]);
        pipeline.push(InputId::new(input), &message, Arrival::default())
    };
    assert!(catch_unwind(AssertUnwindSafe(|| push(0, &["a", "b"]))).is_err());
    let error = push(1, &["a", "b"]).unwrap_err();
    assert!(error.to_string().ends_with("message of 'joints' made it panic"), "{error}");
    push(1, &["g"]).expect("the gripper has a ring of its own");
}

#[test]
fn if_a_tick_panics_or_fails_the_next_tick_writes_its_values() {
    let (pipeline, backend) = hooked(&two_streams());
    let mut message = pipeline.new_message();
    push_value(&pipeline, 0, 100, 1.0);
    push_value(&pipeline, 1, 100, 2.0);
    backend.fuse.once(|| panic!("on purpose"));
    assert!(
        catch_unwind(AssertUnwindSafe(|| pipeline.tick(10, Epoch::default(), &mut message)))
            .is_err()
    );
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [0.0]);
    assert_eq!(pipeline.tick(10, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [2.0]);
    push_value(&pipeline, 1, 105, 3.0);
    backend.fuse.once(|| {
        let detail = "on purpose".into();
        Err(BackendError::Failed { backend: "hooked", operation: "fuse", detail })
    });
    assert!(pipeline.tick(11, Epoch::default(), &mut message).is_err());
    assert_eq!(pipeline.tick(11, Epoch::default(), &mut message).unwrap(), TickOutcome::Ready);
    assert_eq!(values(&pipeline, &message, SegmentId::new(1)), [3.0]);
}
