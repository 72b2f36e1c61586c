use super::*;

#[test]
fn a_run_that_waits_has_the_folder_after_the_other_one() {
    let out = tempfile::tempdir().unwrap();
    let other = hold(out.path()).unwrap();
    let refused = hold(out.path()).unwrap_err().to_string();
    assert!(refused.contains("another run writes into it"), "{refused}");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let _held = hold_in_turn(out.path(), &AtomicBool::new(false)).unwrap();
            assert!(is_over.load(Ordering::Relaxed));
        });
        is_over.store(true, Ordering::Relaxed);
        drop(other);
        waits.join().unwrap();
    });
}

#[test]
fn a_run_that_is_stopped_waits_no_longer() {
    let out = tempfile::tempdir().unwrap();
    let _other = hold(out.path()).unwrap();
    let stopped = hold_in_turn(out.path(), &AtomicBool::new(true)).unwrap_err().to_string();
    assert!(stopped.contains("another run writes into it"), "{stopped}");
}
