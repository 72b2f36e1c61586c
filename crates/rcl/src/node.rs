//! A node: its names, its parameter overrides, and its view of the graph.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use r2r::{WrappedServiceTypeSupport, WrappedTypesupport};
use r2r_rcl::*;

use super::error::{c_string, check, ignore, text};
use super::node_inner::NodeInner;
use super::raw::Raw;
use super::subscription::Flow;
use super::type_support::TypeSupport;
use super::{
    Context, Gid, GraphChanges, MessagePublisher, NamedService, Publisher, Qos, Result, Service,
    Subscription,
};

/// A node. It ends with the last of its entities.
#[derive(Clone)]
pub struct Node {
    inner: Arc<NodeInner>,
}

/// The names that the graph gives to a node that it does not know yet, and to a program without ROS.
const NOT_NAMED: [&str; 2] = ["_NODE_NAME_UNKNOWN_", "_CREATED_BY_BARE_DDS_APP_"];

/// A publisher that the graph shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublisherInfo {
    /// The full name of its node; `None` if the graph does not know it (yet).
    pub node: Option<String>,
    /// The type that it publishes, as `package/msg/Type`.
    pub ros_type: String,
    /// True if the publisher offers reliable delivery.
    pub reliable: bool,
    /// True if the publisher keeps messages for later subscriptions.
    pub transient_local: bool,
    /// The identity that its messages carry in their [`MessageInfo`](super::MessageInfo).
    pub gid: Gid,
}

