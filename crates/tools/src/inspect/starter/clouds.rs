//! Clouds as voxel grids.

use super::quoted;
use super::streams::StreamDraft;
use crate::inspect::{CloudReport, Inspection, TopicReport};
use robocache_core::input::IMU;

/// Edges of a voxel \[m\], most voxels along an axis, and most of a grid: a tick has all of them.
const VOXELS_M: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
const MOST_ALONG: f64 = 128.0;
const MOST_VOXELS: f64 = (1 << 18) as f64;
/// Points further away than this are left out of a grid \[m\].
const REACH_M: f64 = 51.2;

impl StreamDraft {
    /// A grid that has the points.
    pub(super) fn cloud(
        &mut self,
        found: &Inspection,
        base: &str,
        topic: &TopicReport,
        clouds: &CloudReport,
    ) -> Result<(), String> {
        let is_scan = topic.ros_type == robocache_core::input::laser_scan::NAME;
        let has =
            |name: &str| clouds.fields.iter().any(|field| field.name == name && field.count <= 1);
        if !is_scan && !["x", "y", "z"].into_iter().all(has) {
            return Err("its points have no fields x, y and z".into());
        }
        let reach = clouds.reach_m.ok_or("no point is finite")?;
        let frame = topic.frame_ids.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name);
        let frame = frame.map_or("", |name| name.trim_start_matches('/'));
        let place = if frame == base { None } else { found.place(base, frame) };
        match &place {
            Some((_, fixed)) => {
                let kind = if *fixed { "fixed" } else { "moves" };
                self.lines.push(format!(
                    "t_base_sensor: tf # {} in {}: {kind}",
                    plain(frame),
                    plain(base)
                ));
            }
            None if frame != base => self.lines.push(format!(
                "# The bag does not say where {} is in {}: give t_base_sensor.",
                plain(frame),
                plain(base)
            )),
            None => {}
        }
        self.deskew(found, base, clouds, is_scan);
        let corner = |at: usize| [0, 1, 2].map(|axis| f64::from(reach[axis][at >> axis & 1]));
        let mut bounds = [[f64::INFINITY, f64::NEG_INFINITY]; 3];
        for at in 0..8 {
            let point = place.map_or(corner(at), |(place, _)| place.apply(corner(at)));
            for (bound, x) in bounds.iter_mut().zip(point) {
                let x = x.clamp(-REACH_M, REACH_M);
                *bound = [bound[0].min(x), bound[1].max(x)];
            }
        }
        let fits = |size: &&f64| {
            let along = bounds.map(|[low, high]| (high - low) / **size + 2.0);
            along.iter().all(|voxels| *voxels <= MOST_ALONG)
                && along.iter().product::<f64>() <= MOST_VOXELS
        };
        let size = *VOXELS_M.iter().find(fits).unwrap_or(&1.0);
        // A plane is in the middle of its voxels.
        let low = bounds
            .map(|[low, high]| if high - low < size { (low + high - size) / 2.0 } else { low });
        let origin = low.map(|low| (low / size * 2.0).floor() * size / 2.0);
        let shape = [0, 1, 2].map(|axis| {
            (((bounds[axis][1] - origin[axis]) / size).floor() as i64 + 1).clamp(1, 4096)
        });
        let number = |x: f64| format!("{}", (x * 1000.0).round() / 1000.0);
        let [x, y, z] = origin.map(number);
        self.lines.push("cloud:".into());
        self.lines.push(format!("  origin_m: [{x}, {y}, {z}] # 98 % of the points are inside"));
        self.lines.push(format!("  size_m: {size}"));
        self.lines.push(format!("  shape: [{}, {}, {}]", shape[0], shape[1], shape[2]));
        self.lines.push("  channels:".into());
        self.lines.push("    - {reduce: count}".into());
        if let Some(name) =
            ["intensity", "reflectivity"].into_iter().find(|name| !is_scan && has(name))
        {
            self.lines.push(format!("    - {{reduce: mean, field: {name}}}"));
        }
        if clouds.points[1] > 1 << 20 {
            self.lines.push(format!("  max_points: {}", clouds.points[1].min(1 << 22)));
        }
        Ok(())
    }

    /// The times of the points, and how they could be used.
    fn deskew(&mut self, found: &Inspection, base: &str, clouds: &CloudReport, is_scan: bool) {
        let Some(time) = &clouds.time else { return };
        let name = plain(&time.name);
        let Some(unit_s) = time.unit_s else {
            self.lines.push(format!(
                "# The field {name} may have the times of the points, in an unknown unit."
            ));
            return;
        };
        let moving = found.frames.links.iter().find(|link| link.child == base && !link.is_fixed);
        let gyro = found.topics.iter().find(|topic| topic.ros_type == IMU && topic.messages > 0);
        let motion = match (moving, gyro) {
            (Some(link), _) => {
                format!("fixed_frame: {}", quoted(link.parents.first().map_or("odom", |p| p)))
            }
            (None, Some(gyro)) => format!("gyro: {}", quoted(&gyro.name)),
            (None, None) => "fixed_frame: odom".to_owned(),
        };
        // To a microsecond, so that 90 ms are not a little more.
        let ms = |value: f64| (value * unit_s * 1e6).round() / 1e3;
        let [from, to] = match time.is_absolute {
            true => [-5.0, ms(time.sweep).ceil() + 5.0],
            false => [ms(time.range[0]).floor() - 5.0, ms(time.range[1]).ceil() + 5.0],
        };
        let unit = match unit_s {
            1.0 => "s",
            1e-3 => "ms",
            1e-6 => "us",
            _ => "ns",
        };
        let sweep = ms(time.sweep).round();
        self.lines.push(format!("# The field {name} has the times of the points, over {sweep} ms. To move them to the stamp:"));
        let convention = match (is_scan, time.is_absolute) {
            (true, _) => String::new(),
            (false, true) => format!(", time_field: {name}, time_unit: {unit}, time_from: epoch"),
            (false, false) => format!(", time_field: {name}, time_unit: {unit}"),
        };
        self.lines.push(format!("# deskew: {{{motion}{convention}, span_ms: [{from}, {to}]}}"));
    }
}

/// A name of a bag in a comment.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}
