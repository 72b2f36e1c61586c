//! Topics as streams.

use super::images;
use super::timing::{Timing, milliseconds};
use super::{FEWEST, Kind, StarterStream, quoted};
use crate::inspect::{ContentReport, Inspection, JointSet, Joints, TopicReport};
use robocache_core::input::{Content as Holds, MessageType, TF_MESSAGE};
use robocache_core::schema::Leaf;
use robocache_core::spec::Timeline;
use robocache_ops::time::NANOS_PER_MS;

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
/// Makes the stream of a topic; its name is for the caller.
///
/// # Errors
/// Why it is left out.
pub(super) fn stream(
    found: &Inspection,
    base: &str,
    topic: &TopicReport,
) -> Result<StarterStream, String> {
    let package = topic.ros_type.split('/').next().unwrap_or_default();
    if let Some((_, why)) = NO_STATE.iter().find(|(name, _)| *name == package) {
        return Err((*why).to_owned());
    }
    match topic.ros_type.as_str() {
        TF_MESSAGE => return Err("the tree of frames is read if a stream asks for a frame".into()),
        robocache_core::input::CAMERA_INFO => {
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
    let timing = Timing::new(topic, found.is_simulated()).ok_or("its stamps do not differ")?;
    let mut made = StreamDraft {
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
pub(super) struct StreamDraft {
    timing: Timing,
    /// If it is not the default.
    strategy: Option<&'static str>,
    max_age_ns: i64,
    /// A plan brings the values on both sides itself.
    is_plan: bool,
    /// Lines of the keys that only its kind of stream has.
    pub(super) lines: Vec<String>,
}

impl StreamDraft {
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

    fn finish(self, topic: &TopicReport, kind: Kind) -> StarterStream {
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
                "# {} messages, {rate_hz} Hz, up to {} ms apart ({} %){delay}; lag_ms: {} would do{}",
                topic.messages,
                milliseconds(timing.long_ns),
                timing.long_share,
                milliseconds(lag_ns),
                // A bag does not tell how long the node encodes.
                if kind == Kind::Vector { "" } else { " in a replay, in a live node some ms more" },
            ),
            format!("type: {}", quoted(&topic.ros_type)),
            format!("topic: {}", quoted(&topic.name)),
        ];
        if timing.offset_ns != 0 {
            let offset_ms = milliseconds(timing.offset_ns);
            lines.push(format!(
                "stamp_offset_ms: {offset_ms} # its clock is ahead: set it right, and remove this"
            ));
        }
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
        StarterStream {
            topic: topic.name.clone(),
            name: String::new(),
            lines,
            lag_ns,
            rate_hz,
            kind,
        }
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
        let mut taken = Vec::new();
        let mut left = Vec::new();
        let mut total = 0;
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
