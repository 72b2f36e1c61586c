//! Tables of a plan that the kernel reads, in device memory.

use std::sync::Arc;

use super::RingPointers;
use crate::align::ValidWhen;
use crate::device::shared::Shared;
use crate::device::shared::windows::{
    Element, OPERATOR_AFFINE, OPERATOR_CLAMP, OPERATOR_UNWRAP, Operator, Ring, Stream, VIEW_ALL,
    VIEW_SERVED, VIEW_STRICT, WHEN_ALL, WHEN_ANY, WHEN_LISTED,
};
use crate::device::{Device, DeviceBuffer, DeviceError, bytes_of};
use crate::dtype::DType;
use crate::operators::{self, OutputStage, StageElement};
use crate::resample::Lane;
use crate::resample::cuda::{align_rule, lane_codes};
use crate::windows::{Visibility, WindowPlan, WindowRing, WindowStream};

/// Steps of a task at most: a thread finds the rows of each.
const STEPS: usize = 32;
/// Bytes of a task, about.
const TASK_BYTES: usize = 8192;
/// Marks an element that goes nowhere.
const NONE: u32 = u32::MAX;

/// The tables of a plan.
pub(super) struct Tables {
    streams: DeviceBuffer,
    /// Tasks of a window.
    pub tasks: u32,
    /// Kept for their memory.
    _parts: Vec<DeviceBuffer>,
}

impl Tables {
    pub(super) fn new(
        device: &Arc<Device>,
        plan: &WindowPlan,
        rings: &[Option<&[RingPointers]>],
    ) -> Result<Self, DeviceError> {
        let mut parts = Parts { device, all: Vec::new() };
        let streams = plan.streams().iter().zip(rings);
        let streams = streams.map(|(stream, rings)| parts.stream(stream, *rings));
        let streams = streams.collect::<Result<Vec<Stream>, _>>()?;
        let tasks = streams.iter().map(|stream| stream.tasks).sum();
        let table = DeviceBuffer::from_bytes(device, bytes_of(&streams))?;
        Ok(Tables { streams: table, tasks, _parts: parts.all })
    }

    pub(super) fn streams(&self) -> u64 {
        self.streams.address()
    }
}

/// Puts parts of the tables on the device.
struct Parts<'a> {
    device: &'a Arc<Device>,
    all: Vec<DeviceBuffer>,
}

impl Parts<'_> {
    fn put<T: Shared>(&mut self, values: &[T]) -> Result<u64, DeviceError> {
        let buffer = DeviceBuffer::from_bytes(self.device, bytes_of(values))?;
        let address = buffer.address();
        self.all.push(buffer);
        Ok(address)
    }

    fn stream(
        &mut self,
        stream: &WindowStream,
        rings: Option<&[RingPointers]>,
    ) -> Result<Stream, DeviceError> {
        let mut table = shape(stream);
        let Some(rings) = rings else {
            table.tasks = 0;
            return Ok(table);
        };
        let rings = stream.rings.iter().zip(rings);
        let rings = rings.map(|(ring, pointers)| self.ring(stream, ring, pointers));
        let rings = rings.collect::<Result<Vec<Ring>, _>>()?;
        table.rings = self.put(&rings)?;
        table.offsets_ns = self.put(&stream.offsets_ns)?;
        Ok(table)
    }

    fn ring(
        &mut self,
        stream: &WindowStream,
        ring: &WindowRing,
        of: &RingPointers,
    ) -> Result<Ring, DeviceError> {
        let mut table = Ring {
            rows: of.rows,
            coordinates: of.coordinates,
            count: of.count,
            stamp_ns: of.stamp_ns,
            received_ns: of.received_ns,
            left_ns: of.left_ns,
            received_from: of.received_from,
            left_until: of.left_until,
            until_ns: of.until_ns,
            replaced: of.replaced,
            until_next: of.until_next,
            spans: of.spans,
            dtype: ring.dtype as u32,
            row_len: ring.row_len as u32,
            part_len: ring.row_len as u32,
            ..Ring::default()
        };
        let interpolates = stream.rule.strategy.interpolates();
        let lanes: &[Lane] = if interpolates { &ring.lanes } else { &[] };
        if let Some(codes) = lane_codes(self.device, lanes)? {
            table.lanes = codes.address();
            self.all.push(codes);
        }
        if let Some(stage) = &ring.stage {
            let (elements, operators) = stage_table(stage);
            table.part_len = elements.len() as u32;
            table.unwraps = u32::from(stage.unwraps());
            table.elements = self.put(&elements)?;
            table.operators = self.put(&operators)?;
        }
        if !ring.is_whole(stream) {
            let mut places = vec![NONE; table.part_len as usize];
            for run in &ring.runs {
                for at in 0..run.len {
                    places[run.row_at + at] = (run.step_at + at) as u32;
                }
            }
            table.places = self.put(&places)?;
        }
        Ok(table)
    }
}

