//! The parameter services, so that `ros2 param` works.
//!
//! r2r's own handler panics where a reply cannot be sent, accepts undeclared names and describes
//! nothing as read-only. These are the same six services on the spin thread, without that.

use std::pin::Pin;

use futures::{FutureExt, Stream, StreamExt};
use r2r::rcl_interfaces::msg::{
    ListParametersResult, ParameterDescriptor, ParameterValue as ValueMessage, SetParametersResult,
};
use r2r::rcl_interfaces::srv::{
    DescribeParameters, GetParameterTypes, GetParameters, ListParameters, SetParameters,
    SetParametersAtomically,
};
use r2r::{Node, ParameterValue, QosProfile, ServiceRequest, WrappedServiceTypeSupport};

use super::error::{NodeError, RosContext};
use super::params::Declared;

const READ_ONLY: &str = "read-only: set it at start (--ros-args -p NAME:=VALUE) and restart";

type Requests<T> = Pin<Box<dyn Stream<Item = ServiceRequest<T>> + Send>>;

/// The services and the parameters they show.
pub struct ParameterServices {
    declared: Vec<Declared>,
    get: Requests<GetParameters::Service>,
    types: Requests<GetParameterTypes::Service>,
    list: Requests<ListParameters::Service>,
    describe: Requests<DescribeParameters::Service>,
    set: Requests<SetParameters::Service>,
    set_atomically: Requests<SetParametersAtomically::Service>,
}

impl ParameterServices {
    /// Offers the services under the node's name.
    pub fn new(node: &mut Node, declared: Vec<Declared>) -> Result<Self, NodeError> {
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

    /// Answers the requests that the last spin took.
    pub fn serve(&mut self) {
        let declared = &self.declared;
        let find = |name: &String| declared.iter().find(|d| d.name == name);
        answer(&mut self.get, |request| GetParameters::Response {
            values: request.names.iter().map(|n| message_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(&mut self.types, |request| GetParameterTypes::Response {
            types: request.names.iter().map(|n| type_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(&mut self.list, |request| ListParameters::Response {
            result: ListParametersResult { names: list(declared, &request), prefixes: vec![] },
        });
        answer(&mut self.describe, |request| DescribeParameters::Response {
            descriptors: request.names.iter().map(|n| describe(n, find(n))).collect(),
        });
        answer(&mut self.set, |request| SetParameters::Response {
            results: request.parameters.iter().map(|p| refuse(find(&p.name))).collect(),
        });
        answer(&mut self.set_atomically, |request| SetParametersAtomically::Response {
            result: refuse(request.parameters.first().and_then(|p| find(&p.name))),
        });
    }
}

fn offer<T>(node: &mut Node, name: &str) -> Result<Requests<T>, NodeError>
where
    T: WrappedServiceTypeSupport + 'static,
    T::Request: Send,
{
    let requests = node
        .create_service::<T>(&format!("~/{name}"), QosProfile::services_default())
        .during(|| format!("create service ~/{name}"))?;
    Ok(Box::pin(requests))
}

fn answer<T>(requests: &mut Requests<T>, reply: impl Fn(T::Request) -> T::Response)
where
    T: WrappedServiceTypeSupport + 'static,
    T::Request: Clone,
{
    while let Some(Some(request)) = requests.next().now_or_never() {
        let response = reply(request.message.clone());
        // The client may be gone by now; that is its affair.
        if let Err(error) = request.respond(response) {
            tracing::debug!("a parameter request could not be answered: {error}");
        }
    }
}

/// The names below the asked prefixes, or all of them. None of ours has a separator, so the asked
/// depth never excludes one.
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

/// The constants of `rcl_interfaces/msg/ParameterType`; only the types that we declare.
fn type_of(value: Option<&ParameterValue>) -> u8 {
    match value {
        Some(ParameterValue::Bool(_)) => 1,
        Some(ParameterValue::Integer(_)) => 2,
        Some(ParameterValue::Double(_)) => 3,
        Some(ParameterValue::String(_)) => 4,
        _ => 0,
    }
}

fn message_of(value: Option<&ParameterValue>) -> ValueMessage {
    let mut message = ValueMessage { type_: type_of(value), ..Default::default() };
    match value {
        Some(ParameterValue::Bool(v)) => message.bool_value = *v,
        Some(ParameterValue::Integer(v)) => message.integer_value = *v,
        Some(ParameterValue::Double(v)) => message.double_value = *v,
        Some(ParameterValue::String(v)) => message.string_value.clone_from(v),
        _ => {}
    }
    message
}
