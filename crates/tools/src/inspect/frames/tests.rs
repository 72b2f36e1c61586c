use super::*;

fn tree(links: &[(&str, &str, f64, bool)]) -> Frames {
    let mut frames = Frames::default();
    for (parent, child, x, fixed) in links {
        let transform = Transform::new([*x, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]).ok();
        frames.add(*fixed, parent, child, transform);
    }
    frames
}

#[test]
fn chains_meet_where_the_tree_joins_them() {
    let frames = tree(&[
        ("odom", "base_link", 5.0, false),
        ("base_link", "lidar", 0.5, true),
        ("/base_link", "arm", 0.25, false),
        ("arm", "camera", 1.0, true),
        ("world", "other", 1.0, true),
    ]);
    let (lidar, fixed) = frames.transform("base_link", "lidar").unwrap();
    assert_eq!((lidar.translation, fixed), ([0.5, 0.0, 0.0], true));
    let (camera, fixed) = frames.transform("lidar", "camera").unwrap();
    assert_eq!((camera.translation, fixed), ([0.75, 0.0, 0.0], false));
    assert!(frames.transform("base_link", "other").is_none());
    assert_eq!(frames.report().roots, ["odom", "world"]);
    assert!(frames.has("/arm") && frames.has("world") && !frames.has("tool"));
}

#[test]
fn a_ring_of_frames_ends() {
    let frames = tree(&[("a", "b", 1.0, true), ("b", "a", 1.0, true)]);
    assert!(frames.transform("a", "c").is_none() && frames.transform("a", "b").is_some());
}

#[test]
fn a_message_that_ends_early_is_an_error_and_its_count_is_not_believed() {
    let mut message = vec![0, 1, 0, 0];
    message.extend(u32::MAX.to_le_bytes());
    assert!(Frames::default().take(true, &message, |_| ()).is_err());
}
