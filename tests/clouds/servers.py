"""A token server like Google's, on loopback, and a service account that uses it."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


def make_service_account(url: str) -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    written = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "1",
        "private_key": written.decode(),
        "client_email": "robot@my-project.iam.gserviceaccount.com",
        "token_uri": url,
    }


class TokenServer:
    """google-auth blocks a thread of its own, so this server runs in one, too."""

    def __init__(self) -> None:
        self.grants: list[str] = []
        self.seconds = 3_600
        self.refuses = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class TokenHandler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                owner.grants.append(body["grant_type"][0])
                token = {"access_token": f"ya29.token-number-{len(owner.grants)}", "expires_in": owner.seconds}
                refusal = {"error": "invalid_grant", "error_description": "Invalid grant: account not found"}
                answer = json.dumps(refusal if owner.refuses else {**token, "token_type": "Bearer"}).encode()
                self.send_response(400 if owner.refuses else 200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing: tests print no requests."""

        return TokenHandler
