//! Differences that somebody accepts.

use serde_json::json;

use super::*;

fn accepting(trained: &Contract, served: &Contract, key: &str) -> Result<Contract, String> {
    trained.accepting(served, &[key.to_owned()]).map_err(|error| error.to_string())
}

#[test]
fn an_accepted_value_is_served_and_no_other() {
    let trained = contract(&camera("cv2_area", "stretch"));
    let served = contract(&camera("cv2_linear", "stretch"));
    let key = "wrist.encoder.resizes[0].filter";
    let accepted = accepting(&trained, &served, key).unwrap();
    assert_eq!(refusals(&accepted, &served), Vec::<String>::new());
    assert_eq!(keys_of(&accepted, &served, DifferenceKind::Accepted), [key]);
    assert_eq!(refusals(&accepted, &contract(&camera("nearest", "stretch"))).len(), 1);
    assert_eq!(refusals(&accepted, &contract(&camera("cv2_linear", "pad_center"))).len(), 2);
    // Twice is once, and it survives its text and the choice of streams.
    assert_eq!(accepting(&accepted, &served, key).unwrap(), accepted);
    assert_eq!(Contract::parse(&accepted.to_string()).unwrap(), accepted);
    assert_eq!(refusals(&accepted.only(["wrist"]).unwrap(), &served), Vec::<String>::new());
    // What is served has no say in what is accepted.
    assert_eq!(refusals(&trained, &accepted), Vec::<String>::new());
    assert_eq!(refusals(&served, &accepted).len(), 1);
}

#[test]
fn what_is_no_refused_difference_cannot_be_accepted() {
    let trained = contract(&camera("cv2_area", "stretch"));
    let served = contract(&camera("cv2_linear", "stretch").replace("100", "90"));
    let error = accepting(&trained, &served, "wrist.fit").unwrap_err();
    assert_eq!(
        error,
        "accept: expected one of the differences wrist.encoder.resizes[0].filter, found wrist.fit"
    );
    let error = accepting(&trained, &served, "wrist.max_age_ns").unwrap_err();
    assert!(error.contains("expected one of the differences"), "{error}");
    let error = accepting(&trained, &trained, "wrist.fit").unwrap_err();
    assert!(error.contains("expected nothing, as nothing is refused"), "{error}");
    let other = contract(&camera("cv2_area", "stretch").replace("wrist", "front"));
    let error = accepting(&trained, &other, "wrist").unwrap_err();
    assert!(error.contains("which cannot be accepted"), "{error}");
    let mut value = trained.value();
    value["accepted"] = json!([1]);
    let error = Contract::from_value(value, "test").unwrap_err().to_string();
    assert_eq!(error, "test: expected accepted values by their keys, found accepted: [1]");
}
