"""ROS domains that nobody uses: for whatever is to stay among its own processes."""

import itertools
import os
import socket

#: Where the search goes. Above 101 the middleware's ports lie among those that Linux hands out by
#: itself; a taken one is noticed below.
FIRST_DOMAIN, DOMAINS = 100, 121
#: UDP ports of a domain: 7400 + 250 * domain for multicast discovery, and from there 10 + 2 * n
#: for participant n (DDS Interoperability Protocol, 9.6.1.1). Kept to this machine, participants
#: open only the latter, and up to 32 of them look for each other.
PORT_BASE, PORTS_PER_DOMAIN, FIRST_PARTICIPANT, PARTICIPANTS = 7400, 250, 10, 32

_taken = itertools.count()


def domain_is_free(domain):
    """Whether nobody on this machine takes part in the domain: each of its ports can be bound."""
    base = PORT_BASE + PORTS_PER_DOMAIN * domain
    first = base + FIRST_PARTICIPANT
    for port in (base, *range(first, first + 2 * PARTICIPANTS, 2)):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


def free_domain():
    """A domain that this process has not used lately and that nobody uses now.

    Processes start at different places (by their id) and step through all domains (the step and
    the number of domains have no common factor), so two of them meet only by chance, and then the
    ports tell.
    """
    for _ in range(DOMAINS):
        domain = FIRST_DOMAIN + (os.getpid() * 7 + next(_taken) * 50) % DOMAINS
        if domain_is_free(domain):
            return domain
    raise RuntimeError(f"all ROS domains from {FIRST_DOMAIN} on are in use ({DOMAINS} of them)")
