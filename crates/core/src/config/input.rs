//! The inputs of a stream: one from the stream's own keys, or several from its key `inputs`.

use super::check::{Check, Range, is_frame};
use super::defaults::find_type;
use super::deskew;
use super::keys::JOINTS;
use super::message::types;
use super::raw::{RawDeskew, RawExtrinsic, RawInput, RawQos, RawStream, RawValidWhen};
use super::select::SelectedInput;
use super::transform::transform;
use super::words::one_of;
use crate::input::{Content, TYPES, laser_scan};
use crate::schema::StampSource;
use crate::spec::{
    DeskewSpec, InFrame, InputSpec, MAX_INPUTS, Qos, RingId, Selection, StreamId, Timeline,
};
use crate::tf::MAX_NAME;
use robocache_ops::align::{MergeSpec, ValidWhen};
use robocache_ops::voxelize::IDENTITY;

/// An input whose stream has no id yet.
pub(super) struct Input {
    spec: InputSpec,
    /// Number of the first ring that it feeds, of those of its stream.
    first_ring: usize,
    /// True if no other input fills its rings.
    has_own_rings: bool,
}

/// Defaults of an input, by the stream's type and the top level of the file.
#[derive(Clone, Copy)]
pub(super) struct InputDefaults<'a> {
    /// The type of messages; `None` if it is unknown. What is selected has types of its own.
    pub ros_type: Option<&'a str>,
    /// `None` if the type is unknown.
    pub content: Option<Content>,
    /// If neither the input nor its stream has a timeline.
    pub timeline: Timeline,
    /// Selection of each input. Empty if the content is another or unknown.
    pub selected: &'a [SelectedInput],
}

impl InputDefaults<'_> {
    /// True if messages of this input have a `std_msgs/Header`.
    fn has_header(&self, input: usize) -> bool {
        self.selected.get(input).is_none_or(|selected| selected.plan.has_header())
    }

    /// Source of the stamp of this input's messages.
    fn stamp(&self, input: usize) -> StampSource {
        self.selected.get(input).map_or(StampSource::Header, |selected| selected.plan.stamp())
    }

    fn selects(&self) -> bool {
        matches!(self.content, Some(Content::Selected))
    }
}

/// Pose of an input's sensor in the base frame.
#[derive(Clone, Copy)]
enum Extrinsic {
    /// The tree of frames says it.
    Tf,
    Known([[f64; 4]; 3]),
}

/// Selections of a stream's inputs from their messages. With [`Selection::Numbers`], and with joints of its own,
/// each input has a selection and rings of its own. Otherwise one is for all.
pub(super) struct Taken<'a> {
    /// One, or one for each input.
    pub selections: Vec<Selection>,
    /// One, or one for each input: only with [`Selection::Numbers`] an input has a frame of its own.
    pub in_frames: Vec<Option<InFrame>>,
    pub base_frame: &'a str,
}

/// The keys of one input, validated.
pub(super) struct Keys {
    topic: String,
    pub ros_type: String,
    pub deskew: Option<DeskewSpec>,
    /// `None` if that of the stream applies.
    max_age_ns: Option<i64>,
    timeline: Timeline,
    stamp_offset_ns: i64,
    qos: Qos,
    frame_id: Option<String>,
    t_base_sensor: Extrinsic,
    expected_rate_hz: Option<f64>,
}

