use super::*;
use crate::messages::{
    CAMERA_MS, CAMERAS, LIDAR, LIDAR_MS, POINT_STEP, ROBOT, cloud, image, noise, points, vectors,
};
use crate::pair::parse;
use crate::soak::note::Pool;
use robocache_core::layout::Layout;
use robocache_core::spec::InputId;
use robocache_ops::image::Encoding;
use robocache_ops::time::Stamp;
use std::sync::mpsc;

fn pipeline() -> Pipeline {
    let config = parse(&ROBOT.replace("rate_hz: 100\n", "rate_hz: 1000\n")).unwrap();
    let layout = Layout::new(&config);
    let backend = robocache_core::backend::cpu::CpuBackend::new(&config, &layout).unwrap();
    Pipeline::new(config, Arc::new(backend)).unwrap()
}

/// The first instant of an image and a cloud.
const BOTH_MS: i64 = CAMERA_MS * LIDAR_MS;

/// The images and the cloud of an instant.
fn large(ms: i64, pixels: &[u8], points: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let stamp = Stamp::from_nanos(ms * NANOS_PER_MS);
    let mut messages = Vec::new();
    if ms % CAMERA_MS == 0 {
        let image = |camera: usize| {
            let pixels = &pixels[(ms as usize + camera) % 100..];
            (camera, image(stamp, Encoding::Rgb8, [64, 48], pixels, Vec::new()))
        };
        messages.extend(CAMERAS.map(image));
    }
    if ms % LIDAR_MS == 0 {
        let first = ms as usize % 100 * POINT_STEP;
        let points = &points[first..first + 1000 * POINT_STEP];
        messages.push((LIDAR, cloud(stamp, points, Vec::new())));
    }
    messages
}

/// A robot's messages up to `end_ms` and then a tick at it, for which `settled` says when the
/// large inputs were.
fn check(end_ms: i64, settled_ms: i64, spoil: impl FnOnce(&mut [u8])) -> Checked {
    check_without(None, end_ms, settled_ms, spoil)
}

/// As [`check`], but the large messages of the instant `lost` never become rows.
fn check_without(
    lost: Option<i64>,
    end_ms: i64,
    settled_ms: i64,
    spoil: impl FnOnce(&mut [u8]),
) -> Checked {
    let subject = pipeline();
    let oracle = pipeline();
    let timeline = Timeline::new(0);
    let (send, notes) = mpsc::sync_channel(8192);
    let pixels = noise(64 * 48 * 3, 1);
    let points = points(2000, POINT_STEP / 4, 14.0);
    let pool = Pool::new(40, 64 << 10);
    for ms in 1..=end_ms {
        let stamp_ns = ms * NANOS_PER_MS;
        vectors(ms, |stream, bytes| {
            push(&subject, stream, &bytes)?;
            let input = InputId::new(stream);
            send.send(Note::Vector { input, stamp_ns, bytes }).unwrap();
            Ok(())
        })
        .unwrap();
        // Its memory returns only when the checker has run.
        if ms <= end_ms - 250 {
            continue;
        }
        for (stream, bytes) in large(ms, &pixels, &points) {
            let input = InputId::new(stream);
            let message = Arc::new(pool.copy(&bytes).unwrap());
            send.send(Note::Large { input, stamp_ns, message }).unwrap();
            if lost == Some(ms) {
                send.send(Note::Lost { input, stamp_ns }).unwrap();
            } else if ms <= settled_ms {
                push(&subject, stream, &bytes).unwrap();
            }
        }
    }
    let mut message = subject.new_message();
    subject.tick(end_ms, Epoch::default(), &mut message).unwrap();
    let mut bytes = message.message().to_vec();
    spoil(&mut bytes);
    let message = Pool::new(1, bytes.len()).copy(&bytes).unwrap();
    let mut settled = vec![end_ms * NANOS_PER_MS; 6];
    settled[..3].fill(settled_ms * NANOS_PER_MS);
    send.send(Note::Tick { tick: end_ms, settled, message }).unwrap();
    send.send(Note::End).unwrap();
    Checker::new(&timeline, &oracle).run(notes).unwrap()
}

#[test]
fn a_tick_is_compared_once_what_it_shows_is_known() {
    // The target is the instant of an image and of a cloud.
    let at = BOTH_MS + 20;
    let checked = check(at, at, |_| {});
    assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
    // What came after the target does not matter.
    let checked = check(at, BOTH_MS, |_| {});
    assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
    let checked = check(at, BOTH_MS - 1, |_| {});
    assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (0, 1, None));
}

#[test]
fn a_message_that_was_lost_is_not_expected() {
    let checked = check_without(Some(BOTH_MS), BOTH_MS + 20, BOTH_MS + 20, |_| {});
    assert_eq!((checked.equal, checked.unsettled, checked.mismatch), (1, 0, None));
}

#[test]
fn another_bit_is_a_mismatch() {
    for at in [3000, 700_000, -1] {
        let checked = check(150, 150, |bytes| {
            let at = usize::try_from(at).unwrap_or(bytes.len() - 1);
            bytes[at] ^= 1;
        });
        assert_eq!((checked.equal, checked.unsettled), (0, 0));
        let found = checked.mismatch.unwrap();
        assert!(found.starts_with("tick 150: expected the bits of the CPU backend"), "{found}");
    }
}
