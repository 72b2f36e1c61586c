use super::super::commands::tests::group;
use super::{Files, part};

#[test]
fn a_name_is_one_part_of_a_path() {
    assert_eq!(part("elbow.position"), "elbow.position");
    assert_eq!(part("a/b c"), "a\\/b\\ c");
}

#[test]
fn a_silence_is_a_gap_in_the_line_of_commands() {
    let folder = tempfile::tempdir().unwrap();
    let mut scene = Files { folder: folder.path(), count: 0, entities: Vec::new() };
    let ticks = [(0, None), (1, Some(1.0)), (2, None), (3, None), (4, Some(2.0)), (6, Some(3.0))];
    scene.commands("bag", &[group(&ticks)]).unwrap();
    let path = "bag/commands/arm/turning/command";
    let line = scene.entities.iter().find(|entity| entity.path == path).unwrap();
    assert_eq!(line.times_ns, [10_000_000, 40_000_000, 60_000_000]);
    // Nothing is before the first one. Tick 5 is missing.
    assert_eq!(line.gaps_ns, [20_000_000, 59_999_999]);
    let bytes = std::fs::read(folder.path().join(line.file.as_ref().unwrap())).unwrap();
    assert_eq!(bytes.len(), 3 * 8);
}
