"""What disturbs a soak: kills, ends, suspensions and, of a managed node, deactivations, at random instants."""

import time

#: Shares of the disturbances: of a process, and what happens to it.
SHARES = {
    ("robot", "kill"): 9,
    ("robot", "suspend"): 14,
    ("policy_topic", "kill"): 8,
    ("policy_topic", "suspend"): 14,
    ("policy_shared", "kill"): 8,
    ("policy_shared", "suspend"): 14,
    ("node", "kill"): 5,
    ("node", "end"): 3,
    ("node", "suspend"): 10,
}
#: Of a managed node.
OF_MANAGED = {("node", "reactivate"): 8, ("node", "reconfigure"): 4}
#: Time between two disturbances, of a suspension, and from an end to the next start [s].
PAUSE_S, SUSPENDED_S, GONE_S = (10.0, 35.0), (0.3, 6.0), (0.0, 4.0)
#: What is not healed then counts as infinitely long [s].
PATIENCE_S = 60.0
#: A node that lives longer is ended, so that its recording does not fill the disk [s].
LONGEST_LIFE_S = 600.0


class Disturbances:
    """Disturbs the processes of a soak, one after the other: the next one waits until all is healed."""

    def __init__(self, soak, random):
        self._soak, self._random = soak, random
        self._shares = SHARES | (OF_MANAGED if soak.arguments.managed else {})

    def run(self, seconds):
        """Disturbs for so long."""
        soak = self._soak
        end = time.time() + seconds
        self._heal("all", "start", time.time())
        while True:
            # What is drawn does not depend on how long a disturbance takes.
            pause = self._random.uniform(*PAUSE_S)
            name, what = self._random.choices(*zip(*self._shares.items(), strict=True))[0]
            lengths = self._random.uniform(*SUSPENDED_S), self._random.uniform(*GONE_S)
            if not self._wait(min(time.time() + pause, end)):
                continue
            if time.time() >= end:
                return
            node = soak.subjects["node"]
            if time.time() - node.born > LONGEST_LIFE_S:
                name, what = "node", "end"
            self._disturb(name, what, *lengths)

    def _wait(self, until):
        """Waits. False if a process ended by itself meanwhile; then it was started again."""
        soak = self._soak
        while time.time() < until:
            time.sleep(0.1)
            for name, subject in soak.subjects.items():
                how = subject.has_ended()
                if how:
                    print(f"soak: {name} ended by itself with {how}", flush=True)
                    soak.note(name, {"ended": 1})
                    soak.quiet_since = None
                    instant = time.time()
                    soak.start(name)
                    self._heal(name, "end by itself", instant)
                    return False
        return True

    def _disturb(self, name, what, suspended_s, gone_s):
        soak, subject = self._soak, self._soak.subjects[name]
        at = time.time() - soak.began
        length = suspended_s if what == "suspend" else gone_s
        print(f"soak: {at:7.1f} s: {name}: {what}, {length:.1f} s", flush=True)
        soak.quiet_since = None
        subject.stretch += 1
        ok = True
        if what == "suspend":
            subject.suspend()
            time.sleep(suspended_s)
            instant = time.time()
            subject.resume()
        elif what in ("kill", "end"):
            problem = subject.kill() if what == "kill" else subject.end()
            if problem:
                print(f"soak: {problem}", flush=True)
                soak.note(name, {"ended": 1})
            time.sleep(gone_s)
            instant = time.time()
            ok = soak.start(name)
        else:
            ok, instant = self._transitions(what, gone_s)
        if not ok:
            print(f"soak: {name}: {what}: a transition did not succeed", flush=True)
            soak.note(name, {"refused": 1})
        self._heal(name, what, instant)

    def _transitions(self, what, gone_s):
        """Asks a managed node to stop its work and to begin again. Whether it did, and when it was to begin."""
        change = self._soak.client.change
        down, up = ["deactivate"], ["activate"]
        if what == "reconfigure":
            down, up = ["deactivate", "cleanup"], ["configure", "activate"]
        done = all([change(label, 20.0) for label in down])
        time.sleep(gone_s)
        instant = time.time()
        return all([done, *(change(label, 20.0) for label in up)]), instant

    def _heal(self, name, what, instant):
        """Waits until both policies have valid tensors of later ticks, and notes how long that took."""
        soak = self._soak
        healed = dict.fromkeys(soak.policies)
        while None in healed.values() and time.time() - instant < PATIENCE_S:
            time.sleep(0.1)
            for policy, reports in soak.policies.items():
                healed[policy] = reports.valid_since(instant)
        if None in healed.values():
            lacking = [policy for policy, seconds in healed.items() if seconds is None]
            print(f"soak: {name}: {what}: not healed for {', '.join(lacking)}", flush=True)
        longest = max(1e9 if seconds is None else seconds for seconds in healed.values())
        soak.note(name, {f"healed_s.{what}": longest})
        soak.quiet_since = time.time()
