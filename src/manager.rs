//! Takes the node from one state to the next: the work of each transition, and what follows an error.
//!
//! A node that is not managed goes through the same two steps at its start: it is configured, and it is activated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use super::active::Active;
use super::base::{Base, BaseThreads, Parameters, logged};
use super::configured::Configured;
use super::error::NodeError;
use super::lifecycle::{BegunTransition, Lifecycle, LifecycleState, Verdict};
use super::params::{self, Settings};
use super::recording::Recording;
use super::rosout::Records;
use robocache_core::spec::Config;
use robocache_ops::sync::lock;
use robocache_rcl::Context;
use robocache_runtime::TimeSource;

/// The node, in whatever state it is. The fields are dropped in their order.
pub(crate) struct Manager {
    /// While the node works.
    active: Option<Active>,
    /// With a configuration.
    configured: Option<Configured>,
    base: Base,
    threads: BaseThreads,
    /// The transitions that requests have begun.
    orders: UnboundedReceiver<BegunTransition>,
    /// Error that came while the node worked, until it is dealt with.
    fault: Option<NodeError>,
}

/// Event that the manager must deal with.
pub(crate) enum Incident {
    /// A request has begun a transition.
    Ordered(BegunTransition),
    /// A managed node no longer works.
    Fault(NodeError),
    /// The node cannot go on.
    Broken(NodeError),
}

impl Manager {
    /// Begins the node. If it is not managed, it works afterwards. Errors are logged.
    ///
    /// # Errors
    /// Says why the node does not begin.
    pub(crate) fn start(
        records: Records,
        recording: Recording,
        time: TimeSource,
    ) -> Result<Self, NodeError> {
        let context =
            Context::new().map_err(|error| logged(NodeError::RosArguments(error.detail)))?;
        // Read before the node begins, because the middleware then takes its shared memory. Errors wait
        // for the node, so that they are also on /rosout.
        let parameters = Parameters::read(&context);
        let managed = parameters.as_ref().is_ok_and(|parameters| parameters.is_managed);
        let (lifecycle, orders) = Lifecycle::new();
        let lifecycle = managed.then(|| Arc::new(lifecycle));
        let (base, threads, parameters) =
            Base::start(&context, parameters, lifecycle, records, recording, time)?;
        let active = None;
        let configured = None;
        let fault = None;
        let mut manager = Manager { active, configured, base, threads, orders, fault };
        if managed {
            tracing::info!("the node is unconfigured, and waits for requests to configure it");
            return Ok(manager);
        }
        let Parameters { settings, config, .. } = parameters;
        let configured = config.and_then(|config| manager.configure(settings, config));
        configured.and_then(|()| manager.activate()).map_err(logged)?;
        Ok(manager)
    }

    /// Waits for the next incident. The caller may cancel the wait.
    pub(crate) async fn next(&mut self) -> Incident {
        let Manager { active, threads, orders, base, .. } = self;
        let failure = async {
            match active {
                Some(active) => active.failure().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            error = threads.failure() => Incident::Broken(error),
            error = failure => match base.lifecycle {
                Some(_) => Incident::Fault(error),
                None => Incident::Broken(error),
            },
            Some(order) = orders.recv() => Incident::Ordered(order),
        }
    }

    /// Does the work of a transition that was ordered.
    pub(crate) fn obey(&mut self, BegunTransition { work, answer }: BegunTransition) {
        let success = self.carry_out(work);
        // Nobody waits for it if the node is ending.
        let _ = answer.send(success);
    }

    /// Deals with a failure while the node works: its deactivation ends with this error.
    pub(crate) fn fail(&mut self, fault: NodeError) {
        if let Some(before) = self.fault.replace(fault) {
            logged(before);
        }
        let lifecycle = self.base.lifecycle.as_ref();
        // If a request has begun a transition meanwhile, that one meets the fault.
        if let Some(work) = lifecycle.and_then(|it| it.begin(0, "deactivate")) {
            self.carry_out(work);
        }
    }

    /// Does the work of a transition, and ends it. After an error, also gives everything back. Returns whether the work
    /// succeeded.
    fn carry_out(&mut self, work: LifecycleState) -> bool {
        let Some(lifecycle) = self.base.lifecycle.clone() else { return false };
        let done = catch_unwind(AssertUnwindSafe(|| self.work(work)));
        let Err(error) = done.unwrap_or(Err(NodeError::Panicked)) else {
            lock(&self.base.watched).trouble = None;
            let state = lifecycle.end(Verdict::Success);
            tracing::info!("the node is {}", state.label());
            return true;
        };
        let error = logged(error);
        lock(&self.base.watched).trouble = Some(error.to_string());
        lifecycle.end(Verdict::Error);
        let given_back = catch_unwind(AssertUnwindSafe(|| self.give_back()));
        let state = lifecycle.end(match given_back {
            Ok(()) => Verdict::Success,
            Err(_) => Verdict::Failure,
        });
        tracing::warn!("after this error the node is {}", state.label());
        false
    }

    fn work(&mut self, work: LifecycleState) -> Result<(), NodeError> {
        match work {
            LifecycleState::Configuring => {
                let settings = params::settings(&self.base.store.declared())?;
                let config = settings.load()?;
                self.configure(settings, config)
            }
            LifecycleState::Activating => self.activate(),
            LifecycleState::Deactivating => self.deactivate(),
            LifecycleState::CleaningUp => {
                Configured::end(self.configured.take(), &self.base);
                Ok(())
            }
            // What failed before is known, and the node ends.
            LifecycleState::ShuttingDown => {
                self.give_back();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn configure(&mut self, settings: Settings, config: Config) -> Result<(), NodeError> {
        self.configured = Some(Configured::new(&self.base, settings, config)?);
        Ok(())
    }

    fn activate(&mut self) -> Result<(), NodeError> {
        if let Some(configured) = &self.configured {
            self.active = Some(Active::start(&self.base, configured)?);
        }
        Ok(())
    }

    fn deactivate(&mut self) -> Result<(), NodeError> {
        let ended = Active::end(self.active.take(), &self.base);
        match (self.fault.take(), ended) {
            (Some(fault), ended) => {
                // The caller logs the fault.
                ended.unwrap_or_else(|other| _ = logged(other));
                Err(fault)
            }
            (None, ended) => ended,
        }
    }

    /// Gives back everything that the node did not have at its start.
    fn give_back(&mut self) {
        if let Err(error) = self.deactivate() {
            logged(error);
        }
        Configured::end(self.configured.take(), &self.base);
    }
}
