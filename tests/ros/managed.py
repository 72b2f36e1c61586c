"""Asks a lifecycle node as a client does: by its services, with its transitions noted."""

from lifecycle_msgs.msg import Transition, TransitionEvent
from lifecycle_msgs.srv import (
    ChangeState,
    GetAvailableStates,
    GetAvailableTransitions,
    GetState,
)
from rcl_interfaces.msg import ParameterEvent
from rclpy.parameter import Parameter
from rclpy.parameter_client import AsyncParameterClient
from waiting import PATIENCE

#: The services of a lifecycle node, with their types.
SERVICES = {
    "change_state": ChangeState,
    "get_state": GetState,
    "get_available_states": GetAvailableStates,
    "get_available_transitions": GetAvailableTransitions,
    "get_transition_graph": GetAvailableTransitions,
}
CONFIGURE, CLEANUP = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_CLEANUP
ACTIVATE, DEACTIVATE = Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE
#: The way of a request that succeeds, from one state to the next: the states of its two events.
CONFIGURED = [("unconfigured", "configuring"), ("configuring", "inactive")]
ACTIVATED = [("inactive", "activating"), ("activating", "active")]


def described(transition):
    """A description of a transition as a tuple."""
    parts = (transition.transition, transition.start_state, transition.goal_state)
    return tuple((part.id, part.label) for part in parts)


class Managed:
    """A client of the lifecycle node of this name. It waits until it is connected."""

    def __init__(self, ros, name, process=None):
        self.ros, self.name, self.process = ros, name, process
        #: The transitions so far: time, transition, start and goal.
        self.events = []
        #: The changes of parameters so far: node, and values by name.
        self.changes = []
        node = ros.node
        node.create_subscription(TransitionEvent, f"{name}/transition_event", self._note, 100)
        node.create_subscription(ParameterEvent, "/parameter_events", self._change, 100)
        # After the subscriptions: a node that answers these clients has found the subscriptions before.
        self._clients = {
            service: node.create_client(kind, f"{name}/{service}")
            for service, kind in SERVICES.items()
        }
        self._parameters = AsyncParameterClient(node, name)
        topics = [f"/{name}/transition_event"]
        if process:
            topics.append("/parameter_events")
        self.until(
            lambda: (
                all(client.service_is_ready() for client in self._clients.values())
                and self._parameters.services_are_ready()
                and all(node.count_publishers(topic) for topic in topics)
            ),
            "the services are there",
        )
        # The middleware drops an answer if it does not find its client in time, so the first request is repeated.
        self.until(
            lambda: ros.spin_for(1.0, until=self.ask("get_state").done), "the node finds its client"
        )

    def _note(self, event):
        self.events.append((event.timestamp, *described(event)))

    def _change(self, event):
        if event.node == f"/{self.name}":
            self.changes.append({given.name: given.value for given in event.changed_parameters})

    def until(self, predicate, what, timeout=PATIENCE):
        """Handles messages until the predicate holds. The failure says what was awaited."""
        output = self.process and (lambda: self.process.output)
        self.ros.spin_until(predicate, what, timeout, output)

    def ask(self, service, request=None):
        """The future of an answer."""
        return self._clients[service].call_async(request or SERVICES[service].Request())

    def answer(self, service, request=None):
        """The answer to a request."""
        future = self.ask(service, request)
        self.until(future.done, f"{self.name} answers {service}")
        return future.result()

    def change_request(self, transition):
        """The request for a transition by its number or its label."""
        named = {"label": transition} if isinstance(transition, str) else {"id": transition}
        return ChangeState.Request(transition=Transition(**named))

    def change(self, transition):
        """Asks for a transition by its number or its label. Returns whether it succeeded."""
        return self.answer("change_state", self.change_request(transition)).success

    def state(self):
        """The number and the label of the state."""
        state = self.answer("get_state").current_state
        return state.id, state.label

    def must(self, *transitions):
        """Asks for these transitions, which must succeed."""
        for transition in transitions:
            assert self.change(transition), f"{transition}\n{self.process.output}"

    def all_answers(self):
        """What the node says about its state and its transitions."""
        states = self.answer("get_available_states").available_states
        lists = ("get_available_transitions", "get_transition_graph")
        return [
            self.state(),
            [(state.id, state.label) for state in states],
            *([*map(described, self.answer(of).available_transitions)] for of in lists),
        ]

    def way(self, count):
        """The labels of the next transitions, start and goal. They count no more afterwards.

        If there is one too many, it is found here or with the next transitions.
        """
        self.until(lambda: len(self.events) >= count, f"{count} transitions: {self.events}")
        self.state()
        assert len(self.events) == count, self.events
        events, self.events = self.events, []
        return [(start[1], goal[1]) for _, _, start, goal in events]

    def set(self, **values):
        """Sets parameters. Returns the reasons of those that were refused, by name."""
        given = [Parameter(name, value=value) for name, value in values.items()]
        future = self._parameters.set_parameters(given)
        self.until(future.done, "the parameters are answered")
        results = zip(values, future.result().results, strict=True)
        return {name: result.reason for name, result in results if not result.successful}


def start_managed(ros, start, *arguments, **parameters):
    """Starts a managed fusion node with these parameters, and a client of it."""
    env = parameters.pop("env", None)
    given = {"managed": True, "diagnostics_period_s": 0.1, **parameters}
    words = {name: str(v).lower() if isinstance(v, bool) else v for name, v in given.items()}
    given = [word for name, value in words.items() for word in ("-p", f"{name}:={value}")]
    process = start("fusion_node", "--ros-args", *given, *arguments, env=env)
    return Managed(ros, "fusion_node", process)
