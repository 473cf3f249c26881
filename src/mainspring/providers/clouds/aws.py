"""Credentials of AWS, from botocore's chain, and signatures of requests (Signature Version 4).

botocore finds the credentials as every AWS tool does: variables, profiles, SSO, roles, containers, instances. That may
read files, start programs and call servers, so it runs in a thread. Signing is here: it needs no more than hashes, and
a request of many pieces is hashed without joining them. `tests/clouds` compares it with botocore's.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.value import Bundle
from mainspring.providers.http.proxy import split_url
from mainspring.secrets.held import bind_scope, hold_secrets

ALGORITHM = "AWS4-HMAC-SHA256"
EARLY = 120  # seconds before credentials expire, to get new ones
NO_CREDENTIALS = "no AWS credentials were found: run 'aws configure' or 'aws sso login', or set AWS_PROFILE"


class AwsCredentials(Bundle):
    access_key: str
    secret_key: str
    token: str = ""

    def __repr__(self) -> str:
        return "AwsCredentials()"  # tracebacks and logs show this


# --- the chain ----------------------------------------------------------------------------------------------------


def is_botocore_installed() -> bool:
    return find_spec("botocore") is not None


class AwsCredentialChain:
    """The current credentials, and how to get new ones. `environment` is the session's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._expires_soon: Callable[[], bool] = lambda: False
        self._hold = bind_scope(hold_secrets)  # this session also holds credentials that it gets later
        self.current: AwsCredentials | None = None

    def is_stale(self) -> bool:
        return self.current is None or self._expires_soon()

    async def refresh(self) -> str:
        """Go through the chain again, and return a text that differs if the credentials do. Raises `ProviderError`."""
        found, self._expires_soon = await asyncio.to_thread(find_credentials, self._environment)
        self._hold(found.secret_key, found.token)
        self.current = found
        return f"{found.access_key} {found.secret_key} {found.token}"


def find_credentials(environment: Mapping[str, str]) -> tuple[AwsCredentials, Callable[[], bool]]:
    """The credentials, and whether they expire soon. Blocks. Raises `ProviderError`."""
    exceptions: Any = import_module("botocore.exceptions")
    try:
        found = load_from_chain(environment)
        frozen = found.get_frozen_credentials() if found is not None else None
    except (exceptions.HTTPClientError, OSError) as error:
        raise ProviderError(Failure(Trouble.NETWORK, f"AWS credentials could not be fetched: {error}")) from None
    except (exceptions.BotoCoreError, exceptions.ClientError, RuntimeError) as error:
        raise ProviderError(Failure(Trouble.AUTH, f"AWS credentials could not be loaded: {error}")) from None
    if found is None or frozen is None or not frozen.access_key or not frozen.secret_key:
        raise ProviderError(Failure(Trouble.AUTH, NO_CREDENTIALS))
    needed: Callable[..., bool] | None = getattr(found, "refresh_needed", None)  # only if they expire
    soon = (lambda: needed(refresh_in=EARLY)) if needed is not None else lambda: False
    return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token or ""), soon


# Variables of the session that configure the chain, and botocore's names for them.
VARIABLES = {
    "AWS_PROFILE": "profile",
    "AWS_CONFIG_FILE": "config_file",
    "AWS_SHARED_CREDENTIALS_FILE": "credentials_file",
    "AWS_REGION": "region",
}


# Their files, where no variable names them: botocore looks in the home folder of the process.
FILES = {"config_file": ".aws/config", "credentials_file": ".aws/credentials"}


def load_from_chain(environment: Mapping[str, str]) -> Any:
    """botocore's credentials, or None. Its chain reads the variables of the process; those of the session win."""
    sources: Any = import_module("botocore.credentials")
    session: Any = import_module("botocore.session").Session()
    for variable, name in VARIABLES.items():
        if value := environment.get(variable):
            session.set_config_variable(name, value)
        elif name in FILES and (home := environment.get("HOME")):
            session.set_config_variable(name, f"{home}/{FILES[name]}")
    resolver = session.get_component("credential_provider")
    kinds = (sources.EnvProvider, sources.OriginalEC2Provider, sources.BotoProvider, sources.ContainerProvider)
    ours = {kind: kind(environ=environment) for kind in kinds}
    chain = [ours.get(type(provider), provider) for provider in resolver.providers]
    if environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        chain = [provider for provider in chain if not isinstance(provider, sources.InstanceMetadataProvider)]
    resolver.providers[:] = chain
    return resolver.load_credentials()


# --- signatures ---------------------------------------------------------------------------------------------------


class SigningScope(Bundle):
    region: str
    service: str = "bedrock"


def sign_request(  # noqa: PLR0913, PLR0917  # the parts of a request
    url: str,
    headers: Mapping[str, str],
    body: Iterable[bytes],
    credentials: AwsCredentials,
    scope: SigningScope,
    now: float,
) -> dict[str, str]:
    """The headers to add to a POST request. `headers`: those that the signature covers, besides the host's."""
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    added = {"x-amz-date": at}
    if credentials.token:
        added["x-amz-security-token"] = credentials.token
    origin, path = split_url(url)
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": origin.authority} | added
    names = ";".join(sorted(signed))
    request = describe_request(path, signed, names, hash_pieces(body))
    place = f"{at[:8]}/{scope.region}/{scope.service}/aws4_request"
    text = "\n".join([ALGORITHM, at, place, sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in place.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    who = f"Credential={credentials.access_key}/{place}, SignedHeaders={names}, Signature={signature}"
    return {**added, "authorization": f"{ALGORITHM} {who}"}


def describe_request(path: str, signed: Mapping[str, str], names: str, payload: str) -> str:
    """The canonical request: a path that is encoded once more, sorted parameters, sorted headers."""
    path, _, query = path.partition("?")
    pairs = sorted([tuple(pair.split("=", 1)) if "=" in pair else (pair, "") for pair in query.split("&") if pair])
    said = "&".join([f"{name}={value}" for name, value in pairs])
    lines = [f"{name}:{signed[name]}" for name in sorted(signed)]
    return "\n".join(["POST", quote(path, safe="/~"), said, *lines, "", names, payload])


def hash_pieces(body: Iterable[bytes]) -> str:
    digest = sha256()
    for piece in body:
        digest.update(piece)
    return digest.hexdigest()
