//! Poses of a filter's shapes when a cloud was measured.

use super::frames::Ask;
use super::not_taken::NotTaken;
use super::{Arrival, Pipeline};
use crate::spec::StreamId;
use robocache_ops::time::Stamp;
use robocache_ops::voxelize::Filter;

/// A frame of the tree, and what takes a point of the base frame to it.
type Placed<'a> = (&'a str, [[f64; 4]; 3]);

impl Pipeline {
    /// Poses of the shapes of a stream's filter for the sensor of a cloud, at the stamp of the cloud.
    pub(super) fn place_shapes(
        &self,
        stream: StreamId,
        t_base_sensor: &[[f64; 4]; 3],
        stamp: Stamp,
        arrival: Arrival,
    ) -> Result<Vec<[[f64; 4]; 3]>, NotTaken> {
        let Some(filter) = self.config.stream(stream).encoder.filter() else {
            return Ok(Vec::new());
        };
        let t_frames_base = self.frames_of_shapes(stream, stamp, arrival, filter)?;
        let t_frame_base = |name: &str| {
            let found = t_frames_base.iter().find(|(known, _)| *known == name);
            found.map(|(_, t_frame_base)| *t_frame_base)
        };
        Ok(filter.place(t_base_sensor, t_frame_base))
    }

    /// The frames that shapes are attached to: each takes a point of the base frame to the frame.
    fn frames_of_shapes<'a>(
        &self,
        stream: StreamId,
        stamp: Stamp,
        arrival: Arrival,
        filter: &'a Filter,
    ) -> Result<Vec<Placed<'a>>, NotTaken> {
        let attached: Vec<(usize, &str)> = filter.frames().collect();
        let (Some(frames), false) = (&self.frames, attached.is_empty()) else {
            return Ok(Vec::new());
        };
        let config = &self.config;
        let ask = |(_, name): &(usize, &str)| Ask::new(name, &config.base_frame, stamp);
        let asks: Vec<Ask> = attached.iter().map(ask).collect();
        let found = frames.of_all(arrival, &asks).map_err(|missing| {
            let (shape, name) = attached[missing.at];
            let stream = &config.stream(stream).name;
            let key = filter.key(shape);
            missing.why.of(&format!("streams.{stream}.cloud.{key} (frame {name:?})"))
        })?;
        let names = attached.iter().map(|(_, name)| *name);
        Ok(names.zip(found.iter().map(crate::tf::Transform::matrix)).collect())
    }
}
