use super::*;

#[test]
fn the_limit_is_a_number_of_seconds() {
    assert_eq!(parse("60").unwrap(), Duration::from_secs(60));
    assert_eq!(parse("0.5").unwrap(), Duration::from_millis(500));
    for text in ["", "0", "-1", "NaN", "inf", "3601", "4 s"] {
        let expected = format!(
            "ROBOCACHE_END_S: expected more than 0 and at most 3600 seconds, found '{text}'"
        );
        assert_eq!(parse(text).unwrap_err().to_string(), expected);
    }
}