impl Input {
    /// The inputs of a stream.
    pub(super) fn all(
        keys: Vec<Keys>,
        stream: &str,
        Taken { selections, in_frames, base_frame }: &Taken<'_>,
    ) -> Vec<Input> {
        let several = keys.len() > 1;
        let input = |(at, keys): (usize, Keys)| {
            let own = at.min(selections.len() - 1);
            let in_frame = || in_frames.get(at.min(in_frames.len().saturating_sub(1)));
            let (t_base_sensor, in_frame) = match keys.t_base_sensor {
                Extrinsic::Known(known) => (known, in_frame().cloned().flatten()),
                Extrinsic::Tf => {
                    let frame = (*base_frame).to_owned();
                    let parts = Vec::new();
                    (IDENTITY, Some(InFrame { frame, parts }))
                }
            };
            let name = if several { format!("{stream}[{at}]") } else { stream.to_owned() };
            let mut selection = selections[own].clone();
            if let Selection::Points { time, .. } = &mut selection {
                *time = keys.deskew.as_ref().map(|deskew| deskew.time_field.clone());
            }
            let spec = InputSpec {
                name,
                stream: None,
                topic: keys.topic,
                ros_type: keys.ros_type,
                selection,
                feeds: Vec::new(),
                qos: keys.qos,
                frame_id: keys.frame_id,
                t_base_sensor,
                in_frame,
                deskew: keys.deskew,
                timeline: keys.timeline,
                stamp_offset_ns: keys.stamp_offset_ns,
                expected_rate_hz: keys.expected_rate_hz,
            };
            let first_ring = selections[..own].iter().map(Selection::parts).sum();
            Input { spec, first_ring, has_own_rings: selections.len() > 1 }
        };
        keys.into_iter().enumerate().map(input).collect()
    }

    /// The input with its rings: the first ring of `stream` is number `first_ring`.
    pub(super) fn feeding(self, stream: StreamId, first_ring: usize) -> InputSpec {
        let first = first_ring + self.first_ring;
        let feeds = (first..first + self.spec.selection.parts()).map(RingId::new).collect();
        InputSpec { stream: Some(stream), feeds, ..self.spec }
    }

    /// True if the arrival of its messages places them in time.
    pub(super) fn is_by_arrival(&self) -> bool {
        self.spec.timeline == Timeline::Receive
    }

    /// True if no other input fills its rings.
    pub(super) fn has_own_rings(&self) -> bool {
        self.has_own_rings
    }

    /// Rate at which its messages are expected \[Hz\].
    pub(super) fn expected_rate_hz(&self) -> Option<f64> {
        self.spec.expected_rate_hz
    }
}

/// Validates the inputs of the stream at `key`.
pub(super) fn inputs(
    check: &mut Check<'_>,
    key: &str,
    raw: &mut RawStream,
    defaults: InputDefaults<'_>,
) -> Option<Vec<Keys>> {
    let own = RawInput {
        topic: raw.topic.take(),
        timeline: raw.timeline,
        stamp_offset_ms: raw.stamp_offset_ms,
        qos: raw.qos,
        frame_id: raw.frame_id.take(),
        t_base_sensor: raw.t_base_sensor.take(),
        deskew: raw.deskew.take(),
        expected_rate_hz: raw.expected_rate_hz,
        ..RawInput::default()
    };
    if check.is_unread(&format!("{key}.inputs")) {
        return None;
    }
    let Some(several) = raw.inputs.take() else {
        return input(check, key, key, own, 0, &RawInput::default(), defaults)
            .map(|keys| vec![keys]);
    };
    if own.topic.is_some() {
        check.fail(&format!("{key}.topic"), "no such key beside `inputs`, which have one each");
    }
    let at = format!("{key}.inputs");
    if several.is_empty() {
        check.fail(&at, "at least one input");
        return None;
    }
    let may_be_several =
        |content: Content| content.has_joints() || is_points(content) || defaults.selects();
    if several.len() > 1 && !defaults.content.is_none_or(may_be_several) {
        let expected = "one input: only joints, clouds and what `select` takes come from several";
        check.fail_found(&at, expected, several.len().to_string());
    }
    if several.len() > MAX_INPUTS {
        let expected = format!("at most {MAX_INPUTS} inputs: the message has a bit for each");
        check.fail_found(&at, expected, several.len().to_string());
        return None;
    }
    let mut all = Vec::with_capacity(several.len());
    for (i, raw) in several.into_iter().enumerate() {
        all.push(input(check, &format!("{at}[{i}]"), key, raw, i, &own, defaults));
    }
    let all: Vec<Keys> = all.into_iter().collect::<Option<_>>()?;
    check_distinct(check, &at, &all);
    Some(all)
}

