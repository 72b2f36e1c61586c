//! Windows on the CPU, on all cores: the oracle of the kernel.

mod source;

use source::{Scratch, Source};

use super::find::{RingRows, Search, SpanRows};
use super::rows::Rows;
use super::spec::{
    Items, PartKind, WindowError, WindowLayout, WindowPlan, WindowRing, WindowStream,
};
use crate::align::{Alignment, Value};
use crate::dtype::DType;
use crate::resample::cpu::Interpolator;

/// Bytes of output that are worth a thread.
const BYTES_OF_THREAD: usize = 1 << 16;

/// Writes the windows of all items into `out`, in the layout of the plan. `rows` has the rings of each stream of the
/// plan. The result does not depend on the number of threads.
///
/// # Errors
/// Sizes contradict each other, or an item is of an unknown span.
pub fn windows(
    plan: &WindowPlan,
    rows: &[Vec<RingRows<'_>>],
    items: Items<'_>,
    out: &mut [u8],
    threads: usize,
) -> Result<(), WindowError> {
    let count = items.instants.len();
    let layout = plan.layout(count)?;
    check(plan, &layout, rows, items, out)?;
    if count == 0 {
        return Ok(());
    }
    let threads = threads.min(count).min(out.len().div_ceil(BYTES_OF_THREAD)).max(1);
    let each = count.div_ceil(threads);
    let mut shares: Vec<Share<'_>> = (0..count.div_ceil(each))
        .map(|at| Share { first: at * each, parts: Vec::with_capacity(layout.parts.len()) })
        .collect();
    let mut rest = out;
    let mut at = 0;
    for part in &layout.parts {
        rest = &mut rest[part.byte_offset - at..];
        at = part.byte_offset;
        for share in &mut shares {
            let windows = each.min(count - share.first);
            let (mine, others) = rest.split_at_mut(windows * part.window_bytes);
            share.parts.push((part.stream, part.kind, mine));
            (rest, at) = (others, at + windows * part.window_bytes);
        }
    }
    let mut shares = shares.into_iter();
    let Some(own) = shares.next() else { return Ok(()) };
    std::thread::scope(|scope| {
        let others = shares.map(|share| scope.spawn(|| write_share(plan, rows, items, share)));
        let others: Vec<_> = others.collect();
        let mut done = write_share(plan, rows, items, own);
        for other in others {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done = done.and(other);
        }
        done
    })
}

/// The windows of one thread, and its share of every part.
struct Share<'a> {
    first: usize,
    parts: Vec<(usize, PartKind, &'a mut [u8])>,
}

/// Checks the sizes of the arguments.
fn check(
    plan: &WindowPlan,
    layout: &WindowLayout,
    rows: &[Vec<RingRows<'_>>],
    items: Items<'_>,
    out: &[u8],
) -> Result<(), WindowError> {
    let equal = |what: &str, expected: usize, found: usize| match expected == found {
        true => Ok(()),
        false => Err(WindowError::of(what, expected, found)),
    };
    let windows = layout.windows;
    equal("spans of items", windows, items.spans.len())?;
    equal("bounds of items", windows, items.bounds.len())?;
    if !items.latency_ns.is_empty() {
        equal("latencies", windows * plan.streams().len(), items.latency_ns.len())?;
    }
    equal("bytes of the output", layout.byte_len, out.len())?;
    equal("streams", plan.streams().len(), rows.len())?;
    let spans = rows.iter().flatten().next().map_or(0, |ring| ring.spans.len());
    for (stream, rings) in plan.streams().iter().zip(rows) {
        equal(&format!("rings of '{}'", stream.name), stream.rings.len(), rings.len())?;
        for (ring, rows) in stream.rings.iter().zip(rings) {
            check_ring(stream, ring, rows, spans)?;
        }
    }
    match items.spans.iter().find(|span| **span as usize >= spans) {
        Some(span) => Err(WindowError::of("span", format!("less than {spans}"), span)),
        None => Ok(()),
    }
}

fn check_ring(
    stream: &WindowStream,
    ring: &WindowRing,
    rows: &RingRows<'_>,
    spans: usize,
) -> Result<(), WindowError> {
    let count = rows.stamp_ns.len();
    let merged = stream.merge.as_ref().map_or(0, |merge| merge.max_age_ns.len());
    let sparse = stream.coordinates.unwrap_or(0);
    let sizes = [
        ("bytes of rows", ring.row_len * ring.dtype.size() * count, rows.rows.byte_len()),
        ("received_ns", count, rows.received_ns.len()),
        ("left_ns", count, rows.left_ns.len()),
        ("replaced", count, rows.replaced.len()),
        ("bounds of received_ns", count, rows.received_from.len()),
        ("bounds of left_ns", count, rows.left_until.len()),
        ("until_ns", merged * count, rows.until_ns.len()),
        ("count", if sparse > 0 { count } else { 0 }, rows.count.len()),
        ("bytes of coordinates", sparse * size_of::<i32>() * count, rows.coordinates.len()),
        ("spans", spans, rows.spans.len()),
    ];
    for (what, expected, found) in sizes {
        if expected != found {
            return Err(WindowError::of(format!("{what} of '{}'", stream.name), expected, found));
        }
    }
    if !matches!(rows.until_next.len(), 0) && rows.until_next.len() != count {
        let what = format!("until_next of '{}'", stream.name);
        return Err(WindowError::of(what, count, rows.until_next.len()));
    }
    let outside = |span: &&SpanRows| span.begin > span.end || span.end > count as u64;
    match rows.spans.iter().find(outside) {
        Some(span) => {
            let what = format!("rows of a span of '{}'", stream.name);
            Err(WindowError::of(what, format!("within {count}"), format!("{span:?}")))
        }
        None => Ok(()),
    }
}

/// Writes a thread's windows, one stream after the other.
///
/// # Errors
/// A packed row cannot be read.
fn write_share(
    plan: &WindowPlan,
    rows: &[Vec<RingRows<'_>>],
    items: Items<'_>,
    share: Share<'_>,
) -> Result<(), WindowError> {
    let Share { first, parts } = share;
    let mut parts = parts.into_iter().peekable();
    for (number, stream) in plan.streams().iter().enumerate() {
        let mut out = Out::default();
        while let Some((_, kind, bytes)) = parts.next_if(|(stream, ..)| *stream == number) {
            match kind {
                PartKind::Values => out.values = bytes,
                PartKind::Coordinates => out.coordinates = bytes,
                PartKind::Ages => out.ages = bytes,
                PartKind::Counts => out.counts = bytes,
                PartKind::Valid => out.valid = bytes,
            }
        }
        let steps = stream.steps();
        let mut writer = Writer::new(stream, &rows[number]);
        for window in 0..out.valid.len() / steps {
            let item = first + window;
            let late = items.latency_ns.get(number * items.spans.len() + item).copied();
            let instant = items.instants[item].saturating_sub(late.unwrap_or(0));
            writer.align(items.spans[item] as usize, items.bounds[item], instant);
            writer.write(window, &mut out)?;
        }
    }
    Ok(())
}

/// A thread's share of the parts of one stream.
#[derive(Default)]
struct Out<'a> {
    values: &'a mut [u8],
    coordinates: &'a mut [u8],
    ages: &'a mut [u8],
    counts: &'a mut [u8],
    valid: &'a mut [u8],
}

/// Writes the windows of one stream.
struct Writer<'a> {
    stream: &'a WindowStream,
    rows: &'a [RingRows<'a>],
    interpolators: Vec<Interpolator>,
    /// `[rings, steps]`: the rows of the window at hand.
    found: Vec<Alignment<usize>>,
    scratch: Scratch,
    /// The rows of the window at hand, if they were packed.
    unpacked: Unpacked,
}

