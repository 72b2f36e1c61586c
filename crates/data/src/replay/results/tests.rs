use super::*;

#[test]
fn a_run_that_waits_has_the_folder_after_the_other_one() {
    let out = tempfile::tempdir().unwrap();
    let refused = |held: Result<Flock<fs::File>, OutputError>| held.unwrap_err().to_string();
    let mut other = Some(hold(out.path()).unwrap());
    let said = refused(hold(out.path()));
    assert!(said.contains("another run writes into it"), "{said}");
    let mut looks = 0;
    let held = hold_in_turn(out.path(), || {
        looks += 1;
        // The other run ends between the third look and the fourth.
        if looks == 3 {
            drop(other.take());
        }
        looks < 10
    });
    let held = held.unwrap();
    assert_eq!(looks, 3);
    let said = refused(hold(out.path()));
    assert!(said.contains("another run writes into it"), "{said}");
    drop(held);
    hold(out.path()).unwrap();
}

#[test]
fn a_run_that_is_stopped_waits_no_longer() {
    let out = tempfile::tempdir().unwrap();
    let _other = hold(out.path()).unwrap();
    let mut looks = 0;
    let stopped = hold_in_turn(out.path(), || {
        looks += 1;
        looks < 3
    });
    let stopped = stopped.unwrap_err().to_string();
    assert!(stopped.contains("another run writes into it"), "{stopped}");
    assert_eq!(looks, 3);
}
