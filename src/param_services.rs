//! The parameter services, so that `ros2 param` works.
//!
//! The spin thread serves the six services that every ROS node has. All parameters are read-only.

use r2r::rcl_interfaces::msg::{
    ListParametersResult, ParameterDescriptor, ParameterValue as ValueMessage, SetParametersResult,
};
use r2r::rcl_interfaces::srv::{
    DescribeParameters, GetParameterTypes, GetParameters, ListParameters, SetParameters,
    SetParametersAtomically,
};
use r2r::{ParameterValue, WrappedServiceTypeSupport};

use super::error::NodeError;
use super::params::Declared;
use robocache_rcl::{self, Node, Service, Waitable};

const READ_ONLY: &str = "read-only: set it at start (--ros-args -p NAME:=VALUE) and restart";

/// The services and the parameters they show.
pub struct ParameterServices {
    declared: Vec<Declared>,
    get: Service<GetParameters::Service>,
    types: Service<GetParameterTypes::Service>,
    list: Service<ListParameters::Service>,
    describe: Service<DescribeParameters::Service>,
    set: Service<SetParameters::Service>,
    set_atomically: Service<SetParametersAtomically::Service>,
}

impl ParameterServices {
    /// Advertises the services under the node's name.
    pub fn new(node: &Node, declared: Vec<Declared>) -> Result<Self, NodeError> {
        Ok(ParameterServices {
            declared,
            get: offer(node, "get_parameters")?,
            types: offer(node, "get_parameter_types")?,
            list: offer(node, "list_parameters")?,
            describe: offer(node, "describe_parameters")?,
            set: offer(node, "set_parameters")?,
            set_atomically: offer(node, "set_parameters_atomically")?,
        })
    }

    /// Returns the services for a wait.
    pub fn waitables(&self) -> [Waitable<'_>; 6] {
        [
            (&self.get).into(),
            (&self.types).into(),
            (&self.list).into(),
            (&self.describe).into(),
            (&self.set).into(),
            (&self.set_atomically).into(),
        ]
    }

    /// Answers one request of each service that is ready. `ready` takes the service's place in
    /// [`ParameterServices::waitables`]. Other requests are left for the next wait, so that many
    /// requests do not delay the messages.
    pub fn serve(&self, ready: impl Fn(usize) -> bool) {
        let declared = &self.declared;
        let find = |name: &String| declared.iter().find(|d| d.name == name);
        answer(ready(0), &self.get, |request| GetParameters::Response {
            values: request.names.iter().map(|n| message_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(ready(1), &self.types, |request| GetParameterTypes::Response {
            types: request.names.iter().map(|n| type_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(ready(2), &self.list, |request| ListParameters::Response {
            result: ListParametersResult { names: list(declared, &request), prefixes: vec![] },
        });
        answer(ready(3), &self.describe, |request| DescribeParameters::Response {
            descriptors: request.names.iter().map(|n| describe(n, find(n))).collect(),
        });
        answer(ready(4), &self.set, |request| SetParameters::Response {
            results: request.parameters.iter().map(|p| refuse(find(&p.name))).collect(),
        });
        answer(ready(5), &self.set_atomically, |request| SetParametersAtomically::Response {
            result: refuse(request.parameters.first().and_then(|p| find(&p.name))),
        });
    }
}

fn offer<T: WrappedServiceTypeSupport>(
    node: &Node,
    name: &str,
) -> robocache_rcl::Result<Service<T>> {
    node.serve(&format!("~/{name}"))
}

fn answer<T: WrappedServiceTypeSupport>(
    ready: bool,
    service: &Service<T>,
    reply: impl Fn(T::Request) -> T::Response,
) {
    if !ready {
        return;
    }
    let answered = service.take_request().and_then(|request| match request {
        Some((id, request)) => service.respond(id, &reply(request)),
        None => Ok(()),
    });
    // The client may have ended by now, so this is no fault of the node.
    if let Err(error) = answered {
        tracing::debug!("failed to answer a parameter request: {error}");
    }
}

/// Returns the names below the requested prefixes, or all names. No name of this node has a
/// separator, so the requested depth excludes none.
fn list(declared: &[Declared], request: &ListParameters::Request) -> Vec<String> {
    let prefixes = &request.prefixes;
    let asked = |name: &str| prefixes.is_empty() || prefixes.iter().any(|p| p == name);
    declared.iter().map(|d| d.name).filter(|n| asked(n)).map(str::to_owned).collect()
}

fn describe(name: &str, declared: Option<&Declared>) -> ParameterDescriptor {
    ParameterDescriptor {
        name: name.to_owned(),
        type_: type_of(declared.map(|d| &d.value)),
        description: declared.map_or(String::new(), |d| d.description.to_owned()),
        read_only: declared.is_some(),
        ..Default::default()
    }
}

fn refuse(declared: Option<&Declared>) -> SetParametersResult {
    let reason = if declared.is_some() { READ_ONLY } else { "not a parameter of this node" };
    SetParametersResult { successful: false, reason: reason.to_owned() }
}

/// Returns the constant of `rcl_interfaces/msg/ParameterType`, for the types that this node
/// declares.
fn type_of(value: Option<&ParameterValue>) -> u8 {
    match value {
        Some(ParameterValue::Bool(_)) => 1,
        Some(ParameterValue::Integer(_)) => 2,
        Some(ParameterValue::Double(_)) => 3,
        Some(ParameterValue::String(_)) => 4,
        Some(ParameterValue::IntegerArray(_)) => 7,
        _ => 0,
    }
}

/// A value as people write it.
pub fn in_words(value: &ParameterValue) -> String {
    match value {
        ParameterValue::Bool(v) => v.to_string(),
        ParameterValue::Integer(v) => v.to_string(),
        ParameterValue::Double(v) => v.to_string(),
        ParameterValue::String(v) => v.clone(),
        other => format!("{other:?}"),
    }
}

fn message_of(value: Option<&ParameterValue>) -> ValueMessage {
    let mut message = ValueMessage { type_: type_of(value), ..Default::default() };
    match value {
        Some(ParameterValue::Bool(v)) => message.bool_value = *v,
        Some(ParameterValue::Integer(v)) => message.integer_value = *v,
        Some(ParameterValue::Double(v)) => message.double_value = *v,
        Some(ParameterValue::String(v)) => message.string_value.clone_from(v),
        Some(ParameterValue::IntegerArray(v)) => message.integer_array_value.clone_from(v),
        _ => {}
    }
    message
}