/// Shape of a stream without its rings, for the kernel: its rules, and how its work is divided.
fn shape(stream: &WindowStream) -> Stream {
    let steps = stream.steps();
    // Of bytes that become floats, what is read: each task looks for its rows, and smaller ones took 1.3 times as long.
    let size = if stream.scaled { DType::U8.size() } else { stream.dtype.size() };
    let bytes = stream.step_len * size;
    let unwraps = |ring: &WindowRing| ring.stage.as_ref().is_some_and(OutputStage::unwraps);
    let whole = stream.rings.iter().any(unwraps);
    let mut chunk = steps.min(STEPS);
    let mut tile = stream.step_len.max(1);
    if whole {
        chunk = steps;
    } else if bytes > TASK_BYTES {
        // 16 elements are a multiple of 16 bytes, whatever their type.
        (chunk, tile) = (1, (TASK_BYTES / size).next_multiple_of(16));
    } else {
        chunk = chunk.min((TASK_BYTES / bytes.max(1)).max(1));
    }
    let chunks = steps.div_ceil(chunk);
    let tiles = stream.step_len.max(1).div_ceil(tile);
    let merge = stream.merge.as_ref();
    let (when, needed) = match merge.map(|merge| merge.valid_when) {
        Some(ValidWhen::Any) => (WHEN_ANY, 0),
        Some(ValidWhen::Listed(needed)) => (WHEN_LISTED, needed),
        Some(ValidWhen::All) | None => (WHEN_ALL, 0),
    };
    Stream {
        rule: align_rule(stream.rule),
        ring_count: stream.rings.len() as u32,
        steps: steps as u32,
        step_len: stream.step_len as u32,
        dtype: stream.dtype as u32,
        view: match stream.view {
            Visibility::Served => VIEW_SERVED,
            Visibility::Strict => VIEW_STRICT,
            Visibility::All => VIEW_ALL,
        },
        present: stream.present as u32,
        sparse: u32::from(stream.coordinates.is_some()),
        coordinates: stream.coordinates.unwrap_or(0) as u32,
        inputs: merge.map_or(0, |merge| merge.max_age_ns.len()) as u32,
        when,
        needed,
        chunk: chunk as u32,
        chunks: chunks as u32,
        tile: tile as u32,
        tiles: tiles as u32,
        tasks: (chunks * tiles) as u32,
        within: u32::from(stream.within),
        scaled: u32::from(stream.scaled),
        ..Stream::default()
    }
}

/// The elements of a stage, and their operators.
fn stage_table(stage: &OutputStage) -> (Vec<Element>, Vec<Operator>) {
    let mut operators = Vec::new();
    let unwrapped: Vec<usize> = stage.unwrapped().collect();
    let elements = stage.elements().map(|StageElement { at, rotation, operators: own }| {
        let first_operator = operators.len() as u32;
        operators.extend(own.iter().map(|operator| {
            let (kind, [a, b, c]) = match *operator {
                operators::Operator::Affine { shift, scale, offset } => {
                    (OPERATOR_AFFINE, [shift, scale, offset])
                }
                operators::Operator::Clamp { low, high } => (OPERATOR_CLAMP, [low, high, 0.0]),
                operators::Operator::Unwrap => (OPERATOR_UNWRAP, [0.0; 3]),
            };
            Operator { a, b, c, kind, reserved: 0 }
        }));
        Element {
            at: at as u32,
            rotation: rotation.map_or(0, |(row, column)| 1 + 3 * row as u32 + column as u32),
            first_operator,
            operators: own.len() as u32,
            unwraps: u32::from(rotation.is_none() && unwrapped.contains(&at)),
            reserved: 0,
        }
    });
    (elements.collect(), operators)
}
