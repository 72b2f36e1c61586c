//! `nav_msgs/msg/OccupancyGrid`.

use super::{Content, Input, MessageType, Sink, header};
use crate::cdr::Reader;
use crate::rejected::{DropReason, Rejected};
use crate::sample::Sample;
use crate::spec::Selection;
use crate::tf::{BadTransform, Transform};
use robocache_ops::map::MapView;
use robocache_ops::voxelize::IDENTITY;

/// See [the message](self).
pub(super) const TYPE: MessageType = MessageType {
    name: "nav_msgs/msg/OccupancyGrid",
    content: Content::Map,
    open: |selection| match selection {
        Selection::Map { largest_cells } => {
            Some(Box::new(OccupancyGridInput { largest_cells: *largest_cells }))
        }
        _ => None,
    },
};

struct OccupancyGridInput {
    /// Greatest width and height \[cells\].
    largest_cells: [usize; 2],
}

impl Input for OccupancyGridInput {
    /// # Errors
    /// - `TooLarge`: more cells than the stream takes.
    /// - `Malformed`: the message ends early, has no cells, or not as many as it declares.
    /// - `NonFinite`: NaN or infinity in the resolution or the origin.
    /// - `OutOfRange`: the resolution is not greater than 0, or the orientation is no unit quaternion.
    fn read(&mut self, message: &[u8], sink: &mut dyn Sink) -> Result<(), Rejected> {
        let mut reader = Reader::new(message)?;
        let Some(sink) = sink.admit(&header(&mut reader)?) else { return Ok(()) };
        reader.skip(4, 8)?; // map_load_time
        let resolution_m = resolution(reader.f32()?)?;
        let size = [reader.u32()?, reader.u32()?].map(|cells| cells as usize);
        let mut number = || reader.f64();
        let position = [number()?, number()?, number()?];
        let orientation = [number()?, number()?, number()?, number()?];
        let t_frame_map = origin(position, orientation)?;
        let data = reader.bytes()?;
        self.check_size(size, data.len())?;
        let [width, height] = size;
        let view =
            MapView { width, height, resolution_m, t_frame_map, t_crop_frame: IDENTITY, data };
        sink.sample(0, Sample::Map(view));
        Ok(())
    }
}

impl OccupancyGridInput {
    /// Checks the size that a map declares against its data.
    fn check_size(&self, [width, height]: [usize; 2], found: usize) -> Result<(), Rejected> {
        for (key, word, cells, most) in [
            ("width", "wide", width, self.largest_cells[0]),
            ("height", "high", height, self.largest_cells[1]),
        ] {
            if cells > most {
                let detail = format!(
                    "info.{key}: expected at most {most} cells {word} (occupancy.max_{key}_cells), found {cells}"
                );
                return Err(Rejected::new(DropReason::TooLarge, detail));
            }
        }
        if width == 0 || height == 0 {
            return Err(malformed(format!("info: expected cells, found {width}x{height}")));
        }
        match width * height == found {
            true => Ok(()),
            false => Err(malformed(format!(
                "data: expected {width}x{height} cells, as info says, found {found}"
            ))),
        }
    }
}

fn resolution(found: f32) -> Result<f64, Rejected> {
    let expected = "info.resolution: expected a number of metres greater than 0";
    let reason = match found {
        _ if !found.is_finite() => DropReason::NonFinite,
        _ if found <= 0.0 => DropReason::OutOfRange,
        _ => return Ok(f64::from(found)),
    };
    Err(Rejected::new(reason, format!("{expected}, found {found}")))
}

/// Takes a point of the map, whose lower corner is its origin, to the frame of the message.
fn origin(position: [f64; 3], orientation: [f64; 4]) -> Result<[[f64; 4]; 3], Rejected> {
    let transform = Transform::new(position, orientation).map_err(|error| {
        let reason = match error {
            BadTransform::NonFinite => DropReason::NonFinite,
            BadTransform::Length(_) => DropReason::OutOfRange,
        };
        Rejected::new(reason, format!("info.origin: {error}"))
    })?;
    Ok(transform.matrix())
}

fn malformed(detail: String) -> Rejected {
    Rejected::new(DropReason::Malformed, detail)
}

#[cfg(test)]
mod tests;
