//! Layouts of Foxglove: what a configuration's sensors send, and how its tensors come out.

use robocache_core::sample::SampleKind;
use robocache_core::spec::{Config, InputSpec};
use robocache_core::visual::View;
use serde_json::{Map, Value, json};

/// The node's name, as its statuses on `/diagnostics` begin. Like all topics here, it has no namespace.
const NODE: &str = "/fusion_node";
/// Values of the status of the ticks that are plotted.
const OF_TICKS: [&str; 4] = ["published_hz", "latency_p99_ms", "overruns", "held_back"];

/// The panels of a layout, by the ids that its tree names.
#[derive(Default)]
struct Panels(Map<String, Value>);

impl Panels {
    /// Adds a panel, and returns its id.
    fn add(&mut self, kind: &str, settings: Value) -> Value {
        let id = format!("{kind}!{}", self.0.len());
        self.0.insert(id.clone(), settings);
        Value::String(id)
    }

    fn image(&mut self, topic: &str) -> Value {
        let settings = json!({"foxglovePanelTitle": topic, "imageMode": {"imageTopic": topic}});
        self.add("Image", settings)
    }

    fn plot(&mut self, title: &str, curves: Vec<(String, String)>) -> Value {
        let curve = |(path, label): (String, String)| json!({"value": path, "label": label, "enabled": true, "timestampMethod": "receiveTime"});
        let paths: Vec<Value> = curves.into_iter().map(curve).collect();
        let settings = json!({
            "foxglovePanelTitle": title, "paths": paths, "xAxisVal": "timestamp", "isSynced": true,
            "showLegend": true, "legendDisplay": "floating", "followingViewWidth": 30
        });
        self.add("Plot", settings)
    }
}

/// Makes the layout of a configuration, as Foxglove imports it. It has
///
/// - the images of each camera, beside those that the policy sees (the node's parameter `visualize_hz`),
/// - clouds, maps and voxel grids in 3D,
/// - a plot of each topic of joints, one of the tensor's ages and one of its valid shares,
/// - the node's diagnostics.
pub fn layout(config: &Config) -> Value {
    let mut panels = Panels::default();
    let mut images = Vec::new();
    let mut in_3d = Map::new();
    let views = View::all(config).0;
    for id in config.stream_ids() {
        let mut row = Vec::new();
        for input in config.inputs_of(id).map(|input| config.input(input)) {
            let topic = full_name(&input.topic);
            match input.gives() {
                Some(SampleKind::Image | SampleKind::Depth) => row.push(panels.image(&topic)),
                Some(SampleKind::Points | SampleKind::Map) => {
                    in_3d.insert(topic, json!({"visible": true}));
                }
                _ => {}
            }
        }
        if let Some(view) = views.iter().find(|view| view.name == config.stream(id).name) {
            let topic = format!("{}/view/{}", full_name(&config.output_topic), view.name);
            match view.ros_type() {
                "sensor_msgs/msg/Image" => row.push(panels.image(&topic)),
                _ => drop(in_3d.insert(topic, json!({"visible": true}))),
            }
        }
        images.extend(split("row", row));
    }
    let scene = (!in_3d.is_empty()).then(|| {
        let settings = json!({"followTf": config.base_frame, "topics": in_3d});
        panels.add("3D", settings)
    });
    let plots = plots(&mut panels, config);
    let columns = [scene, split("column", images), split("column", plots)];
    json!({
        "layout": split("row", columns.into_iter().flatten().collect()),
        "configById": panels.0,
        "globalVariables": {},
        "userNodes": {},
        "playbackConfig": {"speed": 1}
    })
}

/// Plots of joints and of the diagnostics, and the summary of these.
fn plots(panels: &mut Panels, config: &Config) -> Vec<Value> {
    let joints = config.inputs.iter().filter(|input| !input.is_plan());
    let mut plots: Vec<Value> = joints
        .filter_map(|input| {
            let (joints, curves) = curves(input)?;
            let topic = full_name(&input.topic);
            Some(panels.plot(&format!("{topic}: the first {joints} of the message"), curves))
        })
        .collect();
    for (title, key) in [("ages of the tensor [ms]", "age_ms"), ("valid shares", "valid_share")] {
        let streams = config.streams.iter().map(|spec| &spec.name);
        let curves = streams.map(|name| (diagnostic(name, key), name.clone()));
        plots.push(panels.plot(title, curves.collect()));
    }
    let of_ticks = OF_TICKS.iter().map(|key| (diagnostic("tick", key), (*key).to_owned()));
    plots.push(panels.plot("ticks", of_ticks.collect()));
    let summary = json!({"topicToRender": "/diagnostics", "minLevel": 0});
    plots.push(panels.add("DiagnosticSummary", summary));
    plots
}

/// Number of the joints of an input, and the paths and labels of their curves. `None` if it has none. A message may have
/// more joints, in an order of its own. So a curve is named by its place there.
fn curves(input: &InputSpec) -> Option<(usize, Vec<(String, String)>)> {
    let joints: usize = input.joint_groups()?.iter().map(Vec::len).sum();
    let topic = full_name(&input.topic);
    let of_field =
        |field: &String| (0..joints).map(|at| format!("{field}[{at}]")).collect::<Vec<_>>();
    let labels = input.fields().iter().flat_map(of_field);
    Some((joints, labels.map(|label| (format!("{topic}.{label}"), label)).collect()))
}

/// The path of a value in a status of the node. From the tensors themselves, Foxglove would have to receive each of them.
fn diagnostic(part: &str, key: &str) -> String {
    format!(r#"/diagnostics.status[:]{{name=="{NODE}: {part}"}}.values[:]{{key=="{key}"}}.value"#)
}

/// The full name of a topic, if the node has no namespace.
fn full_name(topic: &str) -> String {
    match topic.strip_prefix('~') {
        Some(private) => format!("{NODE}{private}"),
        None => format!("/{}", topic.trim_start_matches('/')),
    }
}

/// Panels side by side, each as large as the others; `None` if there are none.
fn split(direction: &str, panels: Vec<Value>) -> Option<Value> {
    let mut shares = 1.0;
    panels.into_iter().rev().reduce(|rest, panel| {
        shares += 1.0;
        json!({"direction": direction, "first": panel, "second": rest, "splitPercentage": 100.0 / shares})
    })
}
