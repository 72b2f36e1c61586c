use super::*;

const MS: i64 = 1_000_000;
const NO_LIMITS: Limits = Limits { frames: 64, rows: 64, max_gap_ns: i64::MAX };

pub(super) fn ms(ms: i64) -> Stamp {
    Stamp::from_nanos(ms * MS)
}

fn shift(x: f64) -> Transform {
    Transform { translation: [x, 0.0, 0.0], ..Transform::IDENTITY }
}

pub(super) fn moving<'a>(parent: &'a str, child: &'a str, at_ms: i64, x: f64) -> Link<'a> {
    let stamp = ms(at_ms);
    let transform = shift(x);
    let epoch = Epoch::default();
    Link { stamp, parent, child, transform, fixed: false, epoch, arrival: None }
}

pub(super) fn fixed<'a>(parent: &'a str, child: &'a str, x: f64) -> Link<'a> {
    Link { fixed: true, ..moving(parent, child, 0, x) }
}

fn buffer(links: &[Link<'_>]) -> Buffer {
    let mut buffer = Buffer::new(NO_LIMITS);
    links.iter().for_each(|link| buffer.insert(*link).unwrap());
    buffer
}

/// The shift along x that takes `source` to `target`.
pub(super) fn x(
    buffer: &Buffer,
    target: &str,
    source: &str,
    at_ms: i64,
) -> Result<f64, LookupError> {
    buffer.lookup(target, source, ms(at_ms)).map(|found| found.translation[0])
}

/// Answer of `ask` at a stamp.
struct Golden {
    ask: [String; 2],
    stamp: Stamp,
    answer: Option<Vec<f64>>,
}

type Said = (bool, String, String, Stamp, Transform);

/// The cases of `tests/golden/tf.txt`, which `make_tf_golden.py` made.
fn golden() -> Vec<(Vec<Said>, Vec<Golden>)> {
    let mut cases: Vec<(Vec<Said>, Vec<Golden>)> = Vec::new();
    let lines = include_str!("../../../../tests/golden/tf.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let stamp = |at: usize| Stamp::from_nanos(words[at].parse().unwrap());
        let numbers = |at: usize| words[at..].iter().map(|n| n.parse().unwrap());
        let name = |at: usize| words[at].to_owned();
        match words[0] {
            "case" => cases.push((Vec::new(), Vec::new())),
            "link" => {
                let n: Vec<f64> = numbers(5).collect();
                let t = Transform::new([n[0], n[1], n[2]], [n[3], n[4], n[5], n[6]]).unwrap();
                let said = (words[1] == "fixed", name(2), name(3), stamp(4), t);
                cases.last_mut().unwrap().0.push(said);
            }
            _ => {
                let answer = (words[4] != "none").then(|| numbers(4).collect());
                let ask = [name(1), name(2)];
                cases.last_mut().unwrap().1.push(Golden { ask, stamp: stamp(3), answer });
            }
        }
    }
    cases
}

fn filled<'a>(said: impl Iterator<Item = &'a Said>) -> Buffer {
    let mut buffer = Buffer::new(NO_LIMITS);
    for (fixed, parent, child, stamp, transform) in said {
        let fixed = *fixed;
        let stamp = *stamp;
        let transform = *transform;
        let epoch = Epoch::default();
        let arrival = None;
        let link = Link { stamp, parent, child, transform, fixed, epoch, arrival };
        buffer.insert(link).unwrap();
    }
    buffer
}

#[test]
fn look_ups_along_random_trees_are_those_of_scipy() {
    let mut answers = 0;
    let mut nothing = 0;
    for (said, asked) in golden() {
        let buffer = filled(said.iter());
        for Golden { ask: [target, source], stamp, answer } in asked {
            let found = buffer.lookup(&target, &source, stamp);
            let Some(answer) = answer else {
                assert!(found.is_err(), "{target} {source} {stamp}: {found:?}");
                nothing += 1;
                continue;
            };
            let found = found.unwrap();
            let sign = found.rotation.iter().zip(&answer[3..]).map(|(a, b)| a * b).sum::<f64>();
            let sign = sign.signum();
            let numbers = found.translation.into_iter().chain(found.rotation.map(|q| q * sign));
            for (got, expected) in numbers.zip(&answer) {
                assert!((got - expected).abs() < 2e-12, "{target} {source} {stamp}: {found:?}");
            }
            answers += 1;
        }
    }
    assert!(answers > 150 && nothing > 50, "{answers} {nothing}");
}