impl Node {
    /// Creates a node. Remaps of `__node` and `__ns` replace the given names. The node has no
    /// `/rosout` publisher; the caller makes one if it logs there.
    pub fn new(context: &Context, name: &str, namespace: &str) -> Result<Self> {
        let operation = || format!("create the node {name}");
        let c_name = c_string("the node", name)?;
        let c_namespace = c_string("the namespace", namespace)?;
        // SAFETY: the context is initialised and outlives the node; the names live during the call;
        // rcl copies the options.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_node());
            let mut options = rcl_node_get_default_options();
            options.enable_rosout = false;
            let context = context.inner.get();
            let name = c_name.as_ptr();
            let namespace = c_namespace.as_ptr();
            check(rcl_node_init(raw.get(), name, namespace, context, &options), operation)?;
            raw
        };
        let changing = Mutex::new(());
        let context = Arc::clone(&context.inner);
        Ok(Node { inner: Arc::new(NodeInner { raw, changing, context }) })
    }

    /// The context of the node.
    pub fn context(&self) -> Context {
        Context { inner: Arc::clone(&self.inner.context) }
    }

    /// The name after remapping, without the namespace.
    pub fn name(&self) -> String {
        self.inner.name_by(rcl_node_get_name)
    }

    /// The namespace after remapping.
    pub fn namespace(&self) -> String {
        self.inner.name_by(rcl_node_get_namespace)
    }

    /// Namespace and name.
    pub fn fully_qualified_name(&self) -> String {
        self.inner.name_by(rcl_node_get_fully_qualified_name)
    }

    /// The name under which the node logs.
    pub fn logger_name(&self) -> String {
        self.inner.name_by(rcl_node_get_logger_name)
    }

    /// Returns the full name of a topic, expanded and remapped. rcl subscribes and publishes under
    /// it.
    pub fn resolve_topic(&self, topic: &str) -> Result<String> {
        let c_topic = c_string("the topic", topic)?;
        let mut resolved: *mut c_char = std::ptr::null_mut();
        let _changing = self.inner.lock();
        // SAFETY: the node is initialised; rcl allocates the answer with the allocator that frees
        // it.
        unsafe {
            let allocator = rcutils_get_default_allocator();
            let ret = rcl_node_resolve_name(
                self.inner.get(),
                c_topic.as_ptr(),
                allocator,
                false,
                false,
                &mut resolved,
            );
            check(ret, || format!("resolve the topic {topic}"))?;
            let name = text(resolved);
            if let Some(deallocate) = allocator.deallocate {
                deallocate(resolved.cast::<c_void>(), allocator.state);
            }
            Ok(name)
        }
    }

    /// Returns the publishers of a topic that discovery has found. `topic` is the full name.
    pub fn publishers_of(&self, topic: &str) -> Result<Vec<PublisherInfo>> {
        let c_topic = c_string("the topic", topic)?;
        let _changing = self.inner.lock();
        // SAFETY: the node is initialised; rcl fills the array, which is read and then ended.
        unsafe {
            let mut allocator = rcutils_get_default_allocator();
            let mut array = rmw_get_zero_initialized_topic_endpoint_info_array();
            let ret = rcl_get_publishers_info_by_topic(
                self.inner.get(),
                &mut allocator,
                c_topic.as_ptr(),
                false,
                &mut array,
            );
            let outcome = check(ret, || format!("list the publishers of {topic}"));
            let publishers = match array.info_array.is_null() || outcome.is_err() {
                true => Vec::new(),
                false => std::slice::from_raw_parts(array.info_array, array.size)
                    .iter()
                    .map(|info| publisher_info(info))
                    .collect(),
            };
            ignore(rmw_topic_endpoint_info_array_fini(&mut array, &mut allocator));
            outcome.map(|()| publishers)
        }
    }

    /// Returns the topics that discovery has found, each with a type of its messages, as `package/msg/Type`. A topic with
    /// several types is there with each.
    pub fn topics(&self) -> Result<Vec<(String, String)>> {
        let _changing = self.inner.lock();
        // SAFETY: the node is initialised; rcl fills the names and as many lists of types, which are read and then ended.
        unsafe {
            let mut allocator = rcutils_get_default_allocator();
            let mut found = rmw_get_zero_initialized_names_and_types();
            let ret =
                rcl_get_topic_names_and_types(self.inner.get(), &mut allocator, false, &mut found);
            let outcome = check(ret, || "list the topics".to_owned());
            let mut topics = Vec::new();
            if outcome.is_ok() && !found.names.data.is_null() && !found.types.is_null() {
                let names = std::slice::from_raw_parts(found.names.data, found.names.size);
                let types = std::slice::from_raw_parts(found.types, found.names.size);
                for (name, types) in names.iter().zip(types).filter(|(_, t)| !t.data.is_null()) {
                    let types = std::slice::from_raw_parts(types.data, types.size);
                    topics.extend(types.iter().map(|of| (text(*name), text(*of))));
                }
            }
            ignore(rmw_names_and_types_fini(&mut found));
            outcome.map(|()| topics)
        }
    }

    /// Watches the graph that the node sees.
    pub fn graph_changes(&self) -> Result<GraphChanges> {
        GraphChanges::new(&self.inner)
    }

    /// Counts the subscriptions of a topic. `topic` is the full name.
    pub fn count_subscriptions(&self, topic: &str) -> Result<usize> {
        let c_topic = c_string("the topic", topic)?;
        let mut count = 0;
        let _changing = self.inner.lock();
        // SAFETY: the node is initialised; the name lives during the call.
        let ret = unsafe { rcl_count_subscribers(self.inner.get(), c_topic.as_ptr(), &mut count) };
        check(ret, || format!("count the subscriptions of {topic}")).map(|()| count)
    }

    /// Subscribes to a topic of any installed type, such as `sensor_msgs/msg/Image`.
    pub fn subscribe(&self, topic: &str, ros_type: &str, qos: Qos) -> Result<Subscription> {
        Subscription::new(&self.inner, topic, TypeSupport::load(ros_type)?, qos, Flow::Shared)
    }

    /// As [`Node::subscribe`], with a thread and ports of its own inside the middleware, if that can
    /// give them. Large messages of this subscription and those of others then do not wait for each
    /// other.
    pub fn subscribe_apart(&self, topic: &str, ros_type: &str, qos: Qos) -> Result<Subscription> {
        Subscription::new(&self.inner, topic, TypeSupport::load(ros_type)?, qos, Flow::Own)
    }

    /// Makes a publisher of serialized messages of any installed type.
    pub fn advertise(&self, topic: &str, ros_type: &str, qos: Qos) -> Result<Publisher> {
        Publisher::new(&self.inner, topic, TypeSupport::load(ros_type)?, qos)
    }

    /// Makes a publisher of a generated message type.
    pub fn advertise_message<T: WrappedTypesupport>(
        &self,
        topic: &str,
        qos: Qos,
    ) -> Result<MessagePublisher<T>> {
        let publisher = Publisher::new(&self.inner, topic, TypeSupport::linked(T::get_ts()), qos)?;
        Ok(MessagePublisher::new(publisher))
    }

    /// Offers a generated service.
    pub fn serve<T: WrappedServiceTypeSupport>(&self, name: &str) -> Result<Service<T>> {
        Service::new(&self.inner, name)
    }

    /// Offers a service of any installed type, such as `std_srvs/srv/SetBool`.
    pub fn serve_named(&self, name: &str, ros_type: &str) -> Result<NamedService> {
        NamedService::new(&self.inner, name, ros_type)
    }
}

impl Subscription {
    /// The node that it belongs to.
    pub fn node(&self) -> Node {
        Node { inner: Arc::clone(self.node_inner()) }
    }
}

/// # Safety
/// The texts of `info` are null or NUL-terminated.
unsafe fn publisher_info(info: &rmw_topic_endpoint_info_t) -> PublisherInfo {
    // SAFETY: the caller guarantees it.
    let (namespace, name, ros_type) =
        unsafe { (text(info.node_namespace), text(info.node_name), text(info.topic_type)) };
    PublisherInfo {
        node: (!NOT_NAMED.contains(&name.as_str()))
            .then(|| format!("{}/{name}", namespace.trim_end_matches('/'))),
        ros_type,
        reliable: info.qos_profile.reliability
            == rmw_qos_reliability_policy_e::RMW_QOS_POLICY_RELIABILITY_RELIABLE,
        transient_local: info.qos_profile.durability
            == rmw_qos_durability_policy_e::RMW_QOS_POLICY_DURABILITY_TRANSIENT_LOCAL,
        gid: Gid(info.endpoint_gid),
    }
}
