//! The form of Isaac ROS 4: `isaac_ros_tensor_list_interfaces/msg/TensorList`.
//!
//! Each segment is a tensor of its own, with its own bytes, so a tick's packed tensor is copied into it. What is said of
//! the steps goes along as tensors, too:
//!
//! | tensor | elements |
//! |---|---|
//! | `NAME` | the segment, in its shape |
//! | `NAME.valid` | uint8 `[steps]`: 1 if the value may be acted on |
//! | `NAME.target_ns`, `NAME.age_ns` | int64 `[steps]` |
//! | `NAME.count`, `NAME.inputs_valid` | uint32 `[steps]` |
//! | `robocache.tick`, `robocache.digest` | uint64 `[1]` |
//!
//! `msg/TensorSegment.msg` explains them. The names of segments have none of these endings, so no name occurs
//! twice. Run and epoch are left out, because no node reads actions that answer this form.

use super::places::STEP_FIELDS;
use super::{Envelope, Places, SegmentPlaces};
use crate::cdr::{ENCAPSULATION_LEN, Writer};
use crate::layout::{Layout, Segment};
use robocache_ops::dtype::DType;
use robocache_ops::time::Stamp;

/// The `data_type` of a tensor.
#[derive(Clone, Copy)]
enum Element {
    U8 = 2,
    I32 = 5,
    U32 = 6,
    I64 = 7,
    U64 = 8,
    F32 = 9,
}

impl Element {
    /// `None` for types that the form lacks.
    fn of(dtype: DType) -> Option<Self> {
        match dtype {
            DType::F32 => Some(Element::F32),
            DType::U8 => Some(Element::U8),
            DType::I32 => Some(Element::I32),
            DType::F16 | DType::Bf16 => None,
        }
    }

    fn size(self) -> usize {
        match self {
            Element::U8 => 1,
            Element::I32 | Element::U32 | Element::F32 => 4,
            Element::I64 | Element::U64 => 8,
        }
    }
}

/// The form has no such elements.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "isaac_tensor_list: expected elements of f32, u8 or i32, found {} in the segment '{segment}': set its dtype",
    dtype.name()
)]
pub struct LacksElement {
    /// The name of the segment.
    pub segment: String,
    /// The type of its elements.
    pub dtype: DType,
}

impl Envelope {
    /// `isaac_ros_tensor_list_interfaces/msg/TensorList` of a layout. The message consists of what never changes and the
    /// places of the rest ([`Envelope::rewrite`]).
    ///
    /// # Errors
    /// [`LacksElement`]
    pub fn isaac_tensor_list(layout: &Layout, base_frame: &str) -> Result<Self, LacksElement> {
        let mut writer = Writer::new();
        let stamp_at = ENCAPSULATION_LEN;
        writer.header(Stamp::ZERO, base_frame);
        let tensors = layout.segments().len() * (1 + STEP_FIELDS.len()) + 2;
        writer.u32(tensors as u32);
        let segments: Result<Vec<_>, _> =
            layout.segments().iter().map(|segment| write(&mut writer, segment)).collect();
        let segments = segments?;
        let tick_at = tensor(&mut writer, "robocache.tick", &[1], Element::U64);
        let digest_at = tensor(&mut writer, "robocache.digest", &[1], Element::U64);
        let end = writer.position();
        let places = Places {
            frame_id: base_frame.to_owned(),
            big_endian: false,
            stamp_at,
            run_at: None,
            tick_at,
            digest_at,
            segments,
            data: end..end,
        };
        Ok(Envelope::new(writer.finish(), places))
    }

    /// Writes a message of another form of the same layout in this form. `out` is memory for it, whose bytes in front are
    /// a message of this form or nothing.
    pub fn rewrite(&self, from: &Places, message: &[u8], out: &mut Vec<u8>) {
        if out.len() != self.head().len() {
            out.clear();
            out.extend_from_slice(self.head());
        }
        let to = self.places();
        to.put_tick(out, from.tick(message) as i64, from.stamp(message));
        to.put_digest(out, from.digest(message));
        for (from, to) in from.segments.iter().zip(&to.segments) {
            out[to.data.clone()].copy_from_slice(&message[from.data.clone()]);
            for (from, to) in from.step_ranges().into_iter().zip(to.step_ranges()) {
                out[to].copy_from_slice(&message[from]);
            }
        }
    }
}

/// Writes the tensors of a segment.
fn write(writer: &mut Writer, segment: &Segment) -> Result<SegmentPlaces, LacksElement> {
    let Segment { name, dtype, shape, .. } = segment;
    let element =
        Element::of(*dtype).ok_or_else(|| LacksElement { segment: name.clone(), dtype: *dtype })?;
    let at = tensor(writer, name, shape, element);
    let steps_at = STEP_FIELDS.map(|(field, _)| {
        let element = match field {
            "valid" => Element::U8,
            "target_ns" | "age_ns" => Element::I64,
            _ => Element::U32,
        };
        tensor(writer, &format!("{name}.{field}"), &[segment.steps], element)
    });
    let data = at..at + segment.byte_len;
    Ok(SegmentPlaces { name: name.clone(), dtype: *dtype, shape: shape.clone(), data, steps_at })
}

/// Writes a `Tensor` of zeros. Returns where its data is.
fn tensor(writer: &mut Writer, name: &str, shape: &[usize], element: Element) -> usize {
    writer.string(name);
    writer.u8(shape.len() as u8);
    writer.u32_sequence(shape.iter().map(|dim| *dim as u32));
    writer.i32(element as i32);
    let inner = |at: usize| shape[at + 1..].iter().product::<usize>() * element.size();
    writer.u32(shape.len() as u32);
    (0..shape.len()).for_each(|at| writer.u64(inner(at) as u64));
    let len = shape.iter().product::<usize>() * element.size();
    writer.bytes(&vec![0; len]);
    writer.position() - len
}
