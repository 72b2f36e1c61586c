use super::*;

#[test]
fn offers_of_old_and_new_bags_are_read() {
    let new = "- history: keep_last\n  depth: 10\n  reliability: reliable\n  durability: transient_local\n";
    let old = "- history: 1\n  depth: 5\n  reliability: 2\n  durability: 2\n";
    let [latched] = &read(new)[..] else { panic!() };
    assert!(latched.is_latched() && latched.depth == 10 && latched.reliability == "reliable");
    let [volatile] = &read(old)[..] else { panic!() };
    assert_eq!((volatile.reliability.as_str(), volatile.is_latched()), ("best_effort", false));
    assert_eq!(read(&format!("{new}{new}{old}")).len(), 2);
    for text in ["", "no list", "- [", "- just a word"] {
        assert!(read(text).len() <= 1, "{text}");
    }
}
