//! Waits for subscriptions, events, services and changes of the graph.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use r2r_rcl::*;

use super::context::ContextInner;
use super::error::{check, forget, ignore};
use super::{Context, Raw, Result, Service, Subscription};

/// Something to wait for. A subscription includes all of its events, because with Fast DDS an event that was not taken
/// also ends a wait for messages.
#[derive(Clone, Copy)]
pub struct Waitable<'a> {
    entity: Entity,
    events: [*const rcl_event_t; 2],
    /// The entity must live during the wait.
    alive: PhantomData<&'a ()>,
}

#[derive(Clone, Copy)]
enum Entity {
    Subscription(*const rcl_subscription_t),
    Guard(*const rcl_guard_condition_t),
    Service(*const rcl_service_t),
    Event(*const rcl_event_t),
}

impl Entity {
    /// Index of the kind: subscription, guard condition, service, event.
    fn kind(self) -> usize {
        match self {
            Entity::Subscription(_) => 0,
            Entity::Guard(_) => 1,
            Entity::Service(_) => 2,
            Entity::Event(_) => 3,
        }
    }
}

impl Waitable<'_> {
    fn new(entity: Entity) -> Self {
        Waitable { entity, events: [std::ptr::null(); 2], alive: PhantomData }
    }

    /// A guard condition of rcl's own. The caller ensures that it lives as long as the borrow.
    pub(super) fn of_guard(guard: *const rcl_guard_condition_t) -> Self {
        Waitable::new(Entity::Guard(guard))
    }
}

impl<'a> From<&'a Subscription> for Waitable<'a> {
    fn from(subscription: &'a Subscription) -> Self {
        let events = subscription.events().raw();
        Waitable { events, ..Waitable::new(Entity::Subscription(subscription.get())) }
    }
}

impl<'a, T> From<&'a Service<T>> for Waitable<'a> {
    fn from(service: &'a Service<T>) -> Self {
        Waitable::new(Entity::Service(service.get()))
    }
}

/// Waits for several things at once. It owns none of them, so that a drop ends each one at once.
/// The caller names them at each wait.
pub struct WaitSet {
    raw: Raw<rcl_wait_set_t>,
    /// Capacity of rcl's arrays, by kind.
    room: [usize; 4],
    /// The entities of the current wait, each with its place in the caller's order.
    entities: Vec<(usize, Entity)>,
    ready: Vec<EntityReady>,
    _context: Arc<ContextInner>,
}

// SAFETY: rcl ties a wait set to no thread, and waiting takes `&mut self`.
unsafe impl Send for WaitSet {}

/// What is ready after a wait, in the order in which the caller named the entities.
#[derive(Clone, Copy, Debug)]
pub struct Ready<'a>(&'a [EntityReady]);

#[derive(Clone, Copy, Debug, Default)]
struct EntityReady {
    ready: bool,
    events: bool,
}

impl Ready<'_> {
    /// Whether the entity at this place is ready: a message or a request waits, or it was
    /// triggered.
    pub fn is(&self, place: usize) -> bool {
        self.0[place].ready
    }

    /// Whether an event of the subscription at this place is ready. Until the caller takes the
    /// events, every wait ends at once.
    pub fn has_events(&self, place: usize) -> bool {
        self.0[place].events
    }
}

impl WaitSet {
    /// Creates an empty wait set.
    pub fn new(context: &Context) -> Result<Self> {
        // SAFETY: the context is initialised and outlives the wait set.
        let raw = unsafe {
            let raw = Raw::new(rcl_get_zero_initialized_wait_set());
            let allocator = rcutils_get_default_allocator();
            let context = context.inner.get();
            let ret = rcl_wait_set_init(raw.get(), 0, 0, 0, 0, 0, 0, context, allocator);
            check(ret, || "create a wait set".to_owned())?;
            raw
        };
        let ready = Vec::new();
        let entities = Vec::new();
        Ok(WaitSet { raw, room: [0; 4], entities, ready, _context: Arc::clone(&context.inner) })
    }

    /// Waits until one of these is ready, at most for `timeout`. With nothing to wait for it
    /// sleeps. It allocates only if the set has another size than the last one.
    pub fn wait<'a>(
        &mut self,
        waitables: impl IntoIterator<Item = Waitable<'a>>,
        timeout: Duration,
    ) -> Result<Ready<'_>> {
        self.entities.clear();
        self.ready.clear();
        for (place, Waitable { entity, events, .. }) in waitables.into_iter().enumerate() {
            self.ready.push(EntityReady::default());
            self.entities.push((place, entity));
            let events = events.into_iter().filter(|event| !event.is_null());
            self.entities.extend(events.map(|event| (place, Entity::Event(event))));
        }
        if self.entities.is_empty() {
            std::thread::sleep(timeout);
            return Ok(Ready(&self.ready));
        }
        self.fill()?;
        let timeout = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: the set holds entities that live as long as `'a`.
        let ret = unsafe { rcl_wait(self.raw.get(), timeout) };
        if ret == RCL_RET_TIMEOUT as rcl_ret_t {
            forget();
            return Ok(Ready(&self.ready));
        }
        check(ret, || "wait for messages".to_owned())?;
        self.read();
        Ok(Ready(&self.ready))
    }

    /// Gives the entities to rcl. They live during the wait.
    fn fill(&mut self) -> Result<()> {
        let mut counts = [0; 4];
        self.entities.iter().for_each(|(_, entity)| counts[entity.kind()] += 1);
        let (set, [subscriptions, guards, services, events]) = (self.raw.get(), counts);
        // SAFETY: the set is initialised and only this thread has it; the entities are alive.
        unsafe {
            let ret = match counts == self.room {
                true => rcl_wait_set_clear(set),
                false => rcl_wait_set_resize(set, subscriptions, guards, 0, 0, services, events),
            };
            check(ret, || "clear a wait set".to_owned())?;
            self.room = counts;
            let at = std::ptr::null_mut();
            for (_, entity) in &self.entities {
                let ret = match *entity {
                    Entity::Subscription(entity) => rcl_wait_set_add_subscription(set, entity, at),
                    Entity::Guard(entity) => rcl_wait_set_add_guard_condition(set, entity, at),
                    Entity::Service(entity) => rcl_wait_set_add_service(set, entity, at),
                    Entity::Event(entity) => rcl_wait_set_add_event(set, entity, at),
                };
                check(ret, || "fill a wait set".to_owned())?;
            }
        }
        Ok(())
    }

    /// Notes which entities are ready: rcl has set the others to null.
    fn read(&mut self) {
        let mut next = [0; 4];
        for (place, entity) in &self.entities {
            let index = next[entity.kind()];
            next[entity.kind()] += 1;
            // SAFETY: each array has room for as many entities of its kind as `fill` has counted.
            let ready = unsafe {
                let set = &*self.raw.get();
                match entity {
                    Entity::Subscription(_) => !(*set.subscriptions.add(index)).is_null(),
                    Entity::Guard(_) => !(*set.guard_conditions.add(index)).is_null(),
                    Entity::Service(_) => !(*set.services.add(index)).is_null(),
                    Entity::Event(_) => !(*set.events.add(index)).is_null(),
                }
            };
            let state = &mut self.ready[*place];
            match entity {
                Entity::Event(_) => state.events |= ready,
                _ => state.ready |= ready,
            }
        }
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        // SAFETY: the set is initialised; rcl does not read the entities that were in it.
        ignore(unsafe { rcl_wait_set_fini(self.raw.get()) });
    }
}
