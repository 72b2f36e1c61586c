//! Topics as streams.

use super::images;
use super::timing::{Timing, milliseconds};
use super::{FEWEST, Kind, Stream, quoted};
use crate::input::{Content as Holds, IMU, MessageType, TF_MESSAGE};
use crate::replay::inspect::{
    CloudReport, ContentReport, Inspection, JointSet, Joints, TopicReport,
};
use crate::schema::Leaf;
use crate::spec::Timeline;
use crate::time::NANOS_PER_MS;

/// Packages whose messages say nothing of the robot's state, and what they are.
const NO_STATE: [(&str, &str); 9] = [
    ("rcl_interfaces", "logs and parameters are no state of the robot"),
    ("diagnostic_msgs", "diagnostics are no state of the robot"),
    ("rosgraph_msgs", "a clock is no state of the robot"),
    ("visualization_msgs", "markers are for people"),
    ("robocache_ros", "tensors are results, not inputs"),
    ("action_msgs", "the state of an action is no state of the robot"),
    ("lifecycle_msgs", "the state of a node is no state of the robot"),
    ("std_srvs", "a service is no state of the robot"),
    ("foxglove_msgs", "messages of Foxglove are for people"),
];
/// Most numbers of a list, and of a stream, that are selected.
const MOST_NUMBERS: usize = 64;
/// Edges of a voxel \[m\], and most voxels along an axis.
const VOXELS_M: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
const MOST_VOXELS: f64 = 128.0;
/// Points further away than this are left out of a grid \[m\].
const REACH_M: f64 = 51.2;

/// Makes the stream of a topic; its name is for the caller.
///
/// # Errors
/// Why it is left out.
pub(super) fn stream(
    found: &Inspection,
    base: &str,
    topic: &TopicReport,
) -> Result<Stream, String> {
    let package = topic.ros_type.split('/').next().unwrap_or_default();
    if let Some((_, why)) = NO_STATE.iter().find(|(name, _)| *name == package) {
        return Err((*why).to_owned());
    }
    match topic.ros_type.as_str() {
        TF_MESSAGE => return Err("the tree of frames is read if a stream asks for a frame".into()),
        crate::input::CAMERA_INFO => {
            return Err("`image.undistort` of an image stream reads it".into());
        }
        "nav_msgs/msg/OccupancyGrid" | "nav_msgs/msg/Path" => {
            return Err("a map or a path is no vector of fixed length".into());
        }
        _ => {}
    }
    if topic.messages < FEWEST {
        return Err(format!("only {} messages", topic.messages));
    }
    if 2 * topic.unreadable > topic.messages {
        let why = topic.first_problem.as_deref().unwrap_or_default();
        return Err(format!("most messages are malformed: {why}"));
    }
    let timing = Timing::new(topic).ok_or("its stamps do not differ")?;
    let mut made = Made {
        timing,
        strategy: None,
        max_age_ns: timing.max_age_ns(),
        is_plan: false,
        lines: vec![],
    };
    let kind = made.contents(found, base, topic)?;
    Ok(made.finish(topic, kind))
}

/// A stream that is being made.
struct Made {
    timing: Timing,
    /// If it is not the default.
    strategy: Option<&'static str>,
    max_age_ns: i64,
    /// A plan brings the values on both sides itself.
    is_plan: bool,
    /// What is of its kind.
    lines: Vec<String>,
}

impl Made {
    fn contents(
        &mut self,
        found: &Inspection,
        base: &str,
        topic: &TopicReport,
    ) -> Result<Kind, String> {
        match &topic.content {
            Some(ContentReport::Images(of_topic)) => {
                let (kind, lines) = images::lines(found, topic, of_topic)?;
                self.lines = lines;
                return Ok(kind);
            }
            Some(ContentReport::Clouds(clouds)) => {
                self.cloud(found, base, topic, clouds)?;
                return Ok(Kind::Cloud);
            }
            Some(ContentReport::Joints(joints)) => self.joints(topic, joints)?,
            Some(ContentReport::Imu { without_orientation, without_angular_velocity }) => {
                let lacks = [*without_orientation > 0, *without_angular_velocity > 0];
                self.imu(lacks);
            }
            Some(ContentReport::Numbers { paths, .. }) => self.select(paths)?,
            _ => {
                let known = MessageType::find(&topic.ros_type);
                if !known.is_some_and(|known| matches!(known.content, Holds::Fields(_))) {
                    return Err(format!(
                        "the definition of {} is not in the bag, or a plan cannot read it; source its workspace",
                        topic.ros_type
                    ));
                }
            }
        }
        if self.timing.is_slow() && self.strategy.is_none() {
            self.strategy = Some("hold");
        }
        Ok(Kind::Vector)
    }

