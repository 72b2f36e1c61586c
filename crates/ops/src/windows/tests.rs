//! Windows against the plain rule: filter the rows that are seen, align among them, interpolate.

use super::cpu::windows;
use super::*;
use crate::align::{AlignRule, Fill, Strategy, Value, align, align_invalid};
use crate::dtype::DType;
use crate::packing::Run;
use crate::random::Random;
use crate::resample::Lane;
use crate::resample::cpu::Interpolator;
use crate::time::Stamp;

const MS: i64 = 1_000_000;

/// Rows of one ring in two spans.
struct Rows {
    floats: Vec<u8>,
    stamps: Vec<i64>,
    received: Vec<i64>,
    left: Vec<i64>,
    replaced: Vec<u8>,
    until_next: Vec<u8>,
    spans: Vec<SpanRows>,
    bounds: (Vec<i64>, Vec<i64>),
}

impl Rows {
    /// As a ring of `capacity` rows has them, whose messages come late and out of order.
    fn random(random: &mut Random, width: usize, capacity: usize, parted: bool) -> Self {
        let mut all = Vec::new();
        let mut spans = Vec::new();
        for span in 0..2 {
            let count = random.below(40) as i64;
            let begin = all.len();
            let mut sent: Vec<[i64; 2]> = (0..count)
                .map(|at| {
                    let stamp = (at * 10 - i64::from(random.below(3) as u32) * 10) * MS;
                    [stamp, at * 10 * MS + random.below(60) as i64 * MS]
                })
                .collect();
            sent.sort_by_key(|[_, received]| *received);
            let mut ring: Vec<[i64; 4]> = Vec::new();
            for [stamp, received] in sent {
                // A full ring refuses a row that is older than all of its rows.
                if ring.len() == capacity && ring[0][0] > stamp {
                    continue;
                }
                if let Some(at) = ring.iter().position(|row| row[0] == stamp) {
                    let [stamp, came, ..] = ring.remove(at);
                    all.push([span, stamp, came, received, 1]);
                }
                ring.push([stamp, received, 0, 0]);
                ring.sort_unstable();
                if ring.len() > capacity {
                    let [stamp, came, ..] = ring.remove(0);
                    all.push([span, stamp, came, received, 0]);
                }
            }
            all.extend(ring.iter().map(|[stamp, came, ..]| [span, *stamp, *came, i64::MAX, 0]));
            spans.push(SpanRows { begin: begin as u64, end: all.len() as u64 });
        }
        all.sort_unstable_by_key(|row| [row[0], row[1], row[2]]);
        let column = |at: usize| all.iter().map(|row| row[at]).collect::<Vec<i64>>();
        let received = column(2);
        let left = column(3);
        let count = all.len();
        let floats =
            (0..count * width).flat_map(|_| (random.between(-1.0, 1.0) as f32).to_le_bytes());
        let floats = floats.collect();
        let until_next = match parted {
            true => (0..count).map(|_| random.below(3) as u8).collect(),
            false => Vec::new(),
        };
        Rows {
            floats,
            stamps: column(1),
            replaced: all.iter().map(|row| row[4] as u8).collect(),
            until_next,
            bounds: bounds_of_times(&received, &left, &spans),
            received,
            left,
            spans,
        }
    }

    fn view(&self) -> RingRows<'_> {
        RingRows {
            rows: super::Rows::Plain(&self.floats),
            stamp_ns: &self.stamps,
            received_ns: &self.received,
            left_ns: &self.left,
            replaced: &self.replaced,
            received_from: &self.bounds.0,
            left_until: &self.bounds.1,
            until_next: &self.until_next,
            until_ns: &[],
            count: &[],
            coordinates: &[],
            spans: &self.spans,
        }
    }

    fn row(&self, row: usize, width: usize) -> Vec<f32> {
        let bytes = &self.floats[row * width * 4..(row + 1) * width * 4];
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    }

    /// The plain rule; `refuse` asks for the fill.
    fn plain(
        &self,
        rule: AlignRule,
        span: usize,
        instant: i64,
        target: i64,
        all: bool,
        refuse: bool,
    ) -> crate::align::Alignment<usize> {
        let sees = |row: &usize| match all {
            true => self.replaced[*row] == 0,
            false => self.received[*row] <= instant && instant < self.left[*row],
        };
        let seen: Vec<usize> = self.spans[span].range().filter(sees).collect();
        assert!(seen.windows(2).all(|pair| self.stamps[pair[0]] < self.stamps[pair[1]]));
        let after = seen.partition_point(|row| self.stamps[*row] <= target);
        let until = match after.checked_sub(1).map(|held| seen[held]) {
            Some(held) if self.stamps[held] < target => self.until_next.get(held).copied(),
            _ => None,
        };
        let len = if until.unwrap_or(0) == 0 { seen.len() } else { after };
        let stamp_at = |at: usize| Stamp::from_nanos(self.stamps[seen[at]]);
        let target = Stamp::from_nanos(target);
        let found = match until == Some(2) || refuse {
            true => align_invalid(rule, len, stamp_at, target),
            false => align(rule, len, stamp_at, target),
        };
        found.map(|at| seen[at.index()])
    }
}

