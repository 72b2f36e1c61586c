use super::*;

#[test]
fn the_table_names_keys_of_streams() {
    for (at, key) in KEYS.iter().enumerate() {
        assert!(RawStream::KEYS.contains(&key.name), "{}", key.name);
        let again = KEYS[..at].iter().find(|other| other.name == key.name);
        assert!(again.is_none(), "{}", key.name);
    }
}

#[test]
fn defaults_offer_no_key_that_they_refuse() {
    for kind in Kind::ALL {
        let refused = |key: &&'static str| of_each().contains(key);
        assert_eq!(of_kind(kind).into_iter().find(refused), None, "{kind:?}");
    }
}
