"""A connection to an address that was checked, and to no other (security N1): the name is not resolved again.

TLS, its errors, deadlines and the proxy of the user's network are those of model calls (`providers/http/connect.py`). A
proxy is told the address and not the name, so that it cannot resolve the name to something else.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from mainspring.providers.http import connect as http_connect
from mainspring.providers.http.connect import (
    Address,
    ConnectProgress,
    Dialer,
    Route,
    first_to_answer,
    look_up,
    open_tunnel,
)
from mainspring.providers.http.connection import ClientConnection, ResponseLimits
from mainspring.providers.http.proxy import HttpOrigin, parse_numeric_host

Resolve = Callable[[str], Awaitable[Sequence[str]]]  # a name's addresses; raises OSError
Connect = Callable[[Sequence[Address]], Awaitable[socket.socket]]


class CheckedRoute(Route, frozen=True):
    addresses: tuple[str, ...]  # of the origin, checked


class CheckedDialer(Dialer):
    def __init__(
        self, limits: ResponseLimits, trusted: http_connect.TrustedCertificates, connect: Connect = first_to_answer
    ) -> None:
        super().__init__(limits, trusted)
        self._reach = connect

    async def _dial(self, route: Route, step: ConnectProgress, seconds: float) -> ClientConnection:
        assert isinstance(route, CheckedRoute)
        connection = await (self._direct(route, step) if route.proxy is None else self._by_proxy(route, step, seconds))
        if route.origin.scheme == "https":
            await self._guarded(connection, self._secure(connection, route.origin, step))
        return connection

    async def _direct(self, way: CheckedRoute, step: ConnectProgress) -> ClientConnection:
        origin = way.origin
        step.now(f"connecting to '{origin.place}'", origin.host)
        reached = await self._reach([make_sockaddr(address, origin.port) for address in way.addresses])
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: ClientConnection(origin.place, self._limits), sock=reached)
        return connection

    async def _by_proxy(self, way: CheckedRoute, step: ConnectProgress, seconds: float) -> ClientConnection:
        assert way.proxy is not None
        first = way.proxy.origin
        connection = await self._connect(first, step)
        if first.scheme == "https":
            await self._guarded(connection, self._secure(connection, first, step))
        step.now(f"asking the proxy '{first.place}' for '{way.origin.place}'", first.host)
        far = replace(way.origin, host=way.addresses[0])
        await self._guarded(connection, open_tunnel(connection, far, way.proxy, seconds))
        return connection

    async def _guarded(self, connection: ClientConnection, work: Awaitable[None]) -> None:
        try:
            await work
        except BaseException:
            connection.abort()
            raise


def make_sockaddr(address: str, port: int) -> Address:
    return (socket.AF_INET6, (address, port, 0, 0)) if ":" in address else (socket.AF_INET, (address, port))


async def resolve_host(host: str) -> Sequence[str]:
    """By the system, once. A number is its own address."""
    if parse_numeric_host(host) is not None:
        return (host,)
    found = await look_up(HttpOrigin("https", host, 443))
    if isinstance(found, OSError):
        raise found
    return [str(address[0]) for _, address in found]
