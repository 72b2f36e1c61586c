use super::*;

fn store(lifecycle: Option<&Arc<Lifecycle>>) -> ParameterStore {
    ParameterStore::new(params::declared(), lifecycle.cloned())
}

fn text(value: &str) -> ParameterValue {
    ParameterValue::String(value.to_owned())
}

fn one(name: &str, value: ParameterValue) -> [(String, ParameterValue); 1] {
    [(name.to_owned(), value)]
}

fn value_of(store: &ParameterStore, name: &str) -> ParameterValue {
    store.declared().into_iter().find(|declared| declared.name == name).unwrap().value
}

#[test]
fn a_managed_node_takes_values_while_it_is_unconfigured() {
    let lifecycle = Arc::new(Lifecycle::new().0);
    let store = store(Some(&lifecycle));
    let set = store.set(&one("rate_hz", ParameterValue::Integer(50))).unwrap();
    let names: Vec<_> = set.iter().map(|declared| declared.name).collect();
    assert_eq!((names, &set[0].value), (vec!["rate_hz"], &ParameterValue::Double(50.0)));
    assert_eq!(value_of(&store, "rate_hz"), ParameterValue::Double(50.0));
    lifecycle.begin(1, "");
    let why = store.set(&one("rate_hz", ParameterValue::Double(10.0))).unwrap_err();
    let expected = "expected an unconfigured node, found one that is configuring";
    assert_eq!(why, expected);
    assert_eq!(value_of(&store, "rate_hz"), ParameterValue::Double(50.0));
}

#[test]
fn what_cannot_be_used_is_refused_and_changes_nothing() {
    let lifecycle = Arc::new(Lifecycle::new().0);
    let store = store(Some(&lifecycle));
    let before = store.declared();
    for (name, value, why) in [
        ("rate_hz", text("fast"), "parameter rate_hz: expected a double, found a string"),
        ("backend", text("gpu"), "parameter backend: expected auto, cpu or cuda, found 'gpu'"),
        ("rate_hz", ParameterValue::NotSet, "parameter rate_hz: expected a double, found no value"),
        ("gain", ParameterValue::Double(1.0), "not a parameter of this node"),
        ("managed", ParameterValue::Bool(false), READ_ONLY),
    ] {
        let good = ("digest".to_owned(), ParameterValue::Bool(false));
        let [bad] = one(name, value);
        assert_eq!(store.set(&[good, bad]).unwrap_err(), why);
        assert_eq!(store.declared(), before);
    }
}

#[test]
fn a_node_that_is_not_managed_keeps_its_values() {
    let store = store(None);
    let why = store.set(&one("rate_hz", ParameterValue::Double(10.0))).unwrap_err();
    assert_eq!(why, READ_ONLY);
    assert!(store.is_fixed("rate_hz"));
}
