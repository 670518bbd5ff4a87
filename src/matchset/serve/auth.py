"""Auth: who may call the server, and under which of its names?"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from matchset.client.api_keys import read_key_lines
from matchset.serve.request_errors import RequestError

logger = logging.getLogger(__name__)
_SCHEME = b"bearer "
_MAX_HOST = 300  # a DNS name has 253 characters, a port 5


@dataclass(frozen=True, slots=True, repr=False)
class Keys:
    """API keys as digests: comparing them takes the same time for any guess."""

    digests: tuple[bytes, ...]

    def allow(self, authorization: bytes | None) -> bool:
        """Return whether a header `Authorization: Bearer KEY` has one of the keys."""
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        digest = hashlib.sha256(authorization[len(_SCHEME) :].strip()).digest()
        # All are compared, so that the time does not reveal which one matched.
        return sum(hmac.compare_digest(digest, known) for known in self.digests) > 0

    def save(self, file: Path) -> None:
        """Write the digests, for workers that start later."""
        file.write_bytes(b"".join(self.digests))

    @classmethod
    def load(cls, file: Path) -> Keys:
        """Read digests that were saved."""
        data = file.read_bytes()
        size = hashlib.sha256().digest_size
        return cls(tuple(data[at : at + size] for at in range(0, len(data), size)))


def read_keys(file: Path) -> Keys:
    """Return the keys in a file, as a server keeps them."""
    return Keys(tuple(hashlib.sha256(key.encode()).digest() for key in read_key_lines(file)))


def warn_if_readable(file: Path) -> None:
    """Log a warning if other users of the machine can read the keys."""
    if file.stat().st_mode & (stat.S_IROTH | stat.S_IRGRP):
        logger.warning("%s: API keys can be read by others; run chmod 600", file)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The names of this server.

    Another site can point its own host name here (DNS rebinding), and requests of its pages then
    carry that name. A plain address cannot be made to point elsewhere.
    """

    names: frozenset[str]

    def check(self, host: bytes | None) -> None:
        """Reject a Host header that is neither a name of this server nor a plain address."""
        if host is None or len(host) > _MAX_HOST or not _is_allowed(host, self.names):
            got = "none" if host is None else repr(host[:100].decode("latin-1"))
            rule = "Host must be localhost, an address, or a name given with --allow-host"
            raise RequestError("bad_host", f"{rule}; got {got}")


def check_repeated(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Reject several hosts or keys: a proxy in front may have checked another one."""
    for code, name in (("bad_host", b"host"), ("unauthorized", b"authorization")):
        n_given = sum(given == name for given, _ in headers)
        if n_given > 1:
            rule = f"{name.decode().capitalize()} must be given once"
            raise RequestError(code, f"{rule}; got {n_given}")


def make_hosts(host: str, allowed: tuple[str, ...]) -> Hosts:
    """Return the names of a server: localhost, the one it listens on, and those allowed."""
    names = {name.lower().rstrip(".") for name in ("localhost", host, *allowed)}
    return Hosts(frozenset(names - {""}))


@lru_cache(maxsize=256)
def _is_allowed(host: bytes, names: frozenset[str]) -> bool:
    try:
        text = host.decode("ascii").lower()
    except UnicodeDecodeError:
        return False
    name, _, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not name:
        name, port = text, ""
    if port and not port.isdigit():
        return False
    if name.rstrip(".") in names:
        return True
    if "%" in name:  # the zone of an address, which could be any text
        return False
    try:
        ipaddress.ip_address(name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name)
    except ValueError:
        return False
    return True
