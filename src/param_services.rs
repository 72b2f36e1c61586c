//! The parameter services, so that `ros2 param` works: the six that every ROS node has.

use std::sync::Arc;

use r2r::ParameterValue;
use r2r::rcl_interfaces::msg::{
    ListParametersResult, Parameter as ParameterMessage, ParameterDescriptor, ParameterEvent,
    ParameterValue as ValueMessage, SetParametersResult,
};
use r2r::rcl_interfaces::srv::{
    DescribeParameters, GetParameterTypes, GetParameters, ListParameters, SetParameters,
    SetParametersAtomically,
};

use super::diagnostics::time_message;
use super::error::NodeError;
use super::param_store::ParameterStore;
use super::params::Declared;
use super::requests::{Offerer, Taken, answer};
use robocache_rcl::{MessagePublisher, Qos, Service};
use robocache_runtime::TimeSource;

/// Changes that the middleware keeps for a subscriber that is slow: as every ROS node does.
const EVENTS: usize = 1000;

/// The services and the parameters they show.
pub(crate) struct ParameterServices {
    store: Arc<ParameterStore>,
    /// Publisher by which this connection tells changes.
    pub changes: Arc<Changes>,
    get: Service<GetParameters::Service>,
    types: Service<GetParameterTypes::Service>,
    list: Service<ListParameters::Service>,
    describe: Service<DescribeParameters::Service>,
    set: Service<SetParameters::Service>,
    set_atomically: Service<SetParametersAtomically::Service>,
}

/// Publishes the changes of parameters.
pub(crate) struct Changes {
    /// The node's fully qualified name.
    node: String,
    /// `None` if no parameter changes.
    events: Option<MessagePublisher<ParameterEvent>>,
    time: TimeSource,
}

impl ParameterServices {
    /// Advertises the services under the node's name. If a parameter may change, also advertises `/parameter_events`.
    pub(crate) fn new(
        offerer: Offerer<'_>,
        store: Arc<ParameterStore>,
        time: TimeSource,
    ) -> Result<Self, NodeError> {
        let node = offerer.node;
        let advertise = || node.advertise_message("/parameter_events", Qos::reliable(EVENTS));
        let events = store.may_change().then(advertise).transpose()?;
        Ok(ParameterServices {
            store,
            changes: Arc::new(Changes { node: node.fully_qualified_name(), events, time }),
            get: offerer.offer("get_parameters")?,
            types: offerer.offer("get_parameter_types")?,
            list: offerer.offer("list_parameters")?,
            describe: offerer.offer("describe_parameters")?,
            set: offerer.offer("set_parameters")?,
            set_atomically: offerer.offer("set_parameters_atomically")?,
        })
    }

    /// How many clients of each service, and subscribers to changes, this connection has found.
    pub(crate) fn audience(&self) -> [usize; 7] {
        let events = self.changes.events.as_ref();
        [
            self.get.client_count(),
            self.types.client_count(),
            self.list.client_count(),
            self.describe.client_count(),
            self.set.client_count(),
            self.set_atomically.client_count(),
            events.map_or(Ok(0), |events| events.publisher().subscription_count()),
        ]
        .map(Result::unwrap_or_default)
    }

    /// Answers one request of each service. Other requests are left for the next call. Tells changes by `changes`.
    pub(crate) fn serve(&self, taken: &mut Taken, changes: &Changes) {
        let declared = &self.store.declared();
        let find = |name: &String| declared.iter().find(|d| d.name == name);
        let describe = |name: &String| describe(name, find(name), self.store.is_fixed(name));
        answer(&self.get, taken, |request| GetParameters::Response {
            values: request.names.iter().map(|n| message_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(&self.types, taken, |request| GetParameterTypes::Response {
            types: request.names.iter().map(|n| type_of(find(n).map(|d| &d.value))).collect(),
        });
        answer(&self.list, taken, |request| ListParameters::Response {
            result: ListParametersResult { names: list(declared, &request), prefixes: vec![] },
        });
        answer(&self.describe, taken, |request| DescribeParameters::Response {
            descriptors: request.names.iter().map(describe).collect(),
        });
        let set = |parameters| self.set(parameters, changes);
        answer(&self.set, taken, |request| SetParameters::Response {
            results: request.parameters.into_iter().map(|one| set(vec![one])).collect(),
        });
        answer(&self.set_atomically, taken, |request| SetParametersAtomically::Response {
            result: set(request.parameters),
        });
    }

    /// Sets all of these parameters, or none, and tells it.
    fn set(&self, parameters: Vec<ParameterMessage>, changes: &Changes) -> SetParametersResult {
        let given: Vec<_> = parameters.into_iter().map(|p| (p.name, value_of(p.value))).collect();
        match self.store.set(&given) {
            Ok(changed) => {
                changes.tell(changed);
                SetParametersResult { successful: true, reason: String::new() }
            }
            Err(reason) => SetParametersResult { successful: false, reason },
        }
    }
}

impl Changes {
    /// Publishes the new values of parameters.
    fn tell(&self, changed: Vec<Declared>) {
        let Some(events) = &self.events else { return };
        let message = |declared: Declared| ParameterMessage {
            name: declared.name.to_owned(),
            value: message_of(Some(&declared.value)),
        };
        let event = ParameterEvent {
            stamp: time_message(self.time.system()),
            node: self.node.clone(),
            changed_parameters: changed.into_iter().map(message).collect(),
            ..ParameterEvent::default()
        };
        if let Err(error) = events.publish(&event) {
            tracing::debug!("failed to publish the changed parameters: {error}");
        }
    }
}

/// Returns the names below the requested prefixes, or all names. No name of this node has a
/// separator, so the requested depth excludes none.
fn list(declared: &[Declared], request: &ListParameters::Request) -> Vec<String> {
    let prefixes = &request.prefixes;
    let asked = |name: &str| prefixes.is_empty() || prefixes.iter().any(|p| p == name);
    declared.iter().map(|d| d.name).filter(|n| asked(n)).map(str::to_owned).collect()
}

fn describe(name: &str, declared: Option<&Declared>, is_fixed: bool) -> ParameterDescriptor {
    ParameterDescriptor {
        name: name.to_owned(),
        type_: type_of(declared.map(|d| &d.value)),
        description: declared.map_or(String::new(), |d| d.description.to_owned()),
        read_only: declared.is_some() && is_fixed,
        ..Default::default()
    }
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
        Some(ParameterValue::StringArray(_)) => 9,
        _ => 0,
    }
}

/// A value as people write it.
pub(crate) fn in_words(value: &ParameterValue) -> String {
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
        Some(ParameterValue::StringArray(v)) => message.string_array_value.clone_from(v),
        _ => {}
    }
    message
}

/// The value of a message, for all types of ROS: those that this node does not declare are refused by their names.
fn value_of(message: ValueMessage) -> ParameterValue {
    match message.type_ {
        1 => ParameterValue::Bool(message.bool_value),
        2 => ParameterValue::Integer(message.integer_value),
        3 => ParameterValue::Double(message.double_value),
        4 => ParameterValue::String(message.string_value),
        5 => ParameterValue::ByteArray(message.byte_array_value),
        6 => ParameterValue::BoolArray(message.bool_array_value),
        7 => ParameterValue::IntegerArray(message.integer_array_value),
        8 => ParameterValue::DoubleArray(message.double_array_value),
        9 => ParameterValue::StringArray(message.string_array_value),
        _ => ParameterValue::NotSet,
    }
}
