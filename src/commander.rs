//! Publishes commands and their status, and switches commands on and off.

use std::sync::{Arc, Mutex};

use r2r::std_srvs::srv::SetBool;

use super::requests::{Offerer, Taken, answer};
use super::shared::SharedStatuses;
use robocache_core::spec::CommandsSpec;
use robocache_link::{Connector, Handed, Switch, found_as_many};
use robocache_ops::sync::lock;
use robocache_rcl::{Node, Publisher, Qos, Service};
use robocache_runtime::{CommandPublisher, Runtime};

/// The topic of the status, before remapping.
pub(crate) const STATUS_TOPIC: &str = "command_status";
/// Type of the messages on it.
const STATUS_TYPE: &str = "robocache_ros/msg/CommandStatus";
/// Statuses that the middleware keeps for a policy that has not taken them yet.
const STATUS_DEPTH: usize = 16;
/// The newest command counts. A controller that is slow loses commands, and holds none up.
const COMMAND_DEPTH: usize = 1;

/// Publishers of a connection for commands and their status.
pub(crate) struct CommandPublishers {
    /// By their order in the configuration.
    groups: Vec<Publisher>,
    status: Publisher,
}

/// The publisher of the command thread.
pub(crate) struct Commander {
    /// `None` at the end alone.
    publishers: Option<Switch<CommandPublishers>>,
    parts: Handed<CommandPublishers>,
    connector: Connector,
    /// `None` if there are no policies without ROS.
    shared: Option<SharedStatuses>,
    /// True if a message could not be published, and the log says so.
    has_failed: bool,
}

/// Switches commands on and off, while the node works and while it does not.
#[derive(Clone, Default)]
pub(crate) struct CommandSwitch(Arc<Mutex<Option<Arc<Runtime>>>>);

impl CommandPublishers {
    /// Makes them.
    ///
    /// # Errors
    /// The middleware refuses.
    pub(crate) fn new(node: &Node, commands: &CommandsSpec) -> robocache_rcl::Result<Self> {
        let groups = commands.groups.iter().map(|group| {
            let output = &group.output;
            node.advertise(&output.topic, output.ros_type, Qos::reliable(COMMAND_DEPTH))
        });
        Ok(CommandPublishers {
            groups: groups.collect::<robocache_rcl::Result<_>>()?,
            status: node.advertise(STATUS_TOPIC, STATUS_TYPE, Qos::reliable(STATUS_DEPTH))?,
        })
    }

    /// How many subscriptions each has found.
    fn audience(&self) -> impl Iterator<Item = usize> {
        let all = self.groups.iter().chain([&self.status]);
        all.map(|publisher| publisher.subscription_count().unwrap_or(0))
    }
}

impl Commander {
    /// Publishes with `current`, and with those of each new connection. Statuses also go to `shared`.
    pub(crate) fn new(
        current: CommandPublishers,
        parts: Handed<CommandPublishers>,
        connector: Connector,
        shared: Option<SharedStatuses>,
    ) -> Self {
        let publishers = Some(Switch::new(current));
        Commander { publishers, parts, connector, shared, has_failed: false }
    }

    fn note(&mut self, outcome: robocache_rcl::Result<()>) {
        if let Err(error) = outcome
            && !std::mem::replace(&mut self.has_failed, true)
        {
            tracing::error!("a command is not published: {error}");
        }
    }
}

impl CommandPublisher for Commander {
    fn send(&mut self, group: usize, message: &[u8]) {
        if let Some(publishers) = &self.publishers {
            let outcome = publishers.current.groups[group].publish(message);
            self.note(outcome);
        }
    }

    fn tell(&mut self, _: usize, message: &[u8]) {
        self.shared.iter_mut().for_each(|shared| shared.send(message));
        if let Some(publishers) = &mut self.publishers {
            let parts = (&self.parts, &self.connector);
            publishers
                .follow(parts, |next, before| found_as_many(next.audience(), before.audience()));
            let outcome = publishers.current.status.publish(message);
            self.note(outcome);
        }
    }

    fn audience(&mut self, group: usize) -> Option<usize> {
        self.publishers.as_ref()?.current.groups.get(group)?.subscription_count().ok()
    }
}

impl Drop for Commander {
    /// Leaves the publishers for the next activation.
    fn drop(&mut self) {
        if let Some(publishers) = self.publishers.take() {
            publishers.end((&self.parts, &self.connector));
        }
    }
}

impl CommandSwitch {
    /// Switches the commands of a runtime from now on, or of none.
    pub(crate) fn set(&self, runtime: Option<Arc<Runtime>>) {
        *lock(&self.0) = runtime;
    }

    /// Enables or disables the commands. Returns what happens, or why nothing does.
    ///
    /// # Errors
    /// The reason, for people.
    pub(crate) fn switch(&self, enables: bool) -> Result<String, String> {
        let Some(runtime) = lock(&self.0).clone() else {
            return Err("the node is not active".to_owned());
        };
        let Some(commands) = &runtime.commands else {
            return Err("the configuration has no commands".to_owned());
        };
        if enables {
            runtime.enable_commands().map_err(|error| error.to_string())?;
            tracing::info!("commands are enabled: they begin with the next chunk of each group");
            return Ok("commands begin with the next chunk of each group".to_owned());
        }
        commands.disable();
        tracing::info!("commands are disabled: each group comes to rest first");
        Ok("each group comes to rest, and sends no commands then".to_owned())
    }
}

/// The service that switches commands on and off.
pub(crate) struct EnableService {
    service: Service<SetBool::Service>,
    switch: CommandSwitch,
}

impl EnableService {
    /// Offers it.
    ///
    /// # Errors
    /// The middleware refuses.
    pub(crate) fn new(offerer: Offerer<'_>, switch: CommandSwitch) -> robocache_rcl::Result<Self> {
        Ok(EnableService { service: offerer.offer("enable_commands")?, switch })
    }

    /// Answers one request, if one waits.
    pub(crate) fn serve(&self, taken: &mut Taken) {
        answer(&self.service, taken, |request: SetBool::Request| {
            let done = self.switch.switch(request.data);
            let (success, message) = match done {
                Ok(message) => (true, message),
                Err(message) => (false, message),
            };
            SetBool::Response { success, message }
        });
    }

    /// How many clients it has found.
    pub(crate) fn audience(&self) -> usize {
        self.service.client_count().unwrap_or_default()
    }
}
