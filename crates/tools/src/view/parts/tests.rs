use super::*;

#[test]
fn channels_that_share_an_axis_share_a_chart() {
    let names = ["a.position", "b.position", "a.velocity", "force.x", "force.y", "torque.x", "z"];
    let made = groups(&names.map(str::to_owned));
    let made: Vec<_> = made.iter().map(|(label, channels)| (&**label, &channels[..])).collect();
    let wanted: [(&str, &[usize]); 5] = [
        ("position", &[0, 1]),
        ("velocity", &[2]),
        ("force", &[3, 4]),
        ("torque", &[5]),
        ("value", &[6]),
    ];
    assert_eq!(made, wanted);
}

#[test]
fn only_all_is_100_percent() {
    assert_eq!([1.0, 0.999_999, 0.5, 0.0].map(percent), ["100 %", "99.99 %", "50.00 %", "0.00 %"]);
}
