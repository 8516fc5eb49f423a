"""Seals the process: no byte to another machine, whatever a library tries.

`seal()` first sets the variables that make libraries stay at home (most read them once, on import), then puts
an audit hook under Python's sockets: connecting, sending or resolving a name to anything but loopback,
AF_UNIX and the allowed hosts raises `Sealed`, a PermissionError. An audit hook cannot be taken out again, and
sees sockets however they were made. Python children seal themselves before their first line:
`sealed/sitecustomize.py` is put on their PYTHONPATH, and NIGHTSCHOOL_SEALED tells them which hosts are
allowed. Forked children inherit the hook.

Left to others: code that opens sockets outside Python, and children that are not Python or ignore their
environment (`python -I`). The standard library alone is used, so that a child can load this file by its path.
"""

import ipaddress
import os
import socket
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

MARK = "NIGHTSCHOOL_SEALED"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "USE_HUB_KERNELS": "NO",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "TOKENIZERS_PARALLELISM": "false",
}
LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})
INTERNET_FAMILIES = {socket.AF_INET, socket.AF_INET6}
LOCAL_FAMILIES = {
    getattr(socket, name) for name in ("AF_UNIX", "AF_NETLINK", "AF_ALG", "AF_SYSTEM") if hasattr(socket, name)
}
ADDRESS_EVENTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
NAME_EVENTS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo"})

_allowed: set[str] | None = None
"""Hosts, and the addresses that they resolved to; `None` as long as the process is not sealed."""


class Sealed(PermissionError):
    """Something tried to reach another machine."""


def seal(allow: Collection[str] = ()) -> None:
    """Seal this process and its children, for good: a second call changes nothing.

    Call it before any model library is imported. The addresses of allowed hosts are those that they have now. A name of
    this machine allows nothing more: one that a hosts file leads elsewhere stays refused.
    """
    global _allowed
    if _allowed is not None:
        return
    allow = {host.lower() for host in allow} - LOOPBACK_NAMES
    os.environ.update(ENVIRONMENT, **{MARK: ",".join(sorted(allow))})
    here = str(Path(__file__).with_name("sealed"))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *(path for path in paths if path and path != here)])
    _allowed = allow | _addresses(allow)
    sys.addaudithook(_watch)


def sealed() -> bool:
    """Whether this process is sealed."""
    return _allowed is not None


def _addresses(hosts: Collection[str]) -> set[str]:
    """What the allowed hosts resolve to; a host that does not resolve stays allowed by its name."""
    found = set()
    for host in hosts:
        try:
            found |= {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
        except (OSError, UnicodeError):  # the latter for what cannot be a name
            continue
    return found


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event in ADDRESS_EVENTS:
        sock, address = args
        if address is not None and sock.family not in LOCAL_FAMILIES:
            _check(address[0] if sock.family in INTERNET_FAMILIES else f"{address} of {sock.family!r}")
    elif event in NAME_EVENTS:
        _check(args[0][0] if isinstance(args[0], tuple) else args[0])


def _check(host: object) -> None:
    """Raise unless `host` is this machine, or allowed; `None` and "" mean this machine."""
    name = (host.decode(errors="replace") if isinstance(host, bytes | bytearray) else str(host or "")).lower()
    if not name or name in LOOPBACK_NAMES or name in (_allowed or ()) or _loopback(name):
        return
    raise Sealed(f"nightschool works offline: refused to reach {name!r} (hosts may be named in models.toml)")


def _loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    # 0.0.0.0 and :: are what servers on this machine bind to, and reach themselves by
    return (mapped or address).is_loopback or address.is_unspecified
