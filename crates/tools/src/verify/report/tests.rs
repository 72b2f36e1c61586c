use super::*;

#[test]
fn ticks_without_a_tensor_alone_prove_nothing() {
    let report = |equal, held_back| VerifyReport { equal, held_back, ..VerifyReport::default() };
    assert!(report(3, 2).is_equal());
    assert!(!report(3, 3).is_equal());
    assert!(!report(0, 0).is_equal());
    let most = |unverifiable| VerifyReport { unverifiable, ..report(10, 4) };
    assert!(most(6).is_equal() && !most(7).is_equal());
}

#[test]
fn commands_that_cannot_be_compared_prove_nothing() {
    let report = |equal, unverifiable| VerifyReport {
        equal: 1,
        commands: Some(CommandsReport { equal, unverifiable, ..CommandsReport::default() }),
        ..VerifyReport::default()
    };
    // The node expected no command.
    assert!(report(0, 0).is_equal());
    assert!(report(3, 3).is_equal() && !report(3, 4).is_equal());
}
