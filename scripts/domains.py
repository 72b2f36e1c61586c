"""Finds free ROS domains, so that a demo or a test reaches only its own processes."""

import itertools
import os
import socket

#: The domains to search. Above 101 the middleware's ports are among those that Linux assigns by
#: itself; `domain_is_free` notices a taken one.
FIRST_DOMAIN, DOMAINS = 100, 121
#: UDP ports of a domain: base = 7400 + 250 * domain for multicast discovery, and base + 10 + 2 * n
#: for participant n (DDS Interoperability Protocol, 9.6.1.1). If discovery is limited to this
#: machine, participants open only the latter, and at most 32 of them find each other.
PORT_BASE, PORTS_PER_DOMAIN, FIRST_PARTICIPANT, PARTICIPANTS = 7400, 250, 10, 32

_taken = itertools.count()


def domain_is_free(domain):
    """Whether no process on this machine uses the domain: each of its ports can be bound."""
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
    """A domain that this process has not used lately and that no process uses now.

    Each process starts at another domain (by its id) and steps through all of them: the step and
    the number of domains have no common factor. So two processes rarely try the same domain. If
    they do, the check of the ports shows it.
    """
    for _ in range(DOMAINS):
        domain = FIRST_DOMAIN + (os.getpid() * 7 + next(_taken) * 50) % DOMAINS
        if domain_is_free(domain):
            return domain
    raise RuntimeError(f"all ROS domains from {FIRST_DOMAIN} on are in use ({DOMAINS} of them)")