/// The first and the last instant of each span.
const BOUNDS: [[i64; 2]; 2] = [[20 * MS, 250 * MS], [0, 330 * MS]];

const STRATEGIES: [Strategy; 3] = [Strategy::Hold, Strategy::Nearest, Strategy::Linear];

fn stream(random: &mut Random, widths: &[usize]) -> WindowStream {
    let fill = [Fill::Zero, Fill::Last, Fill::First][random.below(3) as usize];
    let strategy = STRATEGIES[random.below(3) as usize];
    let dtype = [DType::F32, DType::F16, DType::Bf16][random.below(3) as usize];
    let views = [Visibility::Served, Visibility::Strict, Visibility::All];
    let steps = 1 + random.below(9) as i64;
    let start = random.below(200) as i64 - 150;
    let step = random.below(30) as i64;
    let mut place = 0;
    let rings = widths.iter().map(|width| {
        let runs = vec![Run { row_at: 0, step_at: place, len: *width }];
        place += width;
        let lanes = vec![Lane::Linear; *width];
        WindowRing { dtype: DType::F32, row_len: *width, lanes, stage: None, runs }
    });
    let rings = rings.collect();
    WindowStream {
        name: "stream".into(),
        number: 0,
        required: false,
        lag_stated: false,
        offsets_ns: (0..steps).map(|at| (start + at * step) * MS).collect(),
        present: 0,
        rule: AlignRule { strategy, max_age_ns: 35 * MS, max_gap_ns: 25 * MS, fill },
        view: views[random.below(3) as usize],
        within: random.below(2) == 0,
        merge: None,
        dtype,
        scaled: false,
        step_len: place,
        coordinates: None,
        rings,
    }
}

/// Rows that are packed: each byte is inverted. Rows that must not be read are damaged.
struct Inverted {
    bytes: Vec<u8>,
    row_bytes: usize,
    damaged: bool,
}

impl Inverted {
    fn of(rows: &Rows, width: usize) -> Self {
        let bytes = rows.floats.iter().map(|byte| !byte).collect();
        Inverted { bytes, row_bytes: width * 4, damaged: false }
    }

    fn rows(&self) -> super::Rows<'_> {
        super::Rows::Packed(self)
    }
}

impl PackedRows for Inverted {
    fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    fn read(&self, row: usize, out: &mut [u8]) -> Result<(), String> {
        assert_eq!(out.len(), self.row_bytes);
        let row = &self.bytes[row * self.row_bytes..][..self.row_bytes];
        out.iter_mut().zip(row).for_each(|(out, byte)| *out = !byte);
        if self.damaged { Err("damaged".to_owned()) } else { Ok(()) }
    }
}

#[test]
fn a_damaged_row_is_an_error_that_names_it() {
    let mut random = Random::new(19);
    let mut spec = stream(&mut random, &[3]);
    (spec.view, spec.rule.max_age_ns, spec.within) = (Visibility::All, i64::MAX, false);
    let plan = WindowPlan::new(vec![spec]).unwrap();
    let rows = loop {
        let rows = Rows::random(&mut random, 3, 9, false);
        if rows.spans[0].end > 0 {
            break rows;
        }
    };
    let packed = Inverted { damaged: true, ..Inverted::of(&rows, 3) };
    let view = RingRows { rows: packed.rows(), ..rows.view() };
    let mut out = vec![0; plan.layout(8).unwrap().byte_len];
    let spans = &[0; 8];
    let instants = &[i64::MAX / 2; 8];
    let items = Items { spans, bounds: &[[0, i64::MAX]; 8], instants, latency_ns: &[] };
    for threads in [1, 4] {
        let error =
            windows(&plan, &[vec![view]], items, &mut out, threads).unwrap_err().to_string();
        assert!(error.starts_with("row ") && error.ends_with("found damaged"), "{error}");
    }
}

