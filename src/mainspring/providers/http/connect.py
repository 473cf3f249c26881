"""Open a connection for a route: look up the name, connect over TCP and through a proxy, start TLS, under one deadline.

An error names the step that failed, and why.

Trusted certificates: the setting wins, then `SSL_CERT_FILE` and `SSL_CERT_DIR`, otherwise the system's store.
`NODE_EXTRA_CA_CERTS` is added to any of them, because users who come from Claude Code have their company's authority
there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread

from mainspring.core.errors import UsageError
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.http.connection import ClientConnection, ResponseLimits, network_error
from mainspring.providers.http.proxy import HttpOrigin, HttpProxy, is_local, parse_numeric_host
from mainspring.providers.retry import RequestRefusedError

# Directories of certificates by hash: OpenSSL looks up the one it needs in 0.1 ms. Reading a whole bundle takes 20 ms.
# Debian, Alpine, SUSE and Arch; Fedora and its relatives.
HASHED = ("/etc/ssl/certs", "/etc/pki/ca-trust/extracted/pem/directory-hash")


class TrustedCertificates(Bundle):
    """Files and directories, each with the name of its setting."""

    files: tuple[tuple[str, str], ...] = ()
    directories: tuple[tuple[str, str], ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    system: tuple[str, ...] = HASHED


def read_trusted_certificates(env: Mapping[str, str], ca_file: str | None) -> TrustedCertificates:
    def named(variable: str) -> tuple[tuple[str, str], ...]:
        return ((variable, env[variable]),) if env.get(variable) else ()

    extra = named("NODE_EXTRA_CA_CERTS")
    if ca_file is not None:
        return TrustedCertificates(files=(("ca_file", ca_file),), extra=extra)
    return TrustedCertificates(named("SSL_CERT_FILE"), named("SSL_CERT_DIR"), extra)


async def get_ssl_context(trusted: TrustedCertificates) -> ssl.SSLContext:
    hashed = None if trusted.files or trusted.directories else hashed_directory(trusted.system)
    if trusted.files or trusted.extra or not (hashed or trusted.directories):
        return await asyncio.to_thread(build_ssl_context, trusted, hashed)  # reading bundles would block the event loop
    return build_ssl_context(trusted, hashed)


def build_ssl_context(trusted: TrustedCertificates, hashed: str | None) -> ssl.SSLContext:
    if trusted.files or trusted.directories or hashed:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the host name
    else:
        made = ssl.create_default_context()
    made.minimum_version = max(made.minimum_version, ssl.TLSVersion.TLSv1_2)  # Debian's Python leaves it to the system
    for setting, file in (*trusted.files, *trusted.extra):
        try:
            made.load_verify_locations(cafile=file)
        except OSError as error:  # an ssl.SSLError is one
            reason = "it contains no certificates" if isinstance(error, ssl.SSLError) else error.strerror
            raise UsageError(f"'{setting}' names '{file}', which cannot be read: {reason}") from None
    for setting, directory in trusted.directories:
        if not any(os.path.isdir(part) for part in directory.split(os.pathsep)):  # noqa: PTH112  # pathlib costs more
            raise UsageError(f"'{setting}' names '{directory}', which is not a directory")
        made.load_verify_locations(capath=directory)
    if hashed:
        made.load_verify_locations(capath=hashed)
    made.set_alpn_protocols(["http/1.1"])
    return made


def hashed_directory(places: tuple[str, ...]) -> str | None:
    """The first directory with certificates by hash, such as `002c0b4f.0`. OpenSSL finds no others in a directory."""
    for place in places:
        try:
            with os.scandir(place) as entries:
                if any(len(entry.name) == 10 and entry.name.endswith(".0") for entry in entries):
                    return place
        except OSError:
            continue
    return None


def explain_ssl_error(error: ssl.SSLError, host: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        way_out = "If your company's own authority signs it, set SSL_CERT_FILE to that authority's file"
        if "mismatch" in error.verify_message:
            way_out = "Check the address"
        return f"the certificate of '{host}' is not accepted: {error.verify_message.rstrip('.')}. {way_out}"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"'{host}' does not use TLS at this port: try 'http://' instead of 'https://'"
    return f"no TLS with '{host}': {(error.reason or str(error)).lower().replace('_', ' ')}"


HEAD_START = 0.25  # seconds before the next address is tried in parallel (RFC 8305)


class Route(Bundle):
    """Connections with the same route are interchangeable."""

    origin: HttpOrigin
    proxy: HttpProxy | None


class ConnectProgress:
    """The current step of a connection, for the error message."""

    what = ""
    host = ""

    def now(self, what: str, host: str) -> None:
        self.what, self.host = what, host


class Dialer:
    """State that new connections share: running lookups, and the certificates."""

    def __init__(self, limits: ResponseLimits, trusted: TrustedCertificates) -> None:
        self._limits = limits
        self.trusted = trusted
        self._context: ssl.SSLContext | None = None
        self._context_lock = asyncio.Lock()
        self._lookups: dict[HttpOrigin, asyncio.Future[Found]] = {}

    async def dial(self, route: Route, seconds: float) -> ClientConnection:
        step = ConnectProgress()
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                return await self._dial(route, step, seconds)
        except ssl.SSLError as error:
            kind = lasting_error if isinstance(error, ssl.SSLCertVerificationError) else network_error
            raise kind(explain_ssl_error(error, step.host)) from None
        except ConnectionRefusedError as error:
            refused = Failure(Trouble.NETWORK, f"{step.what}: {explain_os_error(error)}")
            raise RequestRefusedError(refused, near=is_local(step.host)) from None
        except OSError as error:
            late = clock.expired()  # otherwise a TimeoutError is the kernel's own
            raise network_error(
                f"{step.what}: {f'timed out after {seconds:g} seconds' if late else explain_os_error(error)}"
            ) from None

    async def _dial(self, route: Route, step: ConnectProgress, seconds: float) -> ClientConnection:
        first = route.proxy.origin if route.proxy else route.origin
        connection = await self._connect(first, step)
        try:
            if first.scheme == "https":
                await self._secure(connection, first, step)
            if route.proxy and route.origin.scheme == "https":
                step.now(f"asking the proxy '{first.place}' for '{route.origin.place}'", first.host)
                await open_tunnel(connection, route.origin, route.proxy, seconds)
                await self._secure(connection, route.origin, step)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _connect(self, origin: HttpOrigin, step: ConnectProgress) -> ClientConnection:
        step.now(f"looking up '{origin.host}'", origin.host)
        found = await self._look_up(origin)
        step.now(f"connecting to '{origin.place}'", origin.host)
        reached = await first_to_answer(found)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: ClientConnection(origin.place, self._limits), sock=reached)
        return connection

    async def _secure(self, connection: ClientConnection, origin: HttpOrigin, step: ConnectProgress) -> None:
        step.now(f"TLS with '{origin.place}'", origin.host)
        async with self._context_lock:
            if self._context is None:
                self._context = await get_ssl_context(self.trusted)
        name = origin.host.rstrip(".")  # certificates have no trailing dot
        secured = await asyncio.get_running_loop().start_tls(
            connection.transport, connection, self._context, server_hostname=name
        )
        if secured is None:  # asyncio's error if the server closed just after
            raise ConnectionResetError
        connection.transport = secured
        connection.place = origin.place

    async def _look_up(self, origin: HttpOrigin) -> Sequence[Address]:
        """One lookup at a time per origin, for any number of sessions."""
        if parse_numeric_host(origin.host) is not None:
            return look_up_addresses(origin)
        if origin not in self._lookups:
            self._lookups[origin] = lookup = look_up(origin)
            lookup.add_done_callback(lambda _: self._lookups.pop(origin))
        found = await asyncio.shield(self._lookups[origin])
        if isinstance(found, OSError):
            raise found
        return found


def lasting_error(detail: str) -> RequestRefusedError:
    """An error that a retry cannot fix: the user must change a setting first."""
    return RequestRefusedError(Failure(Trouble.NETWORK, detail), final=True)


def explain_os_error(error: OSError) -> str:
    match error:
        case socket.gaierror():
            return f"the name is not known ({error.strerror})"
        case ConnectionRefusedError():
            return "refused. Is a server running there?"
        case ConnectionResetError() | BrokenPipeError():
            return "the other side closed the connection"
        case _:
            return error.strerror or type(error).__name__


# --- names and addresses ----------------------------------------------------------------------------

Address = tuple[int, tuple[object, ...]]  # family, and the address for the kernel
Found = Sequence[Address] | OSError


def look_up_addresses(origin: HttpOrigin) -> Sequence[Address]:
    # As bytes: for a `str` Python loads its IDNA tables, which takes 10 ms. A host here is ASCII.
    found = socket.getaddrinfo(origin.host.encode(), origin.port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


def look_up(origin: HttpOrigin) -> asyncio.Future[Found]:
    """In a thread of its own that is never joined. The loop joins its threads when it ends, so a name server that does
    not answer would delay the end of the process.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Found] = loop.create_future()

    def settle(found: Found) -> None:
        if not answer.done():
            answer.set_result(found)

    def work() -> None:
        try:
            found: Found = look_up_addresses(origin)
        except OSError as error:
            found = error
        with suppress(RuntimeError):  # the loop is closed: the result is not needed any more
            loop.call_soon_threadsafe(settle, found)

    Thread(target=work, name=f"look up {origin.host}", daemon=True).start()
    return answer


