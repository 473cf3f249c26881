"""Our keys: where they come from, and how only the model's provider gets them (security K1 to K3, P9)."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.secrets.credentials import Credentials as Credentials
    from mainspring.secrets.held import find_secrets_in as find_secrets_in
    from mainspring.secrets.held import list_secrets as list_secrets
    from mainspring.secrets.helper import KeyHelper as KeyHelper
    from mainspring.secrets.redaction import passwords_in as passwords_in
    from mainspring.secrets.redaction import print_crash as print_crash
    from mainspring.secrets.redaction import redact as redact
    from mainspring.secrets.redaction import secrets_in as secrets_in

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "Credentials": "credentials",
    "KeyHelper": "helper",
    "find_secrets_in": "held",
    "list_secrets": "held",
    "passwords_in": "redaction",
    "print_crash": "redaction",
    "redact": "redaction",
    "secrets_in": "redaction",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
