//! One stream: the keys that all types have, and which combinations are possible.

use super::check::{Check, Range};
use super::input::{self, Input, InputDefaults, Keys, Taken};
use super::keys::no_foreign_keys;
use super::message::{Type, message_type, selects};
use super::operators::{Names, operators};
use super::raw::{RawSteps, RawStream};
use super::select::{Selected, SelectedInput, select};
use super::undistort::{CameraTopic, undistort};
use super::words::one_of;
use super::{cloud, frames, image, occupancy, vector};
use crate::encoder::EncoderSpec;
use crate::input::Content;
use crate::pipeline::{MAX_AHEAD_NS, SENSOR_AHEAD_NS};
use crate::sample::Bounds;
use crate::spec::{InFrame, Selection, StreamSpec, Timeline};
use robocache_ops::align::{AlignRule, Fill, Strategy};
use robocache_ops::dtype::DType;
use robocache_ops::operators::VectorSpec;
use robocache_ops::resample::Lane;
use robocache_ops::time::{NANOS_PER_MS, NANOS_PER_S};
use robocache_ops::voxelize::extra_fields;

/// The rows of a stream take less memory than this \[bytes\], at 4 bytes per element.
const MAX_RING_BYTES: usize = 1 << 32;
/// How far ahead of the clock the points of plans may be, unless the file says so \[ns\].
const PLAN_AHEAD_NS: i64 = 60 * NANOS_PER_S;
/// Rows of a ring of plans beside those of the longest plan.
const PLAN_SPARE_ROWS: usize = 2;
/// Most rows of a ring, however small they are.
const MAX_RING_ROWS: usize = 1 << 20;

/// Values that a stream takes from the top level of the file.
pub(super) struct Defaults {
    pub dtype: DType,
    pub lag_ns: i64,
    pub timeline: Timeline,
    pub period_ns: i64,
    pub base_frame: String,
}

/// A stream and what feeds it.
pub(super) struct StreamAndInputs {
    pub stream: StreamSpec,
    pub inputs: Vec<Input>,
    /// The camera whose images are undistorted.
    pub camera: Option<CameraTopic>,
}