async def first_to_answer(found: Sequence[Address]) -> socket.socket:
    """A connected socket. Addresses are tried in order, the next one in parallel after a head start, so that an address
    that drops packets (mostly broken IPv6) costs a quarter of a second.
    """
    left = list(found)
    running: set[asyncio.Task[socket.socket]] = set()
    done: set[asyncio.Task[socket.socket]] = set()
    failed: BaseException = OSError(None, "the name has no address")
    try:
        while left or running:
            if left:
                running.add(asyncio.create_task(connect_socket(left.pop(0))))
            wait = HEAD_START if left else None
            done, running = await asyncio.wait(running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            while done:
                task = done.pop()
                error = task.exception()
                if error is None:
                    return task.result()
                failed = error
        raise failed
    finally:
        for task in running | done:
            task.cancel()
            task.add_done_callback(close_late_socket)


def close_late_socket(late: asyncio.Task[socket.socket]) -> None:
    if not late.cancelled() and late.exception() is None:
        late.result().close()


async def connect_socket(address: Address) -> socket.socket:
    family, where = address
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only for TCP
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, where)
    except BaseException:
        made.close()
        raise
    return made


# --- proxies ----------------------------------------------------------------------------------------


async def open_tunnel(connection: ClientConnection, target: HttpOrigin, proxy: HttpProxy, seconds: float) -> None:
    lines = [f"CONNECT {target.place} HTTP/1.1", f"host: {target.place}"]
    if proxy.credentials:
        lines.append(f"proxy-authorization: {proxy.credentials}")
    request = "\r\n".join([*lines, "", ""]).encode()
    connection.send((request,), len(request))
    answer = await connection.head(seconds)
    if answer.status == 407:
        raise lasting_error(wants_a_password(proxy))
    if not 200 <= answer.status < 300:
        raise network_error(
            f"the proxy '{connection.place}' refuses to connect to '{target.place}': it answered {answer.status}"
        )
    if answer.body:
        raise network_error(f"the proxy '{connection.place}' sent data of its own after connecting")
    connection.answer = None


def wants_a_password(proxy: HttpProxy) -> str:
    given = "does not accept its user and password" if proxy.credentials else "requires a user and a password"
    return f"the proxy '{proxy.origin.place}' {given} (407): set them in 'http://user:password@host:port'"