/// Validates input `number`, at `key`. If it lacks a key, that of its stream (`own`, at `stream`) applies.
fn input(
    check: &mut Check<'_>,
    key: &str,
    stream: &str,
    raw: RawInput,
    number: usize,
    own: &RawInput,
    defaults: InputDefaults<'_>,
) -> Option<Keys> {
    no_foreign_keys(check, key, &raw, defaults);
    let place = |given: bool, name: &str| match given {
        true => format!("{key}.{name}"),
        false => format!("{stream}.{name}"),
    };
    let topic_key = format!("{key}.topic");
    let topic = check
        .required(&topic_key, raw.topic, "a topic")
        .and_then(|topic| check.topic(&topic_key, topic));
    let at = place(raw.stamp_offset_ms.is_some(), "stamp_offset_ms");
    let offset_ms = raw.stamp_offset_ms.or(own.stamp_offset_ms).unwrap_or(0.0);
    let stamp_offset_ns = check.nanos(&at, offset_ms, Range::ANY_MS);
    let qos = qos(check, place, [raw.qos, own.qos].map(Option::unwrap_or_default), defaults);
    let at = place(raw.frame_id.is_some(), "frame_id");
    let frame_id = raw.frame_id.or_else(|| own.frame_id.clone());
    // One that is inherited is for the streams that have headers.
    let foreign = frame_id.is_some() && !defaults.has_header(number);
    if foreign && !check.is_inherited(&at) {
        let selected = defaults.selected.get(number).map_or("", |selected| &selected.ros_type);
        check.fail(&at, format!("no such key: {selected} has no header, so it says no frame"));
    }
    let frame_id = frame_id.filter(|_| !foreign);
    let frame_id = frame_id.and_then(|frame| frame_id_of(check, &at, frame));
    let at = place(raw.expected_rate_hz.is_some(), "expected_rate_hz");
    // If the check of the rate fails, the rate counts as not given, and the checks go on.
    let rate = raw.expected_rate_hz.or(own.expected_rate_hz);
    let expected_rate_hz = rate.and_then(|hz| check.number(&at, hz, Range::above(0.0, 1e5)));
    let t_base_sensor =
        t_base_sensor(check, place, [raw.t_base_sensor, own.t_base_sensor.clone()], defaults);
    let timeline = timeline(check, place, [raw.timeline, own.timeline], number, defaults);
    let max_age_ns = max_age_ns(check, &format!("{key}.max_age_ms"), raw.max_age_ms, defaults);
    let ros_type = ros_type(check, &format!("{key}.type"), raw.ros_type, number, defaults)?;
    let at = if raw.deskew.is_some() { key } else { stream };
    let raw = raw.deskew.or_else(|| own.deskew.clone());
    let deskew = raw.and_then(|raw| deskew_of(check, at, raw, &ros_type));
    if deskew.is_some() && timeline == Timeline::Receive {
        let expected = "no such key with timeline receive: points are moved to the header's stamp";
        check.fail(&format!("{at}.deskew"), expected);
    }
    Some(Keys {
        topic: topic?,
        ros_type,
        deskew,
        max_age_ns,
        timeline,
        stamp_offset_ns: stamp_offset_ns?,
        qos: qos?,
        frame_id,
        t_base_sensor: t_base_sensor?,
        expected_rate_hz,
    })
}

fn is_points(content: Content) -> bool {
    matches!(content, Content::Points)
}