/// Validates one stream.
pub(super) fn stream(
    check: &mut Check<'_>,
    name: String,
    mut raw: RawStream,
    defaults: &Defaults,
) -> Option<StreamAndInputs> {
    let key = format!("streams.{name}");
    let at = |rest: &str| format!("{key}.{rest}");
    let selects = selects(check, &name, &key);
    let name = check.short_name(&key, name, "stream");
    let message = message_type(check, &key, &raw, selects);
    let content = message.as_ref().map(|message| message.content);
    // Keys that say how elements are interpolated.
    let lanes = [("angular", raw.angular.is_some()), ("held", raw.held.is_some())];
    let has_quaternions = raw.quaternions.is_some();
    let selected = message
        .as_ref()
        .filter(|message| matches!(message.content, Content::Selected))
        .and_then(|_| select(check, &key, &mut raw));
    // If a plan could not be made, nothing is said about what follows from it.
    let turns = match (content, &selected) {
        (Some(Content::Selected), None) | (None, _) => None,
        (_, Some(Selected { row, .. })) => {
            Some(row.channels.iter().any(|channel| channel.lane == Lane::Quaternion))
        }
        (Some(_), None) if check.is_unread(&at("fields")) => None,
        (Some(content), None) if content.has_joints() => Some(has_quaternions),
        (Some(content), None) => Some(vector::has_orientation(content, raw.fields.as_deref())),
    };
    let of_inputs = selected.as_ref().map(|selected| &selected.inputs[..]).unwrap_or_default();
    let joints_of_inputs = joints_of_inputs(check, &key, &mut raw, content);
    let labels = labels(selected.as_ref(), joints_of_inputs.as_deref());
    for input in of_inputs.iter().filter(|input| input.plan.has_part_of_quaternion()) {
        if raw.strategy.is_none_or(Strategy::interpolates) {
            let expected = "x, y, z, w of each quaternion in this order (or the whole quaternion), or \
                            strategy hold or nearest: parts of a quaternion cannot be interpolated";
            check.fail(&input.key, expected);
        }
    }
    let in_frames =
        message.as_ref().map(|message| in_frames(check, &key, &mut raw, message, of_inputs));
    let strategy = content
        .zip(turns)
        .and_then(|(content, turns)| strategy(check, &key, raw.strategy, content, turns, lanes));
    let merges = raw.inputs.is_some() && matches!(content, Some(Content::Points));
    let inputs = input::inputs(
        check,
        &key,
        &mut raw,
        InputDefaults {
            ros_type: message.as_ref().map(|message| message.name.as_str()),
            content,
            timeline: defaults.timeline,
            selected: of_inputs,
        },
    );
    let plans = matches!(content, Some(Content::Trajectory));
    let times = times(check, &key, &raw, strategy, plans, defaults);
    let rows = raw.ring_rows.unwrap_or_else(|| ring_rows(content));
    let rows = check.integer(&at("ring_rows"), rows, 1, MAX_RING_ROWS);
    let dtype = raw.dtype.unwrap_or(defaults.dtype);
    let message = message?;
    let camera = undistort(check, &at("image"), raw.image.as_ref());
    let valid_when = raw.valid_when.take();
    if valid_when.is_some() && !merges {
        check.fail(&at("valid_when"), "no such key unless `inputs` lists clouds");
    }
    let keys = inputs.as_deref().unwrap_or_default();
    let of = RowSpec { dtype, rows, selected, joints_of_inputs, inputs: keys };
    let encoder = encoder(check, &key, &mut raw, &message, of, &defaults.base_frame);
    let times = times?;
    let (merge, max_age_ns) = match (merges, &inputs) {
        (true, Some(inputs)) => input::merge(check, &key, valid_when, inputs, times.max_age_ns)?,
        _ => (None, times.max_age_ns),
    };
    let EncoderAndInputs { mut encoder, selections, bounds, centre } = encoder?;
    if let EncoderSpec::Vector(vector) = &mut encoder {
        let raw = raw.operators.take();
        let names = Names::of(&selections, &labels);
        operators(check, &at("operators"), raw, strategy, names, vector)?;
    }
    dtype_fits(check, &at("dtype"), raw.dtype.is_some(), &encoder, dtype)?;
    let fill = raw.fill.map(Fill::from).unwrap_or_default();
    let stream = StreamSpec {
        name: name?,
        encoder,
        rule: AlignRule { strategy: strategy?, max_age_ns, max_gap_ns: times.max_gap_ns, fill },
        lag_ns: times.lag_ns,
        history_steps: times.history_steps,
        history_step_ns: times.history_step_ns,
        horizon_steps: times.horizon_steps,
        horizon_step_ns: times.horizon_step_ns,
        max_ahead_ns: times.max_ahead_ns,
        plans,
        required: raw.required.unwrap_or(false),
        dtype,
        ring_rows: rows?,
        rows_ahead: 0,
        bounds,
        merge,
    };
    let in_frames = if centre.is_some() { vec![centre] } else { in_frames? };
    let taken = Taken { selections, in_frames, base_frame: &defaults.base_frame };
    let inputs = Input::all(inputs?, &stream.name, &taken);
    horizon_fits(check, &key, &stream, &inputs)?;
    let given = raw.ring_rows.is_some();
    ring_fits(check, &at("ring_rows"), given, &stream, &inputs, defaults.period_ns)
        .then_some(StreamAndInputs { stream, inputs, camera })
}

/// Rows of a ring, unless the file gives them. Images and clouds are large.
fn ring_rows(content: Option<Content>) -> i64 {
    if content.is_some_and(|content| !content.is_vector()) { 16 } else { 1024 }
}

