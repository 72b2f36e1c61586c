//! When the points of a cloud were measured: the key `deskew`.

use super::check::{Check, Range, is_printable};
use super::raw::{RawDeskew, Sensor, TimeFrom, TimeUnit};
use crate::spec::{DeskewSpec, still_frame};
use robocache_ops::time::NANOS_PER_MS;

/// The longest time from a cloud's stamp to a point \[ms\].
const MAX_MS: f64 = 10_000.0;
/// The longest span with a gyro \[ns\]. A gap of its messages is longer than the time between two knots,
/// so no knot misses it.
const MAX_GYRO_NS: i64 = 2000 * NANOS_PER_MS;

/// How the driver of a sensor sends the times of points, unless it is set up otherwise.
struct Convention {
    time_field: &'static str,
    unit: TimeUnit,
    from: TimeFrom,
    /// At 10 Hz, with a margin.
    span_ms: [f64; 2],
}

/// docs/clouds.md has the table.
const fn convention(sensor: Sensor) -> Convention {
    // A stamp is that of the first point, or that of the last.
    let first = [-5.0, 105.0];
    let last = [-105.0, 5.0];
    let (time_field, unit, from, span_ms) = match sensor {
        Sensor::Ouster => ("t", TimeUnit::Ns, TimeFrom::Header, first),
        Sensor::Velodyne => ("time", TimeUnit::S, TimeFrom::Header, last),
        Sensor::Hesai => ("timestamp", TimeUnit::S, TimeFrom::Epoch, first),
        Sensor::Robosense => ("timestamp", TimeUnit::S, TimeFrom::Epoch, last),
        Sensor::Livox => ("timestamp", TimeUnit::Ns, TimeFrom::Epoch, first),
    };
    Convention { time_field, unit, from, span_ms }
}

/// Validates the key `deskew` of the stream at `key`. `None` if it is wrong, which is reported.
pub(super) fn deskew(check: &mut Check<'_>, key: &str, raw: RawDeskew) -> Option<DeskewSpec> {
    let at = |rest: &str| format!("{key}.deskew.{rest}");
    let gyro = raw.gyro.map(|topic| check.topic(&at("gyro"), topic));
    let expected =
        "a frame that does not move meanwhile, such as odom; or the key gyro, the topic of an IMU";
    let fixed_frame = match (&gyro, raw.fixed_frame) {
        (Some(_), Some(_)) => {
            check.fail_found(&at("gyro"), "only one of fixed_frame and gyro", "both");
            None
        }
        (Some(topic), None) => topic.as_deref().map(still_frame),
        (None, frame) => check
            .required(&at("fixed_frame"), frame, expected)
            .and_then(|frame| check.frame_id(&at("fixed_frame"), frame)),
    };
    let gyro = gyro.flatten();
    if check.is_unread(&at("sensor")) {
        return None; // nothing is said about what follows from it
    }
    let usual = raw.sensor.map(convention);
    let usual = usual.as_ref();
    let expected = "the field with the time of a point; or the key sensor, which implies it";
    let time_field = raw.time_field.or_else(|| usual.map(|usual| usual.time_field.to_owned()));
    let time_field = check.required(&at("time_field"), time_field, expected);
    let time_field = time_field.filter(|name| {
        let right = is_printable(name);
        if !right {
            check.fail(&at("time_field"), "the name of a field of the cloud, such as t");
        }
        right
    });
    let expected = "ns, us, ms or s; or the key sensor, which implies it";
    let unit = raw.time_unit.or_else(|| usual.map(|usual| usual.unit));
    let unit = check.required(&at("time_unit"), unit, expected);
    let from = raw.time_from.or_else(|| usual.map(|usual| usual.from)).unwrap_or(TimeFrom::Header);
    let expected = "[first, last]: the times of points after the header's stamp [ms]; or the key \
                    sensor, which implies it";
    let span = raw.span_ms.or_else(|| usual.map(|usual| usual.span_ms.to_vec()));
    let span_ns = check
        .required(&at("span_ms"), span, expected)
        .and_then(|span| span_ns(check, &at("span_ms"), &span));
    let span_ns = span_ns.filter(|[first, last]| {
        let right = gyro.is_none() || last - first <= MAX_GYRO_NS;
        if !right {
            check.fail(&at("span_ms"), "[first, last], at most 2000 ms apart with a gyro");
        }
        right
    });
    let unit_ns = match unit? {
        TimeUnit::Ns => 1.0,
        TimeUnit::Us => 1e3,
        TimeUnit::Ms => 1e6,
        TimeUnit::S => 1e9,
    };
    let absolute = matches!(from, TimeFrom::Epoch);
    let fixed_frame = fixed_frame?;
    let time_field = time_field?;
    let span_ns = span_ns?;
    Some(DeskewSpec { fixed_frame, gyro, time_field, unit_ns, absolute, span_ns })
}

/// Validates the key `deskew` of a LaserScan, whose rays have their times in the field `t`. What
/// `defaults` say of the times of other clouds does not apply.
pub(super) fn of_scan(check: &mut Check<'_>, key: &str, raw: RawDeskew) -> Option<DeskewSpec> {
    let at = |rest: &str| format!("{key}.deskew.{rest}");
    let mut right = true;
    for (name, wrong, expected) in [
        (
            "sensor",
            raw.sensor.is_some(),
            "no such key on a LaserScan: its times are those of its field t, in s after the header",
        ),
        (
            "time_field",
            raw.time_field.as_ref().is_some_and(|field| field != "t"),
            "t, the field with the times of a LaserScan",
        ),
        (
            "time_unit",
            matches!(raw.time_unit, Some(TimeUnit::Ns | TimeUnit::Us | TimeUnit::Ms)),
            "s, the unit of the field t of a LaserScan",
        ),
        (
            "time_from",
            matches!(raw.time_from, Some(TimeFrom::Epoch)),
            "header, which the field t of a LaserScan counts from",
        ),
    ] {
        if wrong && !check.is_inherited(&at(name)) {
            check.fail(&at(name), expected);
            right = false;
        }
    }
    let expected = "[first, last]: the times of rays after the header's stamp [ms]";
    let span_ms = check.required(&at("span_ms"), raw.span_ms, expected)?;
    let time_field = Some("t".to_owned());
    let time_unit = Some(TimeUnit::S);
    let time_from = Some(TimeFrom::Header);
    let span_ms = Some(span_ms);
    let fixed_frame = raw.fixed_frame;
    let gyro = raw.gyro;
    let raw =
        RawDeskew { fixed_frame, gyro, sensor: None, time_field, time_unit, time_from, span_ms };
    deskew(check, key, raw).filter(|_| right)
}

fn span_ns(check: &mut Check<'_>, key: &str, span_ms: &[f64]) -> Option<[i64; 2]> {
    let span = check.numbers::<2>(key, span_ms, Range::from(-MAX_MS, MAX_MS))?;
    let [first, last] = span.map(|ms| (ms * NANOS_PER_MS as f64).round() as i64);
    // Shorter sweeps are no sweeps, and the knots of longer ones are whole nanoseconds apart.
    if last.saturating_sub(first) < NANOS_PER_MS / 1000 {
        check.fail(key, "[first, last], the first at least 0.001 ms before the last");
        return None;
    }
    Some([first, last])
}
