use super::*;

fn failure() -> Result<Option<u8>, MiddlewareError> {
    Err(MiddlewareError("take a message of /a: out of memory".into()))
}

#[test]
fn only_repeated_failures_of_a_take_end_the_node() {
    let mut takes = Takes::default();
    for _ in 0..3 {
        for _ in 1..FAILURES {
            assert_eq!(takes.note(failure()), Ok(None));
        }
        assert_eq!(takes.note(Ok(Some(7))), Ok(Some(7)), "a success ends the row");
    }
    for _ in 1..FAILURES {
        assert_eq!(takes.note(failure()), Ok(None));
    }
    let error = takes.note(failure()).unwrap_err().to_string();
    assert_eq!(error, "take a message of /a: out of memory");
}