/// Texts in front of the names of each input's channels; empty if no input has one.
fn labels(selected: Option<&Selected>, joints: Option<&[vector::InputJoints]>) -> Vec<String> {
    match (selected, joints) {
        (Some(selected), _) => selected.labels.clone(),
        (None, Some(inputs)) => inputs.iter().map(|input| input.label.clone()).collect(),
        (None, None) => Vec::new(),
    }
}

/// Takes the joints of the inputs of the stream at `key`, if the stream is one of joints and an input names its own.
fn joints_of_inputs(
    check: &Check<'_>,
    key: &str,
    raw: &mut RawStream,
    content: Option<Content>,
) -> Option<Vec<vector::InputJoints>> {
    let is_of_joints = content.is_some_and(Content::has_joints);
    is_of_joints.then(|| vector::joints_of_inputs(check, key, raw)).flatten()
}

/// The frames that the inputs of the stream at `key` ask for: of each input that selects, or one for all.
fn in_frames(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawStream,
    message: &Type,
    selected: &[SelectedInput],
) -> Vec<Option<InFrame>> {
    let of_stream = raw.in_frame.take();
    if !matches!(message.content, Content::Selected) {
        let name = message.name.as_str();
        let fields = raw.fields.as_deref();
        return vec![frames::in_frame(check, key, of_stream, name, message.content, fields)];
    }
    let listed = raw.inputs.as_deref().unwrap_or_default();
    let of_input = |(at, input): (usize, &SelectedInput)| {
        let own = listed.get(at).and_then(|listed| listed.in_frame.clone());
        let key = match own.is_some() {
            true => format!("{key}.inputs[{at}].in_frame"),
            false => format!("{key}.in_frame"),
        };
        frames::in_frame_selected(check, &key, own.or_else(|| of_stream.clone()), input)
    };
    selected.iter().enumerate().map(of_input).collect()
}

/// The encoder of a stream, and what it asks of the inputs.
struct EncoderAndInputs {
    encoder: EncoderSpec,
    /// Selection of each input from a message, or one for all.
    selections: Vec<Selection>,
    bounds: Bounds,
    /// The frame that rows are centred on, by the tree of frames.
    centre: Option<InFrame>,
}

impl EncoderAndInputs {
    fn of_vector(row: VectorSpec, selections: Vec<Selection>) -> Self {
        let encoder = EncoderSpec::Vector(row);
        let bounds = Bounds::default();
        EncoderAndInputs { encoder, selections, bounds, centre: None }
    }
}

/// The keys that rows are made of, whatever the type of the stream.
struct RowSpec<'a> {
    dtype: DType,
    /// Rows of its ring.
    rows: Option<usize>,
    selected: Option<Selected>,
    joints_of_inputs: Option<Vec<vector::InputJoints>>,
    inputs: &'a [Keys],
}