/// The keys of inputs that say what `select` takes from their messages, and those of joints.
fn no_foreign_keys(check: &mut Check<'_>, key: &str, raw: &RawInput, defaults: InputDefaults<'_>) {
    let Some(content) = defaults.content else { return };
    if raw.joints.is_some() && !content.has_joints() {
        let expected = format!("no such key here: it is for {}", types(JOINTS));
        check.fail(&format!("{key}.joints"), expected);
    }
    if defaults.selects() {
        return;
    }
    for (name, given) in [("stamp", raw.stamp.is_some()), ("in_frame", raw.in_frame.is_some())] {
        if given {
            check
                .fail(&format!("{key}.{name}"), "no such key here: it is for inputs with `select`");
        }
    }
}

/// The type of an input: its own, or else that of its stream. Clouds of several types become one row.
fn ros_type(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<String>,
    number: usize,
    defaults: InputDefaults<'_>,
) -> Option<String> {
    if defaults.selects() {
        return defaults.selected.get(number).map(|selected| selected.ros_type.clone());
    }
    let Some(name) = raw else { return defaults.ros_type.map(str::to_owned) };
    if !defaults.content.is_none_or(is_points) {
        check.fail(
            key,
            "no such key here: the inputs of a stream have its type, unless they are clouds or have \
             `select`",
        );
        return None;
    }
    let found = find_type(&name).filter(|known| is_points(known.content));
    if found.is_none() {
        let types = TYPES.iter().filter(|known| is_points(known.content));
        let names: Vec<_> = types.map(|known| known.name).collect();
        check.fail(key, format!("{}, the types that are points", one_of(&names)));
    }
    found.map(|known| known.name.to_owned())
}

/// The greatest age of an input's clouds; `None` if that of the stream applies, or if it is wrong.
fn max_age_ns(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<f64>,
    defaults: InputDefaults<'_>,
) -> Option<i64> {
    let ms = raw?;
    if !defaults.content.is_none_or(is_points) {
        check
            .fail(key, "no such key here: max_age_ms is a key of the stream, unless it has clouds");
        return None;
    }
    check.nanos(key, ms, Range::POSITIVE_MS)
}

/// Validates the key `deskew` of the input or the stream at `key`, whose messages are `ros_type`.
fn deskew_of(
    check: &mut Check<'_>,
    key: &str,
    raw: RawDeskew,
    ros_type: &str,
) -> Option<DeskewSpec> {
    if !find_type(ros_type).is_some_and(|known| is_points(known.content)) {
        check.fail(&format!("{key}.deskew"), "no such key: it is for the types that are points");
        return None;
    }
    match ros_type == laser_scan::NAME {
        true => deskew::of_scan(check, key, raw),
        false => deskew::deskew(check, key, raw),
    }
}

/// How the clouds of these inputs become one row, and the greatest age of a row. `max_age_ns` is that of the
/// stream at `key`. The clouds of one input are rows as they are: nothing is merged with them.
pub(super) fn merge(
    check: &mut Check<'_>,
    key: &str,
    raw: Option<RawValidWhen>,
    inputs: &[Keys],
    max_age_ns: i64,
) -> Option<(Option<MergeSpec>, i64)> {
    if let [only] = inputs {
        if only.max_age_ns.is_some_and(|own| own > max_age_ns) {
            let why = "this is the only input, and the stream's max_age_ms is shorter";
            check.no_effect(&format!("{key}.inputs[0].max_age_ms"), why);
        }
        let valid_when = format!("{key}.valid_when");
        if raw.is_some() && !check.is_inherited(&valid_when) {
            check.no_effect(&valid_when, "`inputs` has one entry, so nothing is merged");
        }
    }
    let key = format!("{key}.valid_when");
    let valid_when = match raw {
        None | Some(RawValidWhen::All) => ValidWhen::All,
        Some(RawValidWhen::Any) => ValidWhen::Any,
        Some(RawValidWhen::Listed(topics)) => {
            check.names(&key, &topics, "topic")?;
            let mut needed = 0;
            for (at, topic) in topics.iter().enumerate() {
                let Some(input) = inputs.iter().position(|input| input.topic == *topic) else {
                    let topics: Vec<_> = inputs.iter().map(|input| input.topic.as_str()).collect();
                    let expected = format!("{}, the topics of `inputs`", one_of(&topics));
                    check.fail(&format!("{key}[{at}]"), expected);
                    return None;
                };
                needed |= 1 << input;
            }
            ValidWhen::Listed(needed)
        }
    };
    let of_inputs = inputs.iter().map(|input| input.max_age_ns.unwrap_or(max_age_ns));
    match inputs.len() {
        1 => Some((None, of_inputs.fold(max_age_ns, i64::min))),
        _ => Some((Some(MergeSpec { max_age_ns: of_inputs.collect(), valid_when }), max_age_ns)),
    }
}

