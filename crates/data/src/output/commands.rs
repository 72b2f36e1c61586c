//! The tables of commands: per group a row for each command tick, and a row for each chunk that a command tick has found.

use serde_json::json;

use crate::commands::{MadeCommand, TakenChunk};
use crate::file::OutputError;
use crate::store::{Column, Element, PartWriter, Table};
use robocache_core::command::{Refusal, Stage};
use robocache_core::spec::{CommandsSpec, GroupSpec};
use robocache_ops::time::Stamp;

/// Tables of a group.
const TABLES: usize = 2;
/// The folder of the tables of commands, and that of the tables of chunks.
pub const COMMANDS: &str = "commands";
/// See [`COMMANDS`].
pub const CHUNKS: &str = "chunks";

/// The columns of a command.
const COMMAND_COLUMNS: [(&str, Element); 11] = [
    ("tick", Element::Int64),
    ("stamp_ns", Element::Int64),
    ("recorded_ns", Element::Int64),
    ("epoch", Element::Int64),
    ("sent", Element::Bool),
    ("values", Element::Float64),
    ("clipped", Element::Bool),
    ("stage", Element::Uint8),
    ("starts", Element::Bool),
    ("turns", Element::Bool),
    ("chunk", Element::Int64),
];

/// The columns of a chunk.
const CHUNK_COLUMNS: [(&str, Element); 15] = [
    ("number", Element::Int64),
    ("tick", Element::Int64),
    ("stamp_ns", Element::Int64),
    ("found_tick", Element::Int64),
    ("found_ns", Element::Int64),
    ("recorded_ns", Element::Int64),
    ("epoch", Element::Int64),
    ("sequence", Element::Uint64),
    ("writer", Element::Uint64),
    ("rows", Element::Uint32),
    ("values", Element::Float32),
    ("reference", Element::Float32),
    ("plan", Element::Float64),
    ("refused", Element::Uint8),
    ("rows_late", Element::Uint32),
];

/// Writes the tables of commands into a part.
pub(super) struct CommandTables {
    /// Number of the first table.
    first: usize,
    /// Per group: its rows and its joints.
    sizes: Vec<[usize; 2]>,
}

impl CommandTables {
    /// Adds the tables of a configuration behind these. They depend on the configuration alone, so that all episodes of a
    /// store have the same ones.
    pub(super) fn add(spec: Option<&CommandsSpec>, tables: &mut Vec<Table>) -> Self {
        let first = tables.len();
        let mut sizes = Vec::new();
        for group in spec.iter().flat_map(|spec| &spec.groups) {
            sizes.push([group.offsets_ns.len(), group.joints.len()]);
            let rate_hz = spec.map(|spec| spec.rate_hz);
            tables.extend([commands(group, rate_hz), chunks(group)]);
        }
        CommandTables { first, sizes }
    }

    /// Writes a group's command.
    pub(super) fn command(
        &self,
        writer: &PartWriter,
        command: &MadeCommand<'_>,
        at: Stamp,
    ) -> Result<(), OutputError> {
        let MadeCommand { at: tick, made, .. } = command;
        let mut row = writer.row(self.first + TABLES * command.group);
        let numbers = [tick.tick, tick.stamp.nanos(), at.nanos(), tick.epoch as i64];
        for (column, number) in numbers.into_iter().enumerate() {
            row.put(column, &number.to_le_bytes())?;
        }
        row.put(4, &[u8::from(made.sends)])?;
        // What was not sent is no command.
        let value = |value: &f64| if made.sends { *value } else { f64::NAN };
        let values = command.values.iter().flat_map(|of| value(of).to_le_bytes());
        row.put(5, &values.collect::<Vec<u8>>())?;
        let clipped = command.clipped.iter().map(|is| u8::from(*is && made.sends));
        row.put(6, &clipped.collect::<Vec<u8>>())?;
        row.put(7, &[made.stage as u8])?;
        row.put(8, &[u8::from(made.starts)])?;
        row.put(9, &[u8::from(made.turns)])?;
        let newest = command.newest.map_or(-1, |number| number as i64);
        row.put(10, &newest.to_le_bytes())?;
        row.end();
        Ok(())
    }