#[test]
fn windows_are_those_of_the_plain_rule() {
    let mut random = Random::new(11);
    let mut valid = 0;
    let mut invalid = 0;
    for case in 0..600 {
        let widths: &[usize] = if case % 3 == 0 { &[3, 2] } else { &[4] };
        let spec = stream(&mut random, widths);
        let capacity = 2 + random.below(30) as usize;
        let rows: Vec<Rows> =
            widths.iter().map(|w| Rows::random(&mut random, *w, capacity, case % 5 == 0)).collect();
        let plan = WindowPlan::new(vec![spec.clone()]).unwrap();
        let count = random.below(30) as usize;
        let spans: Vec<u32> = (0..count).map(|_| random.below(2) as u32).collect();
        let instants: Vec<i64> = (0..count).map(|_| random.below(600) as i64 * MS).collect();
        let latency: Vec<i64> = (0..count).map(|_| random.below(50) as i64 * MS).collect();
        let layout = plan.layout(count).unwrap();
        let mut out = vec![0xAA; layout.byte_len];
        let bounds: Vec<[i64; 2]> = spans.iter().map(|span| BOUNDS[*span as usize]).collect();
        let instants = &instants[..];
        let latency_ns = &latency[..];
        let items = Items { spans: &spans, bounds: &bounds, instants, latency_ns };
        let views = vec![rows.iter().map(Rows::view).collect()];
        windows(&plan, &views, items, &mut out, 1 + case % 4).unwrap();
        let packed: Vec<Inverted> =
            rows.iter().zip(widths).map(|(rows, width)| Inverted::of(rows, *width)).collect();
        let views = rows.iter().zip(&packed);
        let views = views.map(|(rows, packed)| RingRows { rows: packed.rows(), ..rows.view() });
        let mut unpacked = vec![0xAA; layout.byte_len];
        windows(&plan, &[views.collect()], items, &mut unpacked, 1 + case % 3).unwrap();
        assert!(unpacked == out, "case {case}: packed rows give other windows");
        let part = |kind| layout.parts.iter().find(|part| part.kind == kind).unwrap().byte_offset;
        let steps = spec.steps();
        for window in 0..count {
            let instant = instants[window] - latency[window];
            for (step, offset) in spec.offsets_ns.iter().enumerate() {
                let target = instant + offset;
                let all = match spec.view {
                    Visibility::All => true,
                    Visibility::Strict => false,
                    Visibility::Served => target > instant,
                };
                let span = spans[window] as usize;
                let plain =
                    |rows: &Rows, refuse| rows.plain(spec.rule, span, instant, target, all, refuse);
                let mut found: Vec<_> = rows.iter().map(|rows| plain(rows, false)).collect();
                let [begin, end] = BOUNDS[span];
                let mut beyond = target < begin || end < target;
                for rows in &rows {
                    let stamps = &rows.stamps[rows.spans[span].range()];
                    beyond |= stamps.iter().all(|stamp| *stamp < target) && !stamps.is_empty();
                    beyond |= stamps.iter().all(|stamp| target < *stamp) && !stamps.is_empty();
                }
                let beyond = spec.within && beyond;
                let good = !beyond && found.iter().all(|found| found.valid);
                if !good {
                    found = rows.iter().map(|rows| plain(rows, true)).collect();
                }
                let age = found.iter().map(|found| found.age_ns).max().unwrap();
                let mut expected = Vec::new();
                for ((rows, found), width) in rows.iter().zip(&found).zip(widths) {
                    expected.extend(match found.value {
                        Value::Nothing => vec![0.0; *width],
                        Value::Row(row) => rows.row(row, *width),
                        Value::Between { a, b, weight } => {
                            let mut out = vec![0.0; *width];
                            let a = rows.row(a, *width);
                            let b = rows.row(b, *width);
                            let lanes = vec![Lane::Linear; *width];
                            Interpolator::new(&lanes).between(&a, &b, weight, &mut out);
                            out
                        }
                    });
                }
                let mut bytes = vec![0; spec.step_len * spec.dtype.size()];
                spec.dtype.store(&expected, &mut bytes);
                let at = window * steps + step;
                let value = &out[part(PartKind::Values) + at * bytes.len()..][..bytes.len()];
                assert_eq!(value, bytes, "case {case}, window {window}, step {step}");
                let got = &out[part(PartKind::Ages) + at * 8..][..8];
                assert_eq!(got, age.to_le_bytes(), "case {case}, window {window}, step {step}");
                assert_eq!(out[part(PartKind::Valid) + at], u8::from(good));
                (valid, invalid) = (valid + usize::from(good), invalid + usize::from(!good));
            }
        }
    }
    assert!(valid > 2000 && invalid > 2000, "{valid} valid, {invalid} invalid");
}

