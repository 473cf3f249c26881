"""The sandbox of a session: which level the settings ask for, whether it is available, and what it lets through.

It is loaded only when needed: for the first command, or when a caller asks for the level.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from mainspring import permissions, processes, sandbox, sessions, tools
from mainspring.agent.options import StartError, log_warning
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.settings.values import SandboxOptions as Wanted

if TYPE_CHECKING:
    from mainspring.permissions.policy import PermissionPolicy
    from mainspring.processes.child import ProcessSpec, SandboxAccess
    from mainspring.sandbox.proxy import ProxyNetwork
    from mainspring.sandbox.sandbox import NetworkAccess, SandboxRunner, SandboxStatus

TOLD = "sandbox-told"  # a file in our home: the last reason without a sandbox that the user has seen


class SandboxConfig(Bundle):
    wanted: Wanted
    folders: tuple[str, ...]
    home: str | None  # ours
    path: str  # where to look for programs
    policy: Callable[[], PermissionPolicy]
    unreadable: Callable[[], tuple[tuple[str, ...], bool]]  # paths that rules deny to read; whether that is all
    masked: tuple[str, ...] = ()  # unreadable for every command: key files, and what the settings deny
    writable: tuple[str, ...] = ()  # outside the workspace
    read_only: tuple[str, ...] = ()
    tell: Callable[[str], object] = log_warning  # receives the reason if there is none
    persist: bool = True  # False: the search for a sandbox stores nothing in our home


class SessionSandbox:
    def __init__(self, ground: SandboxConfig) -> None:
        self._ground = ground
        self._standing: SandboxStatus | None = None
        self._sandbox: SandboxRunner | None = None
        self._network: ProxyNetwork | None = None
        self._way: NetworkAccess | None = None
        self._temp = ""
        self._told = False
        self._noted: set[str] = set()
        self.policy = ground.policy
        self._hidden: tuple[tuple[str, ...], bool] | None = None
        self._hidden_rules: tuple[str, ...] = ()
        if is_required(ground.wanted):
            _ = self.standing  # raises if it is not available

    @property
    def standing(self) -> SandboxStatus:
        """The sandbox in force. The first access probes for it, which may take a moment."""
        if self._standing is None:
            ground, wanted = self._ground, self._ground.wanted
            level = level_of(wanted)
            answer = sandbox.ProbeResult(None)
            if level is not sandbox.SandboxLevel.OFF:
                home = ground.home or "/"  # if it is not writable, the probe uses another directory
                with suppress(OSError):
                    if ground.persist:
                        sessions.make_folder(home)  # on a fresh machine it does not exist yet
                # Landlock prevents new files at the top of a repository, so it is used only if a sandbox is required.
                kinds = (
                    tuple(sandbox.SandboxBackend)
                    if level is sandbox.SandboxLevel.REQUIRED
                    else (sandbox.SandboxBackend.BUBBLEWRAP,)
                )
                answer = sandbox.probe_sandbox(
                    home, path=ground.path, outside=ground.folders, kinds=kinds, stores=ground.persist
                )
            try:
                self._standing = sandbox.decide_status(level, answer)
            except UsageError as error:
                raise StartError(str(error)) from None
        return self._standing

    @property
    def in_force(self) -> bool:
        return self.standing.program is not None

    @property
    def auto_allow(self) -> bool:
        return self._ground.wanted.auto_allow

    @property
    def words(self) -> str:
        return self.standing.words

    async def open(self) -> None:
        """Starts the proxy if the settings list domains; without it, commands have no network."""
        if not self._ground.wanted.domains or self.standing.level != "bubblewrap":  # landlock cannot reach a proxy
            return
        gate = permissions.proxy_gate(self.policy, self._ground.wanted.domains)
        self._network = sandbox.ProxyNetwork(sandbox.SandboxProxy(gate), outside=self._ground.folders)
        self._way = await self._network.__aenter__()

    def walls(self, command: str, leave: bool) -> processes.SandboxAccess:  # a callback
        """What a command may reach; `leave`: it asks to run outside the sandbox."""
        if self.standing.level != "bubblewrap":
            self._tell()
        return self._walls(command, leave) if self.in_force else processes.SandboxAccess.NONE

    def _walls(self, command: str, leave: bool) -> SandboxAccess:  # a callback
        wanted = self._ground.wanted
        return tools.walls_of(tools.SandboxExclusions(wanted.excluded, wanted.may_be_left))(command, leave)

    def hides_denied(self, command: str, leave: bool) -> bool:  # a callback
        """Whether the sandbox hides all files from a command that rules deny to read."""
        if leave or not self.in_force:
            return False
        # The sandbox does not know rules that were added after it was built.
        complete = self._unreadable()[1] and self._hidden_rules == _reading_rules(self.policy())
        return complete and self._walls(command, leave) is not processes.SandboxAccess.NONE

    def uncontained(self, command: str, leave: bool) -> str:  # a callback
        """Why a command may have effects outside of the workspace; empty if it cannot. Landlock cannot keep modes and
        times of files outside, nor end what a command leaves running."""
        if self.standing.level != "bubblewrap":
            return "it would run without a sandbox, or in a weaker one (Landlock)"
        if leave or self._walls(command, leave) is processes.SandboxAccess.NONE:
            return "it would run outside of the sandbox"
        return "it can reach the hosts of 'sandbox.network.allowedDomains'" if self._ground.wanted.domains else ""

    @contextmanager
    def around(self, job: ProcessSpec) -> Generator[ProcessSpec]:
        if not self.in_force:
            yield job
            return
        with self._runner.around(job) as inside:
            yield self._with_policy(inside)

    def around_waiting(self, job: ProcessSpec, held: ExitStack) -> ProcessSpec | None:
        """The same for a job that waits for its command. None: not in the sandbox of this session."""
        if not self.in_force:
            return None
        inside = self._runner.around_waiting(job, held)
        return None if inside is None else self._with_policy(inside)

    def _with_policy(self, job: ProcessSpec) -> ProcessSpec:
        """What waits under other rules is not used."""
        return job if job.built_from is None else job._replace(built_from=(job.built_from, self.policy()))

    @property
    def _runner(self) -> SandboxRunner:
        if self._sandbox is None:
            try:
                self._sandbox = self._build()
            except OSError as error:
                raise no_writable_folder_error(error) from None
        return self._sandbox

    def notes(self, said: tuple[str, ...]) -> tuple[str, ...]:
        """The notes of a command that this session has not shown yet."""
        new = tuple(dict.fromkeys([note for note in said if note not in self._noted]))
        self._noted.update(new)
        return new

    async def close(self) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
        if self._network is not None:
            await self._network.__aexit__(None, None, None)
        if self._temp:
            import shutil

            shutil.rmtree(self._temp, ignore_errors=True)
            with suppress(OSError):  # other sessions use it, or it is the system's
                os.rmdir(os.path.dirname(self._temp))  # noqa: PTH106, PTH120  # pathlib takes 8 ms to load

    def _build(self) -> SandboxRunner:
        ground = self._ground
        state = self._state_folder()
        temp = f"{self._own_folder()}/tmp"  # noqa: S108  # in a directory of our own
        os.makedirs(temp, 0o700, exist_ok=True)  # noqa: PTH103
        denied = (*ground.masked, *self._unreadable()[0])
        shared = os.path.dirname(self._own_folder())  # noqa: PTH120  # as above
        kept = tuple([path for path in (ground.home, os.environ.get("HOME"), shared) if path])
        rooms = sandbox.SandboxLayout(
            ground.folders,
            temp,
            state,
            writable=ground.writable,
            denied=denied,
            kept=kept,
            read_only=ground.read_only,
        )
        return sandbox.build_sandbox(self.standing, rooms, way=self._way)

    def _state_folder(self) -> str:
        """In our home; if that is not writable (read-only, full), in the system's temporary directory, with a warning.
        Without either no command runs: it would run outside the sandbox."""
        home = self._ground.home
        if home is None:
            return checked_folder(f"{self._own_folder()}/sandbox")
        try:
            return checked_folder(f"{home}/sandbox")
        except OSError as error:
            state = self._shared_folder()
            self._ground.tell(f"'{home}' is not writable ({error.strerror}): the sandbox uses '{state}' instead")
            return state

    def _shared_folder(self) -> str:
        """One for all sessions of this user, which share its locks; if another user owns it, one for this session."""
        shared = os.path.dirname(self._own_folder())  # noqa: PTH120  # pathlib takes 8 ms to load
        return checked_folder(f"{shared if is_of_user(shared) else self._own_folder()}/sandbox")

    def _unreadable(self) -> tuple[tuple[str, ...], bool]:
        """Computed once: a session has one sandbox."""
        if self._hidden is None:
            self._hidden = self._ground.unreadable()
            self._hidden_rules = _reading_rules(self._ground.policy())
        return self._hidden

    def _own_folder(self) -> str:
        """The temporary directory of this session. Those of a user are in one directory, which hooks see in '/tmp' and
        cannot change."""
        if not self._temp:
            import tempfile

            temp = tempfile.gettempdir()
            if temp in self._ground.folders:  # Python's last resort: a command could replace it there
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/tmp")  # noqa: S108
            shared = f"{temp}/mainspring-{os.getuid()}"
            with suppress(OSError):
                os.mkdir(shared, 0o700)  # noqa: PTH102
            self._temp = tempfile.mkdtemp(prefix="mainspring-", dir=shared if is_of_user(shared) else temp)
        return self._temp

    def _tell(self) -> None:
        """Warns once per home and reason, not in every session."""
        standing, home = self.standing, self._ground.home
        if self._told or standing.wanted == "off":
            return
        self._told = True
        if home is not None and self._ground.persist:
            with suppress(OSError), open(f"{home}/{TOLD}", encoding="utf-8") as file:  # noqa: PTH123
                if file.read(4_096) == standing.reason:
                    return
            with suppress(OSError):
                fd = os.open(f"{home}/{TOLD}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(standing.reason)
        how = "in a weaker sandbox (Landlock)" if standing.program else "without a sandbox"
        self._ground.tell(f"commands run {how}: {standing.reason}")


def checked_folder(path: str) -> str:
    """Creates the directory if it is missing. Raises `OSError` if it is not writable."""
    import tempfile

    os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103  # pathlib takes 8 ms to load
    os.rmdir(tempfile.mkdtemp(dir=path))  # noqa: PTH106
    return path


def is_of_user(folder: str) -> bool:
    """Whether only this user can open the directory: in a temporary directory another user may own its name."""
    with suppress(OSError):
        found = os.lstat(folder)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return False


def no_writable_folder_error(error: OSError) -> UsageError:
    return sandbox.SandboxError(
        f"the sandbox has no writable directory ({error.strerror}: '{error.filename}'), so the command was not run. "
        "Free some space, set TMPDIR to a writable directory, or switch the sandbox off in your settings"
    )


def is_required(wanted: Wanted) -> bool:
    """Also if the settings deny paths to commands: only the sandbox can enforce that."""
    return wanted.required or (wanted.enabled is not False and bool(wanted.unreadable or wanted.read_only))


def level_of(wanted: Wanted) -> sandbox.SandboxLevel:
    if is_required(wanted):
        return sandbox.SandboxLevel.REQUIRED
    return sandbox.SandboxLevel.OFF if wanted.enabled is False else sandbox.SandboxLevel.ON


def _reading_rules(policy: PermissionPolicy) -> tuple[str, ...]:
    return tuple([rule.text for rule in permissions.sort_rules(policy.rules).reading])
