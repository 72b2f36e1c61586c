use super::*;

/// The state after a request, and after its work.
fn after(state: LifecycleState, label: &str, verdict: Verdict) -> Option<LifecycleState> {
    let working = Transition::asked(state, 0, label)?.goal;
    assert!(!working.is_primary());
    Some(Transition::ended(working, verdict)?.goal)
}

#[test]
fn each_request_leads_where_the_design_says() {
    let states = [Unconfigured, Inactive, Active, Finalized];
    let goals = |label| states.map(|state| after(state, label, Verdict::Success));
    assert_eq!(goals("configure"), [Some(Inactive), None, None, None]);
    assert_eq!(goals("cleanup"), [None, Some(Unconfigured), None, None]);
    assert_eq!(goals("activate"), [None, Some(Active), None, None]);
    assert_eq!(goals("deactivate"), [None, None, Some(Inactive), None]);
    assert_eq!(goals("shutdown"), [Some(Finalized), Some(Finalized), Some(Finalized), None]);
    assert_eq!(goals("transition_success"), [None; 4]);
}

#[test]
fn an_error_leads_through_error_processing() {
    for state in LifecycleState::ALL.into_iter().filter(|state| state.is_primary()) {
        for transition in state.transitions() {
            let failed = Transition::ended(transition.goal, Verdict::Error).unwrap();
            assert_eq!(failed.goal, ErrorProcessing, "{transition:?}");
        }
    }
    let goal = |verdict| Transition::ended(ErrorProcessing, verdict).unwrap().goal;
    assert_eq!(goal(Verdict::Success), Unconfigured);
    assert_eq!((goal(Verdict::Failure), goal(Verdict::Error)), (Finalized, Finalized));
}

#[test]
fn the_label_counts_before_the_number() {
    let asked = |id, label| Transition::asked(Inactive, id, label).map(|it| it.id);
    assert_eq!((asked(3, ""), asked(0, "activate")), (Some(3), Some(3)));
    assert_eq!((asked(3, "cleanup"), asked(5, "shutdown")), (Some(2), Some(6)));
    assert_eq!((asked(5, ""), asked(3, "Activate")), (None, None));
}

#[test]
fn no_request_begins_or_ends_work_under_way() {
    for state in LifecycleState::ALL.into_iter().filter(|state| !state.is_primary()) {
        for id in 0..=u8::MAX {
            assert_eq!(Transition::asked(state, id, ""), None, "{state:?}, {id}");
        }
        assert_eq!(Transition::asked(state, 0, "transition_success"), None);
    }
    let primary = LifecycleState::ALL.into_iter().filter(|state| state.is_primary());
    for state in primary {
        assert_eq!(Transition::ended(state, Verdict::Success), None);
    }
}

#[test]
fn labels_are_unique_in_each_state_and_numbers_in_all() {
    for (at, one) in Transition::ALL.iter().enumerate() {
        for other in &Transition::ALL[..at] {
            assert_ne!(one.id, other.id);
            assert!(one.start != other.start || one.label != other.label, "{one:?}");
        }
    }
}