impl<'a> Writer<'a> {
    fn new(stream: &'a WindowStream, rows: &'a [RingRows<'a>]) -> Self {
        let nothing = Alignment { value: Value::Nothing, valid: false, age_ns: 0 };
        Writer {
            stream,
            rows,
            interpolators: stream.rings.iter().map(|ring| Interpolator::new(&ring.lanes)).collect(),
            found: vec![nothing; stream.rings.len() * stream.steps()],
            scratch: Scratch::default(),
            unpacked: Unpacked::default(),
        }
    }

    /// Finds the rows of all steps of a window in a span, which has a first and a last instant. A step is valid if
    /// all rings are, and its age is the greatest of theirs. If one is not, or the step is beyond the span or the rows
    /// of a ring and must not be, the whole step is filled.
    fn align(&mut self, span: usize, [begin, end]: [i64; 2], instant: i64) {
        let WindowStream { rule, view, merge, offsets_ns, within, .. } = self.stream;
        let target = |step: usize| instant.saturating_add(offsets_ns[step]);
        let search =
            |rows: &'a RingRows<'a>| Search::new(rows, rows.spans[span], *view, instant, target(0));
        let steps = offsets_ns.len();
        for (ring, found) in self.found.chunks_mut(steps).enumerate() {
            let mut search = search(&self.rows[ring]);
            for (step, found) in found.iter_mut().enumerate() {
                *found = search.align(*rule, merge.as_ref(), target(step));
            }
        }
        let rings = self.rows.len();
        if rings == 1 && !within {
            return;
        }
        for step in 0..steps {
            let of = |ring: usize| ring * steps + step;
            let beyond_rows = |rows: &RingRows<'_>| rows.is_beyond(span, target(step));
            let beyond = *within
                && (!(begin..=end).contains(&target(step)) || self.rows.iter().any(beyond_rows));
            if !beyond && (rings == 1 || (0..rings).all(|ring| self.found[of(ring)].valid)) {
                continue;
            }
            for ring in 0..rings {
                let mut search = search(&self.rows[ring]);
                self.found[of(ring)] = search.align_invalid(*rule, target(step));
            }
        }
    }

    /// Writes the window that was aligned.
    fn write(&mut self, window: usize, out: &mut Out<'_>) -> Result<(), WindowError> {
        let steps = self.stream.steps();
        for step in 0..steps {
            let of_step = self.found.iter().skip(step).step_by(steps);
            let at = window * steps + step;
            out.valid[at] = u8::from(of_step.clone().all(|found| found.valid));
            let age = of_step.map(|found| found.age_ns).max().unwrap_or(i64::MIN);
            out.ages[at * 8..][..8].copy_from_slice(&age.to_le_bytes());
        }
        let step_bytes = self.stream.step_len * self.stream.dtype.size();
        let values = &mut out.values[window * steps * step_bytes..][..steps * step_bytes];
        for ring in 0..self.rows.len() {
            self.write_ring(ring, values, step_bytes)?;
        }
        if let Some(numbers) = self.stream.coordinates {
            self.write_sparse(window, numbers * size_of::<i32>(), out);
        }
        Ok(())
    }

    /// Writes a ring's part of all steps of a window.
    fn write_ring(
        &mut self,
        number: usize,
        values: &mut [u8],
        step_bytes: usize,
    ) -> Result<(), WindowError> {
        let Writer { stream, rows, interpolators, found, scratch, unpacked } = self;
        let ring = &stream.rings[number];
        let rows = rows[number].rows;
        let steps = stream.steps();
        let found = &found[number * steps..][..steps];
        if !stream.rule.strategy.interpolates() && ring.copies(stream) {
            let copy = |row, out: &mut [u8]| rows.copy(&stream.name, row, out);
            return write_rows(found, values, step_bytes, copy);
        }
        let (rows, found) = match rows {
            Rows::Plain(rows) => (rows, found),
            Rows::Packed(_) => {
                let row_bytes = ring.row_len * ring.dtype.size();
                unpacked.read(&stream.name, rows, row_bytes, found)?;
                (unpacked.rows.as_slice(), unpacked.found.as_slice())
            }
        };
        if stream.scaled {
            return write_rows(found, values, step_bytes, |row, out| {
                scale(stream.dtype, &rows[row * ring.row_len..][..ring.row_len], out);
                Ok(())
            });
        }
        let outs = found.iter().zip(values.chunks_exact_mut(step_bytes.max(1)));
        let source = Source { ring, rows, interpolator: &interpolators[number] };
        if let Some(stage) = &ring.stage {
            let wide = stage.unwraps().then(|| source.unwrapped(stream, found, scratch));
            for (step, (found, out)) in outs.enumerate() {
                if found.value == Value::Nothing {
                    place(stream, ring, None, scratch, out);
                    continue;
                }
                let mut part = std::mem::take(&mut scratch.part);
                part.resize(stage.len(), 0.0);
                if wide.is_some() {
                    let row = &scratch.wide[step * ring.row_len..][..ring.row_len];
                    stage.apply(row, |at, value| part[at] = value as f32);
                } else {
                    let mut row = std::mem::take(&mut scratch.wide);
                    row.clear();
                    row.extend(source.value(found.value, scratch).iter().map(|v| f64::from(*v)));
                    stage.apply(&row, |at, value| part[at] = value as f32);
                    scratch.wide = row;
                }
                place(stream, ring, Some(&part), scratch, out);
                scratch.part = part;
            }
            return Ok(());
        }
        for (found, out) in outs {
            match found.value {
                Value::Nothing => place(stream, ring, None, scratch, out),
                Value::Row(row) if ring.copies(stream) => {
                    out.copy_from_slice(&rows[row * step_bytes..][..step_bytes]);
                }
                value if !source.written(stream, value, out) => {
                    source.value(value, scratch);
                    let row = std::mem::take(&mut scratch.row);
                    place(stream, ring, Some(&row), scratch, out);
                    scratch.row = row;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes coordinates and counts of sparse rows.
    fn write_sparse(&self, window: usize, step_bytes: usize, out: &mut Out<'_>) {
        let rows = &self.rows[0];
        for (step, found) in self.found.iter().enumerate() {
            let at = window * self.found.len() + step;
            let coordinates = &mut out.coordinates[at * step_bytes..][..step_bytes];
            let count = match found.value {
                Value::Row(row) | Value::Between { a: row, .. } => {
                    coordinates
                        .copy_from_slice(&rows.coordinates[row * step_bytes..][..step_bytes]);
                    rows.count[row]
                }
                Value::Nothing => {
                    coordinates.fill(0);
                    0
                }
            };
            out.counts[at * 4..][..4].copy_from_slice(&count.to_le_bytes());
        }
    }
}

/// Writes what `write` makes of the rows of all steps, and zeros where there is none. A row of several steps is read once.
fn write_rows(
    found: &[Alignment<usize>],
    values: &mut [u8],
    step_bytes: usize,
    write: impl Fn(usize, &mut [u8]) -> Result<(), WindowError>,
) -> Result<(), WindowError> {
    let row_of = |step: usize| match found[step].value {
        Value::Nothing => None,
        Value::Row(row) | Value::Between { a: row, .. } => Some(row),
    };
    for step in 0..found.len() {
        let (before, rest) = values.split_at_mut(step * step_bytes);
        let out = &mut rest[..step_bytes];
        match row_of(step) {
            None => out.fill(0),
            row if step > 0 && row == row_of(step - 1) => {
                out.copy_from_slice(&before[before.len() - step_bytes..]);
            }
            Some(row) => write(row, out)?,
        }
    }
    Ok(())
}

/// Writes bytes as floats in 0..1.
fn scale(dtype: DType, bytes: &[u8], out: &mut [u8]) {
    let float = |byte: &u8| f32::from(*byte) / 255.0;
    if dtype == DType::F32 {
        // Straight to the output is twice as fast as by way of an array.
        for (out, byte) in out.as_chunks_mut::<4>().0.iter_mut().zip(bytes) {
            *out = float(byte).to_le_bytes();
        }
        return;
    }
    let mut floats = [0.0; 256];
    let pieces = out.chunks_mut(floats.len() * dtype.size());
    for (bytes, out) in bytes.chunks(floats.len()).zip(pieces) {
        let floats = &mut floats[..bytes.len()];
        floats.iter_mut().zip(bytes).for_each(|(out, byte)| *out = float(byte));
        dtype.store(floats, out);
    }
}

/// The rows that the steps of a window need, unpacked.
#[derive(Default)]
struct Unpacked {
    rows: Vec<u8>,
    /// Alignment of each step, with the numbers of its rows in `rows`.
    found: Vec<Alignment<usize>>,
    /// The numbers that they have in the ring.
    numbers: Vec<usize>,
}

impl Unpacked {
    /// Unpacks each row once.
    fn read(
        &mut self,
        stream: &str,
        rows: Rows<'_>,
        row_bytes: usize,
        found: &[Alignment<usize>],
    ) -> Result<(), WindowError> {
        self.rows.clear();
        self.numbers.clear();
        self.found.clear();
        for found in found {
            let mut found = *found;
            match &mut found.value {
                Value::Nothing => {}
                Value::Row(row) => *row = self.number(stream, rows, row_bytes, *row)?,
                Value::Between { a, b, .. } => {
                    *a = self.number(stream, rows, row_bytes, *a)?;
                    *b = self.number(stream, rows, row_bytes, *b)?;
                }
            }
            self.found.push(found);
        }
        Ok(())
    }

    /// The number of a row here.
    fn number(
        &mut self,
        stream: &str,
        rows: Rows<'_>,
        row_bytes: usize,
        row: usize,
    ) -> Result<usize, WindowError> {
        if let Some(known) = self.numbers.iter().rposition(|known| *known == row) {
            return Ok(known);
        }
        let begin = self.rows.len();
        self.rows.resize(begin + row_bytes, 0);
        rows.copy(stream, row, &mut self.rows[begin..])?;
        self.numbers.push(row);
        Ok(self.numbers.len() - 1)
    }
}

/// Writes a ring's part of a step to its places; zeros if the part is missing.
fn place(
    stream: &WindowStream,
    ring: &WindowRing,
    part: Option<&[f32]>,
    scratch: &mut Scratch,
    out: &mut [u8],
) {
    let size = stream.dtype.size();
    match part {
        Some(part) if ring.is_whole(stream) => stream.dtype.store(part, out),
        Some(part) => {
            scratch.bytes.resize(part.len() * size, 0);
            stream.dtype.store(part, &mut scratch.bytes);
            for run in &ring.runs {
                let from = &scratch.bytes[run.row_at * size..][..run.len * size];
                out[run.step_at * size..][..run.len * size].copy_from_slice(from);
            }
        }
        None => {
            for run in &ring.runs {
                out[run.step_at * size..][..run.len * size].fill(0);
            }
        }
    }
}