#[test]
fn bytes_become_numbers_in_0_to_1() {
    const WIDTH: usize = 4 * 150 + 3;
    let mut random = Random::new(23);
    for case in 0..60 {
        let mut bytes = stream(&mut random, &[WIDTH]);
        (bytes.dtype, bytes.rings[0].dtype) = (DType::U8, DType::U8);
        bytes.rings[0].lanes.clear();
        bytes.rule.strategy = STRATEGIES[case % 2];
        let mut rows = Rows::random(&mut random, WIDTH, 9, false);
        rows.floats = (0..rows.stamps.len() * WIDTH).map(|at| (at * 7 % 256) as u8).collect();
        let packed = rows.floats.iter().map(|byte| !byte).collect();
        let packed = Inverted { bytes: packed, row_bytes: WIDTH, damaged: false };
        let spans: Vec<u32> = (0..8).map(|_| random.below(2) as u32).collect();
        let instants: Vec<i64> = (0..8).map(|_| random.below(400) as i64 * MS).collect();
        let bounds: Vec<[i64; 2]> = spans.iter().map(|span| BOUNDS[*span as usize]).collect();
        let instants = &instants[..];
        let items = Items { spans: &spans, bounds: &bounds, instants, latency_ns: &[] };
        let made = |stream: &WindowStream, rows: RingRows<'_>| {
            let plan = WindowPlan::new(vec![stream.clone()]).unwrap();
            let layout = plan.layout(8).unwrap();
            let mut out = vec![0xAA; layout.byte_len];
            windows(&plan, &[vec![rows]], items, &mut out, 1 + case % 3).unwrap();
            let values = 8 * layout.parts[0].window_bytes;
            (out[..values].to_vec(), out[layout.parts[1].byte_offset..].to_vec())
        };
        let (expected, others) = made(&bytes, rows.view());
        let dtype = [DType::F32, DType::F16, DType::Bf16][case % 3];
        let scaled = WindowStream { dtype, scaled: true, ..bytes };
        let numbers: Vec<f32> = expected.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        let mut values = vec![0; numbers.len() * dtype.size()];
        dtype.store(&numbers, &mut values);
        let expected = (values, others);
        assert!(made(&scaled, rows.view()) == expected, "case {case}");
        let rows = RingRows { rows: packed.rows(), ..rows.view() };
        assert!(made(&scaled, rows) == expected, "case {case}, packed");
        for (dtype, of_rows) in [(DType::U8, DType::U8), (DType::F32, DType::F16)] {
            let mut wrong = WindowStream { dtype, ..scaled.clone() };
            wrong.rings[0].dtype = of_rows;
            let error = WindowPlan::new(vec![wrong]).unwrap_err().to_string();
            assert!(
                error.contains("expected rows of u8 for floats, as they are scaled"),
                "{error}"
            );
        }
    }
}

#[test]
fn each_element_of_a_step_is_of_one_group() {
    let mut random = Random::new(3);
    let whole = stream(&mut random, &[3, 2]);
    assert!(WindowPlan::new(vec![whole.clone()]).is_ok());
    let with = |change: fn(&mut WindowStream)| {
        let mut changed = whole.clone();
        change(&mut changed);
        WindowPlan::new(vec![changed]).unwrap_err().to_string()
    };
    for found in [
        with(|stream| stream.rings[0].runs[0].len = 2),
        with(|stream| stream.rings[1].runs[0] = Run { row_at: 0, step_at: 2, len: 2 }),
        with(|stream| stream.step_len = 6),
        with(|stream| stream.rings[1].runs.clear()),
    ] {
        let expected = "stream 'stream': expected groups that write each element once, found [Run";
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let mut random = Random::new(5);
    let spec = stream(&mut random, &[3]);
    let plan = WindowPlan::new(vec![spec.clone()]).unwrap();
    let layout = plan.layout(1).unwrap();
    let rows = Rows::random(&mut random, 3, 9, false);
    let mut out = vec![0; layout.byte_len];
    let run = |rows: RingRows<'_>, spans: &[u32], out: &mut [u8]| {
        let bounds = &vec![[0, 0]; spans.len()];
        let items = Items { spans, bounds, instants: &[0], latency_ns: &[] };
        windows(&plan, &[vec![rows]], items, out, 1).map_err(|error| error.to_string())
    };
    assert_eq!(run(rows.view(), &[1], &mut out), Ok(()));
    assert_eq!(
        run(rows.view(), &[2], &mut out).unwrap_err(),
        "span: expected less than 2, found 2"
    );
    assert!(run(rows.view(), &[], &mut out).unwrap_err().starts_with("spans of items"));
    assert!(run(rows.view(), &[0], &mut out[64..]).unwrap_err().starts_with("bytes of the output"));
    let short = RingRows { left_ns: &rows.left[1..], ..rows.view() };
    assert!(run(short, &[0], &mut out).unwrap_err().starts_with("left_ns of 'stream'"));
    let mut wrong = spec.clone();
    wrong.rings[0].dtype = DType::U8;
    assert!(WindowPlan::new(vec![wrong]).is_err());
    let mut wrong = spec;
    wrong.rings[0].runs[0].len = 9;
    assert!(WindowPlan::new(vec![wrong]).is_err());
}