/// Validates the keys of the stream's type: how a sample becomes a row, and what its inputs take
/// from a message. The keys of other types are errors.
fn encoder(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawStream,
    message: &Type,
    of: RowSpec<'_>,
    base_frame: &str,
) -> Option<EncoderAndInputs> {
    use Content::{Image, Joints, Map, Points};
    let RowSpec { dtype, rows, selected, joints_of_inputs, inputs } = of;
    no_foreign_keys(check, key, raw, message);
    match message.content {
        Content::Fields(members) => {
            let (spec, selection) =
                vector::fields(check, key, &message.name, members, raw.fields.take())?;
            Some(EncoderAndInputs::of_vector(spec, vec![selection]))
        }
        Joints => {
            let (spec, selections) =
                vector::joints(check, key, &message.name, None, raw, joints_of_inputs)?;
            Some(EncoderAndInputs::of_vector(spec, selections))
        }
        Content::Trajectory => {
            // Beside a plan there is room for where it cuts the plan before, and for a row before that.
            let rows = Some(rows.map_or(1, |rows| rows.saturating_sub(PLAN_SPARE_ROWS).max(1)));
            let (spec, selections) =
                vector::joints(check, key, &message.name, rows, raw, joints_of_inputs)?;
            Some(EncoderAndInputs::of_vector(spec, selections))
        }
        Content::Selected => {
            let Selected { row, inputs, .. } = selected?;
            let selections = inputs.into_iter().map(|input| Selection::Numbers(input.plan));
            Some(EncoderAndInputs::of_vector(row, selections.collect()))
        }
        Image => {
            let image = raw.image.take();
            let (encoder, selection, bounds) =
                image::image(check, key, image, &message.name, dtype)?;
            Some(EncoderAndInputs { encoder, selections: vec![selection], bounds, centre: None })
        }
        Points => {
            let (spec, bounds) =
                cloud::cloud(check, key, raw.cloud.take(), inputs.len(), base_frame)?;
            let extra: Vec<_> = extra_fields(&spec).map(str::to_owned).collect();
            for Keys { ros_type, .. } in inputs {
                cloud::fields_exist(check, &format!("{key}.cloud.channels"), ros_type, &extra)?;
            }
            let swept = inputs.iter().any(|input| input.deskew.is_some());
            let bounds = Bounds { swept, ..bounds };
            let selection = Selection::Points { extra, time: None, most: bounds.max_points };
            let encoder = EncoderSpec::Voxels(spec);
            let selections = vec![selection];
            Some(EncoderAndInputs { encoder, selections, bounds, centre: None })
        }
        Map => {
            let expected = "a mapping with the keys `size_m` and `resolution_m`";
            let occupancy = raw.occupancy.take();
            let occupancy = check.required(&format!("{key}.occupancy"), occupancy, expected)?;
            let (spec, bounds, centre) =
                occupancy::occupancy(check, key, occupancy, dtype, base_frame)?;
            let selections = vec![Selection::Map { largest_cells: bounds.image_px() }];
            let encoder = EncoderSpec::Occupancy(spec);
            Some(EncoderAndInputs { encoder, selections, bounds, centre })
        }
    }
}

/// Checks that rows can have this element type. `given` says whether the stream gives it.
fn dtype_fits(
    check: &mut Check<'_>,
    key: &str,
    given: bool,
    encoder: &EncoderSpec,
    dtype: DType,
) -> Option<()> {
    if encoder.dtypes().contains(&dtype) {
        return Some(());
    }
    let rows = encoder.plural();
    let names: Vec<_> = encoder.dtypes().iter().map(|dtype| dtype.name()).collect();
    let expected = format!("{}, the types of {rows}", one_of(&names));
    match given {
        true => check.fail(key, expected),
        false => check.fail_found(key, expected, format!("{} of output.dtype", dtype.name())),
    }
    None
}

fn strategy(
    check: &mut Check<'_>,
    key: &str,
    given: Option<Strategy>,
    content: Content,
    turns: bool,
    lanes: [(&str, bool); 2],
) -> Option<Strategy> {
    let default = match (content.is_vector(), turns) {
        (true, true) => Strategy::Slerp,
        (true, false) => Strategy::Linear,
        (false, _) => Strategy::Hold,
    };
    let strategy = given.unwrap_or(default);
    let expected = match strategy {
        _ if strategy.interpolates() && !content.is_vector() => {
            "hold or nearest: rows of images, clouds and maps cannot be interpolated"
        }
        Strategy::Linear if turns => {
            "slerp, hold or nearest: an orientation is not a straight line, use slerp"
        }
        Strategy::Slerp if !turns => {
            "linear, hold or nearest: slerp needs the field orientation, or `quaternions` of joints"
        }
        _ => {
            let named = content.has_joints() || matches!(content, Content::Selected);
            for (lane, _) in lanes.into_iter().filter(|(_, given)| named && *given) {
                if !strategy.interpolates() {
                    let expected = "no such key unless the strategy is linear or slerp";
                    check.fail(&format!("{key}.{lane}"), expected);
                }
            }
            return Some(strategy);
        }
    };
    check.fail(&format!("{key}.strategy"), expected);
    None
}

