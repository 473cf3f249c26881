"""Anthropic's models on Google Vertex AI: the Messages API with the model in the path and a short-lived token.

google-auth finds the credentials as every Google tool does. That may read files and call servers, so it runs in a
thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.reasons import Failure, Trouble
from mainspring.providers.anthropic.provider import Anthropic
from mainspring.providers.http_provider import ApiKey
from mainspring.providers.projection import ProjectedParts
from mainspring.secrets.held import bind_scope, hold_secrets

VERSION = "vertex-2023-10-16"
LARGEST = 30_000_000  # bytes of a request, as documented for these models
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
FILE = "GOOGLE_APPLICATION_CREDENTIALS"
NO_CREDENTIALS = f"no Google credentials were found: run 'gcloud auth application-default login', or set {FILE}"


def is_google_auth_installed() -> bool:
    return (
        find_spec("google") is not None and find_spec("google.auth") is not None and find_spec("requests") is not None
    )


class GoogleCredentialChain:
    """Tokens from google-auth's chain. `environment` is the session's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._credentials: Any = None
        self._lock = threading.Lock()
        self._hold = bind_scope(hold_secrets)  # this session also holds tokens that it gets later

    @property
    def key(self) -> ApiKey:
        return ApiKey("", "authorization", self.refresh, self.is_stale)

    def is_stale(self) -> bool:
        """Also shortly before it expires."""
        return self._credentials is None or not self._credentials.valid

    async def refresh(self) -> str:
        """A new token. Raises `ProviderError`."""
        token = await asyncio.to_thread(self._fetch_token)
        self._hold(token)
        return token

    def _fetch_token(self) -> str:
        exceptions: Any = import_module("google.auth.exceptions")
        transport: Any = import_module("google.auth.transport.requests")
        try:
            with self._lock:
                if self._credentials is None:
                    self._credentials = load_from_chain(self._environment)
                self._credentials.refresh(transport.Request())
                return str(self._credentials.token or "")
        except exceptions.DefaultCredentialsError as error:
            said = f"Google credentials could not be loaded: {error}" if self._environment.get(FILE) else NO_CREDENTIALS
            raise ProviderError(Failure(Trouble.AUTH, said)) from None
        except exceptions.TransportError as error:
            raise ProviderError(Failure(Trouble.NETWORK, f"no Google token could be fetched: {error}")) from None
        except exceptions.GoogleAuthError as error:
            passing = bool(getattr(error, "retryable", False))
            self._credentials = None  # the file may change until the next attempt
            kind = Trouble.NETWORK if passing else Trouble.AUTH
            raise ProviderError(Failure(kind, f"no Google token could be fetched: {error}")) from None


def load_from_chain(environment: Mapping[str, str]) -> Any:
    """google-auth's credentials. Its chain reads the variables of the process; the session's file wins.

    Its warnings are for programs that load files of strangers or want another quota: a terminal is no place for them.
    """
    auth: Any = import_module("google.auth")
    path = environment.get(FILE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path and path != os.environ.get(FILE):
            return auth.load_credentials_from_file(path, scopes=[SCOPE])[0]
        return auth.default(scopes=[SCOPE])[0]


class VertexAnthropic(Anthropic):
    largest = LARGEST
    search_betas = ("web-search-2025-03-05",)  # as documented by Google; Anthropic itself needs none

    def __init__(self, key: ApiKey, *, project: str, region: str, base_url: str = "", **how: Any) -> None:
        """`how`: as for `Anthropic`."""
        how.setdefault("prefix", "vertex/")
        super().__init__(key, base_url=base_url or address_in(region), **how)
        self._place = f"/projects/{quote(project, safe='')}/locations/{quote(region, safe='')}/publishers/anthropic"

    @property
    def searches_web(self) -> bool:
        return True

    # --- implementation of `HttpProvider` ---

    def _where(self, request: Request) -> str:
        return f"{self._url}{self._place}/models/{quote(self._model(request), safe='-._~@')}:streamRawPredict"

    def _settings(self, request: Request, projected: ProjectedParts) -> dict[str, object]:
        settings = super()._settings(request, projected)
        del settings["model"]
        return {"anthropic_version": VERSION} | settings

    def _headers(self, request: Request) -> dict[str, str]:
        headers = super()._headers(request)
        del headers["anthropic-version"]
        return headers

    @property
    def _keyed(self) -> bool:
        return True


def address_in(region: str) -> str:
    if region == "global":
        return "https://aiplatform.googleapis.com/v1"
    if "-" not in region:  # a part of the world, such as `eu`
        return f"https://aiplatform.{region}.rep.googleapis.com/v1"
    return f"https://{region}-aiplatform.googleapis.com/v1"
