"""Whom we trust: the certificates that a server's own must be signed by.

What is named wins: the setting, then `SSL_CERT_FILE` and `SSL_CERT_DIR`, else the system's store. To any of them
`NODE_EXTRA_CA_CERTS` is added, because people who come from Claude Code have their company's authority there.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle

# Directories of certificates by hash: OpenSSL looks up the one it needs, 0.1 ms. Reading a whole bundle takes 20.
# Debian, Alpine, SUSE and Arch; Fedora and its kin.
HASHED = ("/etc/ssl/certs", "/etc/pki/ca-trust/extracted/pem/directory-hash")


class TrustedCertificates(Bundle):
    """Files and directories, each with the name of the setting that it comes from."""

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
        return await asyncio.to_thread(build_ssl_context, trusted, hashed)  # bundles to read: not on the loop's time
    return build_ssl_context(trusted, hashed)


def build_ssl_context(trusted: TrustedCertificates, hashed: str | None) -> ssl.SSLContext:
    if trusted.files or trusted.directories or hashed:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks the certificate and the host's name
    else:
        made = ssl.create_default_context()
    made.minimum_version = max(made.minimum_version, ssl.TLSVersion.TLSv1_2)  # Debian's Python leaves it to the system
    for setting, file in (*trusted.files, *trusted.extra):
        try:
            made.load_verify_locations(cafile=file)
        except OSError as error:  # an ssl.SSLError is one
            reason = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
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
    """The first with certificates by their hash, such as `002c0b4f.0`. OpenSSL finds no others in a directory."""
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
        way_out = "If your company's own authority signs for it, name that authority's file in SSL_CERT_FILE"
        if "mismatch" in error.verify_message:
            way_out = "Is the address right?"
        return f"the certificate of '{host}' is not accepted: {error.verify_message.rstrip('.')}. {way_out}"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return f"'{host}' does not speak TLS there: is it 'http://' instead of 'https://'?"
    return f"no TLS with '{host}': {(error.reason or str(error)).lower().replace('_', ' ')}"