#[test]
fn the_order_of_arrival_changes_no_bit() {
    for (said, asked) in golden() {
        let buffers = [
            filled(said.iter()),
            filled(said.iter().rev()),
            filled(said.iter().step_by(2).chain(said.iter().skip(1).step_by(2))),
        ];
        for Golden { ask: [target, source], stamp, .. } in asked {
            let [a, b, c] = [0, 1, 2].map(|at: usize| buffers[at].lookup(&target, &source, stamp));
            let bits = |found: &Result<Transform, LookupError>| {
                found
                    .as_ref()
                    .ok()
                    .map(|t| (t.translation.map(f64::to_bits), t.rotation.map(f64::to_bits)))
            };
            assert_eq!((bits(&a), bits(&a)), (bits(&b), bits(&c)));
        }
    }
}

#[test]
fn nothing_extrapolates_and_the_error_says_what_is_missing() {
    let buffer = buffer(&[
        moving("odom", "base", 100, 1.0),
        moving("odom", "base", 200, 3.0),
        fixed("base", "lidar", 0.5),
    ]);
    assert_eq!(x(&buffer, "odom", "lidar", 150), Ok(2.5));
    assert_eq!([100, 200].map(|at| x(&buffer, "odom", "lidar", at)), [Ok(1.5), Ok(3.5)]);
    assert_eq!(x(&buffer, "/lidar", "/odom", 200), Ok(-3.5));
    let why = |target, at| {
        let error = x(&buffer, target, "lidar", at).unwrap_err();
        (error.waiting_helps(), error.to_string())
    };
    let (helps, words) = why("odom", 201);
    assert!(helps && words.contains("\"base\" in its parent"), "{words}");
    assert!(words.contains("found 0.200000000 as the newest"), "{words}");
    let (helps, words) = why("odom", 99);
    assert!(!helps && words.contains("found 0.100000000 as the oldest"), "{words}");
    let (helps, words) = why("map", 150);
    assert!(helps && words.contains("frame \"map\": expected in tf"), "{words}");
    // What is above the frame where the two meet does not matter.
    assert_eq!(x(&buffer, "base", "lidar", 9000), Ok(0.5));
}

#[test]
fn two_trees_may_still_be_joined() {
    let mut buffer = buffer(&[fixed("base", "arm", 1.0), fixed("mount", "lidar", 1.0)]);
    let error = x(&buffer, "base", "lidar", 0).unwrap_err();
    assert!(error.waiting_helps());
    assert_eq!(
        error.to_string(),
        "expected a chain from \"lidar\" to \"base\", found two trees: \"mount\" and \"base\" have no \
         parent"
    );
    buffer.insert(fixed("arm", "mount", 1.0)).unwrap();
    assert_eq!(x(&buffer, "base", "lidar", 0), Ok(3.0));
}

#[test]
fn a_frame_with_a_new_parent_has_none_in_between() {
    // The tool is put down: from the gripper to the table.
    let buffer = buffer(&[
        fixed("base", "gripper", 1.0),
        fixed("base", "table", 10.0),
        moving("gripper", "tool", 0, 0.1),
        moving("gripper", "tool", 100, 0.2),
        moving("table", "tool", 200, 0.3),
        moving("table", "tool", 300, 0.4),
    ]);
    assert_eq!([0, 100].map(|at| x(&buffer, "base", "tool", at)), [Ok(1.1), Ok(1.2)]);
    assert_eq!([200, 300].map(|at| x(&buffer, "base", "tool", at)), [Ok(10.3), Ok(10.4)]);
    let error = x(&buffer, "base", "tool", 150).unwrap_err();
    assert!(!error.waiting_helps());
    assert_eq!(
        error.to_string(),
        "\"tool\" at 0.150000000: expected one parent, found \"gripper\" before and \"table\" after"
    );
}

#[test]
fn loops_and_gaps_are_errors_and_limits_hold() {
    let around = buffer(&[fixed("a", "b", 1.0), fixed("b", "c", 1.0), fixed("c", "a", 1.0)]);
    let mut with_other = around;
    with_other.insert(fixed("d", "e", 1.0)).unwrap();
    let error = x(&with_other, "e", "a", 0).unwrap_err();
    assert!(matches!(error, LookupError::Loop { .. }) && !error.waiting_helps(), "{error}");

    let mut small = Buffer::new(Limits { frames: 3, rows: 2, max_gap_ns: 50 * MS });
    for at in [0, 40, 100] {
        small.insert(moving("odom", "base", at, at as f64)).unwrap();
    }
    let late = small.insert(moving("odom", "base", 10, 0.0)).unwrap_err();
    assert!(matches!(late, LinkError::Late { rows: 2, .. }), "{late}");
    let error = x(&small, "odom", "base", 70).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("at most 50 ms apart (tf.max_gap_ms; 50 for a gyro), found 60 ms"),
        "{error}"
    );
    small.insert(fixed("base", "lidar", 0.0)).unwrap();
    let error = small.insert(fixed("base", "camera", 0.0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected at most 3 frames (tf.max_frames), found another one: \"camera\""
    );
    assert_eq!(small.frames(), 3);
    let error = small.insert(fixed("base", "/base", 0.0)).unwrap_err();
    assert_eq!(error, LinkError::OwnParent("base".into()));
    assert_eq!(small.insert(fixed("", "base", 0.0)), Err(LinkError::Name(0)));
    let long = "x".repeat(MAX_NAME + 1);
    assert_eq!(small.insert(fixed(&long, "base", 0.0)), Err(LinkError::Name(MAX_NAME + 1)));
}

