use super::*;

#[test]
fn a_request_during_the_work_of_another_one_is_refused() {
    let (lifecycle, _) = Lifecycle::new();
    assert_eq!(lifecycle.begin(1, ""), Some(LifecycleState::Configuring));
    for (id, label) in [(1, ""), (5, ""), (10, ""), (0, "shutdown"), (0, "transition_success")] {
        assert_eq!(lifecycle.begin(id, label), None);
    }
    assert_eq!(lifecycle.end(Verdict::Success), LifecycleState::Inactive);
    assert_eq!(lifecycle.end(Verdict::Success), LifecycleState::Inactive, "no work is under way");
    assert_eq!(lifecycle.begin(0, "activate"), Some(LifecycleState::Activating));
}

#[test]
fn after_an_error_the_node_can_be_configured_again() {
    let (lifecycle, _) = Lifecycle::new();
    lifecycle.begin(1, "");
    assert_eq!(lifecycle.end(Verdict::Error), LifecycleState::ErrorProcessing);
    assert_eq!(lifecycle.begin(1, ""), None);
    assert_eq!(lifecycle.end(Verdict::Success), LifecycleState::Unconfigured);
    assert_eq!(lifecycle.begin(1, ""), Some(LifecycleState::Configuring));
}

#[test]
fn of_requests_at_the_same_time_one_begins() {
    let (lifecycle, _) = Lifecycle::new();
    let ask = || usize::from(lifecycle.begin(1, "").is_some());
    let begun: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(begun, 1);
}
