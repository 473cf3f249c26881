"""Secrets by their names: variables and headers that somebody wrote down, used or not (security K3).

What settings give to a server or to the commands of tools is covered in all that we store and show, as our own keys
are. A name alone is not enough: `MAX_TOKENS` is a number, `SSH_KEY_PATH` a path, and to cover such a value wherever it
stands would spoil the files of a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mainspring.processes.environment import sounds_secret
from mainspring.secrets.held import LEAST_KEY, spell_password

SHORT_KEY = 12  # characters of one that has letters and something else
HEADERS = ("authorization", "proxy-authorization")


def secrets_in(named: Mapping[str, str]) -> list[str]:
    """Of variables and headers. Behind the scheme of a header stands the secret itself."""
    words = [value.split()[-1] for name, value in named.items() if value.strip() and is_secret(name)]
    return [word for word in words if looks_secret(word)]


def is_secret(name: str) -> bool:
    return sounds_secret(name) or name.lower() in HEADERS


def looks_secret(word: str) -> bool:
    if word.startswith(("/", "~", "./", "../", "${")) or "://" in word or word.replace(".", "").isdecimal():
        return False
    return len(word) >= LEAST_KEY or (len(word) >= SHORT_KEY and not word.isalpha())


def passwords_in(addresses: Iterable[str]) -> list[str]:
    """Of `https://name:password@host`."""
    users = [one.partition("://")[2].partition("/")[0].rpartition("@")[0] for one in addresses]
    return [word for user in users if user for word in spell_password(user)]