/// The times of a stream.
struct Times {
    lag_ns: i64,
    history_steps: usize,
    history_step_ns: i64,
    horizon_steps: usize,
    horizon_step_ns: i64,
    max_ahead_ns: i64,
    max_age_ns: i64,
    max_gap_ns: i64,
}

fn times(
    check: &mut Check<'_>,
    key: &str,
    raw: &RawStream,
    strategy: Option<Strategy>,
    plans: bool,
    defaults: &Defaults,
) -> Option<Times> {
    let at = |rest: &str| format!("{key}.{rest}");
    let lag_ns = match raw.lag_ms {
        Some(ms) => check.nanos(&at("lag_ms"), ms, Range::NON_NEGATIVE_MS),
        None => Some(defaults.lag_ns),
    };
    let history = steps(check, &at("history"), raw.history.as_ref());
    let horizon = steps(check, &at("horizon"), raw.horizon.as_ref());
    let max_age_ns = check
        .required(&at("max_age_ms"), raw.max_age_ms, "the age up to which a value is valid")
        .and_then(|ms| check.nanos(&at("max_age_ms"), ms, Range::POSITIVE_MS));
    let interpolates = strategy.is_none_or(Strategy::interpolates);
    let max_gap_ns = match raw.max_gap_ms {
        None => max_age_ns.map(|age| 2 * age),
        // It is for those streams of `defaults` that interpolate.
        Some(_) if !interpolates && check.is_inherited(&at("max_gap_ms")) => {
            max_age_ns.map(|age| 2 * age)
        }
        Some(_) if !interpolates => {
            let expected = "no such key unless the strategy is linear or slerp";
            check.fail(&at("max_gap_ms"), expected);
            None
        }
        Some(ms) => check.nanos(&at("max_gap_ms"), ms, Range::POSITIVE_MS),
    };
    let (history_steps, history_step_ns) = history?;
    let (horizon_steps, horizon_step_ns) = horizon?;
    let ahead_ns = (horizon_steps as i64 - 1) * horizon_step_ns - lag_ns?;
    let max_ahead_ns = match raw.max_ahead_ms {
        Some(ms) => check.nanos(&at("max_ahead_ms"), ms, Range::POSITIVE_MS),
        None if plans => Some(PLAN_AHEAD_NS.max(ahead_ns)),
        None if horizon_steps > 1 => Some(MAX_AHEAD_NS + ahead_ns.max(0)),
        None => Some(SENSOR_AHEAD_NS),
    };
    if raw.max_ahead_ms.is_some() && max_ahead_ns.is_some_and(|most| most < ahead_ns) {
        let least_ms = ahead_ns as f64 / NANOS_PER_MS as f64;
        let expected = format!("at least {least_ms} ms, as far ahead as the horizon's last target");
        check.fail(&at("max_ahead_ms"), expected);
    }
    Some(Times {
        lag_ns: lag_ns?,
        history_steps,
        history_step_ns,
        horizon_steps,
        horizon_step_ns,
        max_ahead_ns: max_ahead_ns?,
        max_age_ns: max_age_ns?,
        max_gap_ns: max_gap_ns?,
    })
}

/// Number of steps of a history or a horizon, and nanoseconds between them.
fn steps(check: &mut Check<'_>, key: &str, raw: Option<&RawSteps>) -> Option<(usize, i64)> {
    let Some(raw) = raw else { return Some((1, 0)) };
    let steps = check.integer(&format!("{key}.steps"), raw.steps.unwrap_or(1), 1, 1024);
    let key = format!("{key}.step_ms");
    let step_ns = match raw.step_ms {
        Some(ms) => check.nanos(&key, ms, Range::POSITIVE_MS),
        None if steps.is_some_and(|steps| steps > 1) => {
            check.fail(&key, "the time between steps, since there is more than one");
            None
        }
        None => Some(0),
    };
    Some((steps?, step_ns?))
}