    /// Writes a chunk, if it is of a group.
    pub(super) fn chunk(
        &self,
        writer: &PartWriter,
        taken: &TakenChunk<'_>,
        at: Stamp,
    ) -> Result<(), OutputError> {
        let (Some(group), Some(chunk)) = (taken.group, taken.chunk) else { return Ok(()) };
        let [rows, joints] = self.sizes[group];
        let mut row = writer.row(self.first + TABLES * group + 1);
        let numbers = [
            taken.number as i64,
            chunk.tick,
            chunk.stamp.nanos(),
            taken.at.tick,
            taken.at.stamp.nanos(),
            at.nanos(),
            taken.at.epoch as i64,
        ];
        for (column, number) in numbers.into_iter().enumerate() {
            row.put(column, &number.to_le_bytes())?;
        }
        row.put(7, &chunk.sequence.to_le_bytes())?;
        row.put(8, &taken.writer.to_le_bytes())?;
        row.put(9, &(chunk.rows as u32).to_le_bytes())?;
        // Values of another shape have no place.
        let fits = chunk.rows.checked_mul(joints) == Some(chunk.values.len()) && chunk.rows <= rows;
        let values = chunk.values.iter().filter(|_| fits);
        row.put(10, &filled(values, rows * joints))?;
        let reference = chunk.reference.iter().filter(|_| chunk.reference.len() == joints);
        row.put(11, &filled(reference, joints))?;
        let plan = taken.rows.1.iter().copied().chain(std::iter::repeat(f64::NAN));
        let plan = plan.take(rows * joints).flat_map(f64::to_le_bytes);
        row.put(12, &plan.collect::<Vec<u8>>())?;
        let refused = taken.outcome.err().map_or(0, |refusal| refusal as u8 + 1);
        row.put(13, &[refused])?;
        row.put(14, &(taken.rows_late as u32).to_le_bytes())?;
        row.end();
        Ok(())
    }
}

/// So many values, with NaN for those that are missing.
fn filled(values: impl Iterator<Item = f32>, len: usize) -> Vec<u8> {
    let values = values.chain(std::iter::repeat(f32::NAN)).take(len);
    values.flat_map(f32::to_le_bytes).collect()
}

/// The table of the commands of a group.
fn commands(group: &GroupSpec, rate_hz: Option<f64>) -> Table {
    let joints = ("joint".to_owned(), group.joints.len());
    let column = |(name, element): (&str, Element)| {
        let rest: &[_] = match name {
            "values" | "clipped" => std::slice::from_ref(&joints),
            _ => &[],
        };
        (name.to_owned(), element, rest.to_vec())
    };
    let mut table =
        table(&format!("{COMMANDS}/{}", group.name), "command", COMMAND_COLUMNS.map(column));
    let names: Vec<&str> = group.joints.iter().map(|joint| joint.name.as_str()).collect();
    let angular = group.joints.iter().filter(|joint| joint.angular);
    let angular: Vec<&str> = angular.map(|joint| joint.name.as_str()).collect();
    let about = json!({
        "name": group.name,
        "joints": names,
        "angular": angular,
        "interface": group.interface,
        "rate_hz": rate_hz,
        "topic": group.output.topic,
        "type": group.output.ros_type,
    });
    let stages = json!(Stage::ALL.map(Stage::word));
    table.columns[5].attributes.insert("group".into(), about);
    table.columns[7].attributes.insert("stages".into(), stages);
    table
}

/// The table of the chunks of a group.
fn chunks(group: &GroupSpec) -> Table {
    let joints = ("joint".to_owned(), group.joints.len());
    let rows = ("row".to_owned(), group.offsets_ns.len());
    let column = |(name, element): (&str, Element)| {
        let rest = match name {
            "values" | "plan" => vec![rows.clone(), joints.clone()],
            "reference" => vec![joints.clone()],
            _ => Vec::new(),
        };
        (name.to_owned(), element, rest)
    };
    let mut table = table(&format!("{CHUNKS}/{}", group.name), "chunk", CHUNK_COLUMNS.map(column));
    let names: Vec<&str> = group.joints.iter().map(|joint| joint.name.as_str()).collect();
    let about = json!({ "name": group.name, "joints": names, "offsets_ns": group.offsets_ns });
    let reasons = std::iter::once("").chain(Refusal::ALL.map(Refusal::word));
    let reasons = json!(reasons.collect::<Vec<_>>());
    table.columns[12].attributes.insert("group".into(), about);
    table.columns[13].attributes.insert("reasons".into(), reasons);
    table
}

/// A table in a folder, whose rows are along this dimension.
fn table(
    folder: &str,
    along: &str,
    columns: impl IntoIterator<Item = (String, Element, Vec<(String, usize)>)>,
) -> Table {
    let column = |(name, element, rest): (String, Element, Vec<(String, usize)>)| {
        Column::new(format!("{folder}/{name}"), element, along, &rest)
    };
    Table {
        columns: columns.into_iter().map(column).collect(),
        ends: format!("{folder}/episode_ends"),
        begins: Some(format!("{folder}/episode_begins")),
        sorted_by: None,
    }
}