    fn finish(self, topic: &TopicReport, kind: Kind) -> Stream {
        let timing = self.timing;
        let rate_hz = timing.rate_hz();
        let delay = timing.usual_delay_ns.map_or_else(String::new, |usual| {
            let most = milliseconds(timing.delay_ns);
            format!(", delays of {} to {most} ms", milliseconds(usual))
        });
        let interpolated = kind == Kind::Vector && self.strategy != Some("hold") && !self.is_plan;
        let lag_ns = timing.lag_ns(interpolated);
        let mut lines = vec![
            format!(
                "# {} messages, {rate_hz} Hz, up to {} ms apart (99 %){delay}; lag_ms: {} would do",
                topic.messages,
                milliseconds(timing.long_ns),
                milliseconds(lag_ns)
            ),
            format!("type: {}", quoted(&topic.ros_type)),
            format!("topic: {}", quoted(&topic.name)),
        ];
        if let (Timeline::Receive, Some(why)) = (timing.timeline, timing.why) {
            lines.push(format!("timeline: receive # {why}"));
        }
        if let Some(strategy) = self.strategy {
            lines.push(format!("strategy: {strategy}"));
        }
        lines.push(format!("max_age_ms: {}", milliseconds(self.max_age_ns)));
        lines.push(format!("expected_rate_hz: {rate_hz}"));
        lines.extend(self.lines);
        let rate_hz = Some(rate_hz);
        Stream { topic: topic.name.clone(), name: String::new(), lines, lag_ns, rate_hz, kind }
    }

    fn imu(&mut self, [orientation, angular_velocity]: [bool; 2]) {
        let mut fields = vec!["orientation", "angular_velocity", "linear_acceleration"];
        if orientation {
            fields.retain(|field| *field != "orientation");
        }
        if angular_velocity {
            fields.retain(|field| *field != "angular_velocity");
        }
        self.lines.push(format!("fields: [{}]", fields.join(", ")));
    }

    fn joints(&mut self, topic: &TopicReport, joints: &Joints) -> Result<(), String> {
        let is_plan = topic.ros_type.starts_with("trajectory_msgs");
        let mut sets: Vec<&JointSet> = joints
            .sets
            .iter()
            .filter(|set| set.messages >= FEWEST && !set.names.is_empty())
            .collect();
        sets.sort_by_key(|set| std::cmp::Reverse(set.messages));
        if sets.is_empty() {
            return Err("no list of joints is in ten messages".into());
        }
        let shares = |a: &JointSet, b: &JointSet| a.names.iter().any(|name| b.names.contains(name));
        let mut groups: Vec<&JointSet> = Vec::new();
        for set in &sets {
            if !groups.iter().any(|group| shares(group, set)) {
                groups.push(set);
            }
        }
        if groups.len() < joints.sets.len() {
            self.lines.push(
                "# Other messages have other lists of joints, which share some of these.".into(),
            );
        }
        let words = match is_plan {
            true => ["positions", "velocities", "accelerations", "effort"],
            false => ["position", "velocity", "effort", ""],
        };
        let all = |at: usize| groups.iter().all(|group| group.complete[at] == group.messages);
        let fields: Vec<&str> = (0..2).filter(|at| all(*at)).map(|at| words[at]).collect();
        if fields.is_empty() {
            return Err(format!("not every message has a {} for each joint", words[0]));
        }
        self.lines.push(format!("fields: [{}]", fields.join(", ")));
        let list = |set: &JointSet| {
            let names: Vec<String> = set.names.iter().map(|name| quoted(name)).collect();
            format!("[{}]", names.join(", "))
        };
        match groups[..] {
            [only] => self.lines.push(format!("joints: {}", list(only))),
            _ => {
                self.lines.push("groups:".into());
                for (number, group) in groups.iter().enumerate() {
                    self.lines.push(format!("  group_{}: {}", number + 1, list(group)));
                }
                self.of_groups(topic, &groups);
            }
        }
        if is_plan {
            self.plan(joints);
        }
        Ok(())
    }

