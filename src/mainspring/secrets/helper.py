"""A command that prints a key: `apiKeyHelper` of the user's or administrator's settings (security K1).

It is started without a shell: words and quotes, without expansion, so that it does the same everywhere. A command with
shell syntax is refused with advice, not guessed. Its key is kept in memory for its lifetime.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections.abc import Callable, Mapping

from mainspring import processes, secrets
from mainspring.core.errors import ProviderError, UsageError
from mainspring.core.reasons import Failure, Trouble
from mainspring.secrets.held import bind_scope
from mainspring.secrets.sources import HELPER, LONGEST, validate_key

SECONDS = 30.0  # the user may have to touch a security key, but not for longer
LIFETIME = 300  # seconds; as in Claude Code
LIFETIME_VARIABLE = "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"
OF_SHELLS = frozenset("|&;<>()$`*?[~\n")  # special characters of shells


class KeyHelper:
    def __init__(
        self,
        command: str,
        environ: Mapping[str, str],
        *,
        cwd: str,
        lifetime: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.argv = program_and_words(command, environ, cwd)
        self._environ = environ
        self._lifetime = lifetime or _lifetime(environ)
        self._now = now
        self._value = ""
        self._times: int = 0  # number of calls
        self._since = 0.0
        self._lock = asyncio.Lock()
        self._checked = bind_scope(validate_key)

    def is_stale(self) -> bool:
        return not self._value or self._now() - self._since >= self._lifetime

    async def refresh(self) -> str:
        """Callers that ask while it runs share one answer."""
        before = self._times
        async with self._lock:
            if self._times == before:
                self._value = await self._ask()
                self._since = self._now()
                self._times += 1
            return self._value

    async def _ask(self) -> str:
        limits = processes.ProcessLimits(SECONDS, processes.OutputSizes(head=LONGEST + 2, tail=0))
        try:
            ended = await processes.Children().run(
                processes.ProcessSpec(self.argv, _home(self._environ), _environment(self._environ), limits)
            )
        except OSError as error:
            raise _failure(f"cannot be started: {error.strerror}") from None
        if ended.timed_out:
            raise _failure(f"did not end within {SECONDS:.0f} seconds")
        if ended.code:
            raise _failure(f"ended with {ended.code}{_last_line(ended.stderr.data)}")
        try:
            return self._checked(ended.stdout.data.decode(errors="replace"), f"what '{HELPER}' prints")
        except UsageError as error:
            raise ProviderError(Failure(Trouble.AUTH, str(error))) from None


def program_and_words(command: str, environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    rest = command.strip().removeprefix("~/")
    odd = "".join(sorted(set(rest) & OF_SHELLS))
    if odd:
        raise UsageError(
            f"'{HELPER}' runs without a shell, but contains {odd!r}: put the command into a script, and use its path"
        )
    try:
        words = shlex.split(rest)
    except ValueError:
        raise UsageError(f"'{HELPER}' has a quote that is not closed") from None
    if not words or "=" in words[0]:
        raise UsageError(f"'{HELPER}' must begin with a program")
    in_home = command.strip().startswith("~/")
    name = f"{_home(environ).rstrip('/')}/{words[0]}" if in_home else words[0]
    return (_program(name, environ, cwd), *words[1:])


def _program(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """By its path, or by name from the system's folders; never by name from the working folder (security T3)."""
    if "/" in name and not name.startswith("/"):
        raise UsageError(f"'{HELPER}' names '{name}', a relative path: use an absolute path")
    path = name if name.startswith("/") else processes.find_program(name, path=environ.get("PATH", ""), outside=(cwd,))
    if path is None or not os.access(path, os.X_OK):
        raise UsageError(f"'{HELPER}' names '{name}', which was not found: use the absolute path of a program")
    if os.stat(path).st_mode & 0o002:  # noqa: PTH116  # pathlib takes 8 ms to load
        raise UsageError(f"'{HELPER}' names '{path}', which every user can change: run 'chmod o-w {path}'")
    return path


def _home(environ: Mapping[str, str]) -> str:
    """The working folder: not a project, which could contain files that it reads."""
    home = environ.get("HOME", "")
    return home if home.startswith("/") and os.path.isdir(home) else "/"  # noqa: PTH112  # as above


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Not the list for programs that a model starts: this one is the user's own, and may need the token of a vault to
    get the key. Our own variables are not passed.
    """
    return {name: value for name, value in environ.items() if not processes.is_own_variable(name)}


def _lifetime(environ: Mapping[str, str]) -> float:
    said = environ.get(LIFETIME_VARIABLE, "")
    return int(said) / 1_000 if said.isdecimal() and int(said) else LIFETIME


def _last_line(data: bytes) -> str:
    lines = data.decode(errors="replace").strip().splitlines()
    shown = "".join([char for char in secrets.redact(lines[-1])[:200] if char.isprintable()]) if lines else ""
    return f" and printed '{shown}'" if shown else ""


def _failure(words: str) -> ProviderError:
    return ProviderError(Failure(Trouble.AUTH, f"'{HELPER}' {words}: run it in a terminal to find the problem"))
