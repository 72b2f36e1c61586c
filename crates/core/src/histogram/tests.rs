use super::*;

#[test]
fn a_maximum_that_lacks_the_newest_duration_is_that_of_its_bucket() {
    let mut counts = vec![0; BUCKETS];
    counts[bucket_of(5_000_000)] = 1;
    let of = quantiles(&counts, i64::MIN);
    assert_eq!((of.count, of.p50_ns), (1, of.max_ns));
    assert!((5_000_000..5_200_000).contains(&of.max_ns), "{of:?}");
}

#[test]
fn buckets_are_contiguous_and_their_ends_are_inside() {
    for bucket in 0..BUCKETS {
        let end = upper_end(bucket);
        assert_eq!(bucket_of(end), bucket);
        if let Some(next) = end.checked_add(1) {
            assert_eq!(bucket_of(next), bucket + 1);
        }
    }
    assert_eq!((bucket_of(i64::MIN), bucket_of(i64::MAX)), (0, BUCKETS - 1));
}

/// Reads the histogram at this second.
fn read(reader: &mut WindowReader, histogram: &Histogram, s: u64) -> Windows {
    reader.read(histogram, Duration::from_secs(s))
}

#[test]
fn quantiles_are_within_a_bucket_of_the_sorted_values() {
    let histogram = Histogram::default();
    let mut reader = WindowReader::default();
    for i in 1..=1000 {
        histogram.record(i * 1000);
    }
    let Windows { window, recent, total } = read(&mut reader, &histogram, 1);
    assert_eq!((window, recent), (total, total));
    assert_eq!((window.count, window.max_ns), (1000, 1_000_000));
    let exact = [500_000.0, 990_000.0, 999_000.0];
    for (found, exact) in [window.p50_ns, window.p99_ns, window.p999_ns].into_iter().zip(exact) {
        assert!((found as f64 / exact - 1.0).abs() < 1.0 / 32.0, "{found} against {exact}");
    }
}

#[test]
fn negative_durations_keep_their_order() {
    let histogram = Histogram::default();
    let mut reader = WindowReader::default();
    for nanos in [-5_000_000, -4_000_000, -3_000_000, 2_000_000] {
        histogram.record(nanos);
    }
    let window = read(&mut reader, &histogram, 1).window;
    assert!((window.p50_ns + 4_000_000).abs() <= 4_000_000 / 32, "{window:?}");
    assert_eq!((window.p99_ns, window.max_ns), (2_000_000, 2_000_000));
    histogram.record(-7);
    let window = read(&mut reader, &histogram, 2).window;
    assert_eq!((window.count, window.p50_ns, window.max_ns), (1, -7, -7));
}

#[test]
fn a_window_forgets_and_the_total_does_not() {
    let histogram = Histogram::default();
    let mut reader = WindowReader::default();
    histogram.record(5_000_000);
    read(&mut reader, &histogram, 1);
    histogram.record(0);
    let Windows { window, total, .. } = read(&mut reader, &histogram, 2);
    assert_eq!((window.count, window.max_ns), (1, 0));
    assert_eq!((total.count, total.max_ns), (2, 5_000_000));
    assert_eq!(read(&mut reader, &histogram, 3).window, Quantiles::default());
}

#[test]
fn the_recent_past_forgets_a_burst_after_two_and_a_half_minutes() {
    let histogram = Histogram::default();
    let mut reader = WindowReader::default();
    // One slow burst at the start, then 100 messages in each second.
    (0..50).for_each(|_| histogram.record(360_000_000));
    let mut recent = |s: u64| {
        (0..100).for_each(|_| histogram.record(700_000));
        read(&mut reader, &histogram, s).recent
    };
    let windows: Vec<Quantiles> = (1..=600).map(&mut recent).collect();
    let slow = |recent: &&Quantiles| recent.p999_ns > 300_000_000;
    let forgotten = windows.iter().take_while(slow).count() as u64;
    assert!((120..=150).contains(&forgotten), "{forgotten}");
    assert!(windows[150..].iter().all(|recent| recent.p999_ns < 730_000));
    assert!(windows[200..].iter().all(|recent| (12_000..=15_000).contains(&recent.count)));
}