    /// The messages of several publishers are mixed: the intervals are those of the slowest.
    fn of_groups(&mut self, topic: &TopicReport, groups: &[&JointSet]) {
        let span = topic.first_ns.zip(topic.last_ns).map_or(0, |(first, last)| last - first);
        let fewest = groups.iter().map(|group| group.messages).min().unwrap_or(1).max(2);
        let interval = span / (fewest as i64 - 1);
        self.timing.usual_ns = self.timing.usual_ns.max(interval);
        self.timing.long_ns = self.timing.long_ns.max(interval + interval / 2);
        self.max_age_ns = self.timing.max_age_ns();
    }

    fn plan(&mut self, joints: &Joints) {
        // The newest plan must reach from one plan to the next.
        let reach = joints.horizon_ns - 2 * self.timing.usual_ns - self.timing.delay_ns;
        let points = joints.most_points;
        let length = milliseconds(joints.horizon_ns);
        self.lines.push(format!("# Plans of up to {points} points, {length} ms long."));
        if reach > 8 * NANOS_PER_MS {
            let step_ms = (reach / 8 / NANOS_PER_MS).max(1);
            self.lines.push(format!("horizon: {{steps: 8, step_ms: {step_ms}}}"));
        }
        self.strategy = Some("linear");
        self.is_plan = true;
        let gap = (joints.spacing_ns.saturating_mul(3) / 2).max(2 * self.max_age_ns);
        self.lines.push(format!(
            "max_gap_ms: {}",
            milliseconds(gap / NANOS_PER_MS * NANOS_PER_MS + NANOS_PER_MS)
        ));
    }

    fn select(&mut self, paths: &[Leaf]) -> Result<(), String> {
        let (mut taken, mut left, mut total) = (Vec::new(), Vec::new(), 0);
        let mut whole = false;
        for leaf in paths {
            let why = unfit(leaf);
            let count = leaf.numbers[0].min(MOST_NUMBERS);
            if let Some(why) = why.or((total + count > MOST_NUMBERS).then_some("too many numbers"))
            {
                left.push(format!("{} ({why})", leaf.path));
                continue;
            }
            total += count;
            whole |= leaf.is_whole;
            let path = match leaf.is_list {
                true if leaf.numbers[0] != leaf.numbers[1] || count < leaf.numbers[0] => {
                    format!(
                        "{}[0:{count}] # of {} to {}",
                        leaf.path, leaf.numbers[0], leaf.numbers[1]
                    )
                }
                true => format!("{}[0:{count}]", leaf.path),
                false => leaf.path.clone(),
            };
            taken.push(path);
        }
        if taken.is_empty() {
            return Err("no number is in every message".into());
        }
        self.lines.push("select:".into());
        self.lines.extend(taken.iter().map(|path| format!("  - {path}")));
        if !left.is_empty() {
            left.truncate(16);
            self.lines.push(format!("  # not taken: {}", left.join(", ")));
        }
        if whole {
            // Between two whole numbers there is no state.
            self.strategy = Some("hold");
        }
        Ok(())
    }

    fn cloud(
        &mut self,
        found: &Inspection,
        base: &str,
        topic: &TopicReport,
        clouds: &CloudReport,
    ) -> Result<(), String> {
        let is_scan = topic.ros_type == crate::input::laser_scan::NAME;
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
        let widest = bounds.iter().map(|[low, high]| high - low).fold(0.0, f64::max);
        let fits = |size: &&f64| widest / **size <= MOST_VOXELS - 2.0;
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

/// Why numbers are not taken.
fn unfit(leaf: &Leaf) -> Option<&'static str> {
    let constant = leaf.range.is_some_and(|[least, most]| least == most);
    match leaf.numbers {
        [usize::MAX | 0, _] => Some("not in every message"),
        _ if leaf.non_finite > 0 => Some("NaN or infinite"),
        _ if leaf.path.ends_with("covariance") => Some("a covariance"),
        _ if leaf.path.starts_with("layout.") => Some("a layout"),
        [least, _] if leaf.is_whole && least > MOST_NUMBERS => Some("bytes"),
        _ if leaf.is_whole && constant => Some("always the same"),
        _ => None,
    }
}

/// A name of a bag in a comment.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(64).collect()
}
