use super::*;

#[test]
fn defaults_offer_no_key_that_they_refuse() {
    for kind in Kind::ALL {
        let refused = |key: &&'static str| OF_EACH.contains(key);
        assert_eq!(kind.keys().into_iter().find(refused), None, "{kind:?}");
    }
}