#[test]
fn of_two_fixed_transforms_at_one_stamp_the_later_one_counts() {
    // A correction of a calibration, in both directions, and with the parent corrected.
    for (first, second) in [(1.0, 2.0), (2.0, 1.0), (-1.0, 0.0), (0.0, -1.0)] {
        let mut buffer = buffer(&[fixed("base", "lidar", first)]);
        buffer.insert(fixed("base", "lidar", second)).unwrap();
        assert_eq!(x(&buffer, "base", "lidar", 0), Ok(second));
        assert_eq!(buffer.conflicts(), 1);
        // A correction with an earlier stamp is one, too, and no conflict.
        let earlier = Link { stamp: ms(-5), ..fixed("base", "lidar", first) };
        buffer.insert(earlier).unwrap();
        assert_eq!((x(&buffer, "base", "lidar", 0), buffer.conflicts()), (Ok(first), 1));
        buffer.insert(Link { stamp: ms(-5), ..fixed("base", "lidar", second) }).unwrap();
        assert_eq!(buffer.conflicts(), 2);
        buffer.insert(fixed("base", "lidar", second)).unwrap();
        // Said again, it changes nothing, and is no conflict.
        buffer.insert(fixed("base", "lidar", second)).unwrap();
        assert_eq!((x(&buffer, "base", "lidar", 0), buffer.conflicts()), (Ok(second), 2));
    }
    let buffer = buffer(&[fixed("map", "base", 1.0), fixed("base_link", "base", 1.0)]);
    assert_eq!((x(&buffer, "base_link", "base", 0), buffer.conflicts()), (Ok(1.0), 1));
}

#[test]
fn equal_stamps_moving_links_and_epochs_do_not_depend_on_the_order() {
    for turned in [false, true] {
        let mut links = vec![
            moving("odom", "base", 0, 1.0),
            moving("odom", "base", 0, 2.0),
            fixed("base", "lidar", 5.0),
            moving("odom", "wheel", 0, 1.0),
            fixed("base", "wheel", 7.0),
        ];
        if turned {
            links.reverse();
        }
        let mut buffer = Buffer::new(NO_LIMITS);
        for link in links {
            let _ = buffer.insert(link);
        }
        assert_eq!(x(&buffer, "odom", "lidar", 0), Ok(7.0));
        assert_eq!(x(&buffer, "base", "wheel", 0), Ok(7.0));
        assert_eq!(buffer.conflicts(), 1);
        let epoch = Epoch::default().next(Some(ms(9)));
        buffer.begin(epoch);
        assert_eq!(x(&buffer, "base", "lidar", 0), Ok(5.0), "latched");
        let error = x(&buffer, "odom", "lidar", 0).unwrap_err();
        assert!(matches!(error, LookupError::NotConnected { .. }), "{error}");
        // What is said in a later epoch counts, although its stamp and its numbers are smaller.
        buffer.insert(Link { stamp: ms(-5), epoch, ..fixed("base", "lidar", 2.0) }).unwrap();
        buffer.insert(moving("odom", "base", 0, 1.0)).unwrap();
        assert_eq!(x(&buffer, "odom", "lidar", 0), Ok(3.0));
    }
}

#[test]
fn numbers_that_are_no_transform_are_refused() {
    let unit = [0.0, 0.0, 0.0, 1.0];
    let bad = |t, q| Transform::new(t, q).unwrap_err().to_string();
    assert_eq!(bad([f64::NAN, 0.0, 0.0], unit), "expected finite numbers, found NaN or infinity");
    assert_eq!(
        bad([0.0; 3], [0.0, f64::INFINITY, 0.0, 0.0]),
        "expected finite numbers, found NaN or infinity"
    );
    assert_eq!(
        bad([0.0; 3], [0.0; 4]),
        "rotation: expected a quaternion of length 1, found length 0.0000"
    );
    assert!(Transform::new([0.0; 3], [0.0, 0.0, 0.0, 1.02]).is_err());
    let near = Transform::new([1e300, 0.0, 0.0], [0.0, 0.0, 0.0, 1.004]).unwrap();
    assert_eq!(near.rotation, unit);
}

#[test]
fn a_frame_that_was_cut_says_so() {
    let longest = "ä".repeat(MAX_NAME);
    assert_eq!(shown(&longest), longest);
    assert_eq!(shown(&format!("{longest}x")), format!("{longest}…"));
    assert_eq!(shown(""), "");
}