/// Validates the pose of an input's sensor. Only points are moved, so other types have no such key.
fn t_base_sensor(
    check: &mut Check<'_>,
    place: impl Fn(bool, &str) -> String,
    [input, stream]: [Option<RawExtrinsic>; 2],
    defaults: InputDefaults<'_>,
) -> Option<Extrinsic> {
    let at = place(input.is_some(), "t_base_sensor");
    let Some(raw) = input.or(stream) else { return Some(Extrinsic::Known(IDENTITY)) };
    if !defaults.content.is_none_or(is_points) {
        check.fail(&at, "no such key: it is for the types that are points");
    }
    match raw {
        RawExtrinsic::Tf => Some(Extrinsic::Tf),
        RawExtrinsic::Known(raw) => transform(check, &at, raw).map(Extrinsic::Known),
    }
}

/// The timeline of an input: its own, or else that of its stream, or that of the file. Messages without
/// a stamp have the time of arrival.
fn timeline(
    check: &mut Check<'_>,
    place: impl Fn(bool, &str) -> String,
    [input, stream]: [Option<Timeline>; 2],
    number: usize,
    defaults: InputDefaults<'_>,
) -> Timeline {
    let given = input.or(stream);
    let at = place(input.is_some(), "timeline");
    match defaults.stamp(number) {
        StampSource::Header => return given.unwrap_or(defaults.timeline),
        StampSource::Member => {
            if given == Some(Timeline::Receive) && !check.is_inherited(&at) {
                check.fail(&at, "header: `stamp` names the stamp that counts");
            }
            return Timeline::Header;
        }
        StampSource::None => {}
    }
    if given == Some(Timeline::Header) && !check.is_inherited(&at) {
        let expected =
            "receive: the messages have no header; `stamp` can name a member that is one";
        check.fail(&at, expected);
    }
    Timeline::Receive
}

fn frame_id_of(check: &mut Check<'_>, key: &str, frame: String) -> Option<String> {
    if is_frame(&frame) {
        return Some(frame);
    }
    check.fail(key, format!("the frame_id that messages must carry, 1 to {MAX_NAME} bytes"));
    None
}

/// The QoS of an input: each key is the input's own, or else that of its stream.
fn qos(
    check: &mut Check<'_>,
    place: impl Fn(bool, &str) -> String,
    [input, stream]: [RawQos; 2],
    defaults: InputDefaults<'_>,
) -> Option<Qos> {
    let vector = defaults.content.is_some_and(Content::is_vector);
    let default = if vector { 256 } else { 8 };
    let at = place(input.depth.is_some(), "qos.depth");
    let depth = input.depth.or(stream.depth).unwrap_or(default);
    let depth = check.integer(&at, depth, 1, 10_000)?;
    let reliability = input.reliability.or(stream.reliability).unwrap_or_default();
    let durability = input.durability.or(stream.durability).unwrap_or_default();
    Some(Qos { reliability, durability, depth })
}

/// Checks that no two inputs of the stream at `key` take the same messages.
fn check_distinct(check: &mut Check<'_>, key: &str, inputs: &[Keys]) {
    for (i, input) in inputs.iter().enumerate() {
        if inputs[..i].iter().any(|other| other.topic == input.topic) {
            let key = format!("{key}[{i}].topic");
            check.fail_found(&key, "a topic of its own for each input", input.topic.clone());
        }
    }
}
