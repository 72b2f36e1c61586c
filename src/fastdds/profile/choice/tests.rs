use super::*;
use serde_json::Value;

#[test]
fn the_rule_is_that_of_the_launch_file() {
    let cases = include_str!("../../../../tests/configs/profile_choice.json");
    let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
    assert!(cases.len() > 8);
    for case in cases {
        let surroundings = Surroundings {
            variable: &|name| case["environment"][name].as_str().map(OsString::from),
            exists: &|file| case["files"].as_array().unwrap().iter().any(|f| f == file),
            is_ours: &|path| path == "OURS",
        };
        let chosen = surroundings.choice().is_some();
        assert_eq!(Some(chosen), case["chosen"].as_bool(), "{case}");
    }
}