/// Checks that rows can be ahead of the clock, if there is a horizon.
fn horizon_fits(
    check: &mut Check<'_>,
    key: &str,
    spec: &StreamSpec,
    inputs: &[Input],
) -> Option<()> {
    if spec.horizon_steps > 1 && !spec.plans && inputs.iter().all(Input::is_by_arrival) {
        let expected = "no such key under timeline: receive: no row is ahead of its arrival";
        check.fail(&format!("{key}.horizon"), expected);
        return None;
    }
    Some(())
}

/// Checks that the ring can serve the stream. `given` says whether the file gives its size.
fn ring_fits(
    check: &mut Check<'_>,
    key: &str,
    given: bool,
    spec: &StreamSpec,
    inputs: &[Input],
    period_ns: i64,
) -> bool {
    let Some(expected) = ring_violation(spec, inputs, period_ns) else { return true };
    match given {
        true => check.fail(key, expected),
        false => check.fail_found(key, expected, format!("the default of {}", spec.ring_rows)),
    }
    false
}

/// Words for what is expected if the size of the ring is wrong. It must have the rows that interpolation and
/// the oldest target need, and fit in memory.
fn ring_violation(spec: &StreamSpec, inputs: &[Input], period_ns: i64) -> Option<String> {
    // The backend has one slot more than the ring has rows: it encodes the next message there.
    // A ring of plans has room for a whole plan beside its rows.
    let slots = (MAX_RING_BYTES - 1) / (4 * spec.encoder.elements());
    let fitting = if spec.plans { slots / 2 } else { slots }.saturating_sub(1);
    if fitting == 0 {
        return Some("smaller rows: two of them must fit in 4 GiB".into());
    }
    if spec.ring_rows > fitting {
        return Some(format!("at most {fitting} rows (less than 4 GiB)"));
    }
    if let Some(kept) = spec.kept_bytes().filter(|kept| *kept >= MAX_RING_BYTES) {
        let rows = spec.ring_rows;
        let most = spec.bounds.max_points;
        return Some(format!(
            "fewer rows, or a smaller max_points: all clouds of {rows} rows and {most} points take \
             less than 4 GiB, not {:.1} GiB",
            kept as f64 / (1u64 << 30) as f64
        ));
    }
    if spec.plans && spec.ring_rows <= PLAN_SPARE_ROWS {
        return Some("at least 3 rows: a plan has up to ring_rows - 2 points".into());
    }
    if spec.strategy().interpolates() && spec.ring_rows < 2 {
        return Some("at least 2 rows, to interpolate between".into());
    }
    // The number of a plan's points is unknown.
    if spec.plans {
        return None;
    }
    // What is selected, and joints of its own, have rings for each input. Otherwise, each may fill the same group.
    let rates = inputs.iter().filter_map(Input::expected_rate_hz);
    let hz = match inputs.iter().all(Input::has_own_rings) {
        true => rates.fold(0.0, f64::max),
        false => rates.sum(),
    };
    if hz == 0.0 {
        return None;
    }
    let ahead_ns = spec.target_offset_ns(spec.steps() - 1).max(0);
    let reach_ns = ahead_ns - spec.target_offset_ns(0);
    // A tick may be served up to one period late; two rows bracket its oldest target.
    let span_s = (reach_ns + period_ns) as f64 / NANOS_PER_S as f64;
    let needed = (span_s * hz).ceil() as usize + 2;
    (spec.ring_rows < needed).then(|| {
        let reach_ms = reach_ns as f64 / NANOS_PER_MS as f64;
        let over = if ahead_ns > 0 { "lag, history and horizon" } else { "lag and history" };
        format!("at least {needed} rows, to reach back over {over} ({reach_ms} ms) at {hz} Hz")
    })
}
