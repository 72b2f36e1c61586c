"""Finds free ROS domains, so that a demo or a test reaches only its own processes."""

import itertools
import os
import socket

#: The domains to search. Above 101 the middleware's ports are among those that Linux assigns by
#: itself; `domain_is_free` notices a taken port.
FIRST_DOMAIN, DOMAINS = 100, 121
#: UDP ports of a domain: base = 7400 + 250 * domain for multicast discovery, and base + 10 + 2 * n
#: for participant n (DDS Interoperability Protocol, 9.6.1.1). If discovery is limited to this
#: machine, participants open only the latter, and at most 32 of them find each other.
PORT_BASE, PORTS_PER_DOMAIN, FIRST_PARTICIPANT, PARTICIPANTS = 7400, 250, 10, 32

_tried = itertools.count()
#: The claim on the newest domain that this process has taken.
_claim = None


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


def claimed(domain):
    """A claim on the domain; None if another process has it.

    It is a name among Linux's abstract sockets, which is free again when the process ends.
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0robocache_domain_{domain}")
    except OSError:
        claim.close()
        return None
    return claim


def free_domain():
    """A domain that this process has not used lately and that no process uses now.

    It belongs to this process until the next call, even if no program opens its ports. Each process starts at another
    domain (by its id) and steps through all of them: the step and the number of domains have no common factor.
    """
    global _claim
    for _ in range(DOMAINS):
        domain = FIRST_DOMAIN + (os.getpid() * 7 + next(_tried) * 50) % DOMAINS
        claim = claimed(domain)
        if claim is None:
            continue
        if domain_is_free(domain):
            if _claim:
                _claim.close()
            _claim = claim
            return domain
        claim.close()
    raise RuntimeError(f"all ROS domains from {FIRST_DOMAIN} on are in use ({DOMAINS} of them)")
