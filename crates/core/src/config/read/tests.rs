use super::*;

#[test]
fn whole_numbers_are_those_of_the_core_schema() {
    for (text, number) in
        [("0", 0), ("-12", -12), ("+7", 7), ("0x1F", 31), ("0o17", 15), ("-0x10", -16)]
    {
        assert_eq!(whole(text), Some(number), "{text}");
    }
    for text in ["", "-", "0x", "0xg", "+-1", "0x-1", "1_000", "1.0", "1e3", "a", "0b2", " 1"] {
        assert_eq!(whole(text), None, "{text}");
    }
}
