"""Finds the session to resume and opens its file. The code that reads a session is imported only to resume one."""
# pathlib takes 8 ms to load

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mainspring import agent, processes, sessions
from mainspring.agent.options import CHECKPOINTS, NO_CHECKPOINTS, SessionOptions, StartError
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.engine.session_deps import new_id
from mainspring.sessions.journal import FileJournal, JournalOptions, JournalWriteError, SessionInUse
from mainspring.sessions.line_format import DEMO, TESTS, Envelope
from mainspring.sessions.paths import file_of, folder_of, history_folder, id_of, read_log
from mainspring.settings.load import home_folder, other_homes
from mainspring.version import __version__

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.sessions.decoder import LoadedSession

Mirrored = Callable[[str, bytes], None]  # a file, and lines that were written to it

YES = ("1", "true")
NOT_STORED = "this session is not stored"
LONGEST_DRIVER, LONGEST_HEAD = 50, 1_000  # characters
ON_BRANCH = "ref: refs/heads/"
MOST_WARNINGS = 5  # of a damaged file; `mainspring sessions show` has them all


class ResumeError(StartError):
    """The requested session cannot be resumed. stream-json also reports it as a result."""


class OpenedSession(Bundle):
    session_id: str
    journal: FileJournal | None  # None: the session is not stored
    loaded: LoadedSession | None = None  # None: the session is new
    scratch: str = ""  # the private directory of a session that does not persist; empty: there is none

    def close(self) -> None:
        if self.journal is not None:
            self.journal.close()
        if self.scratch:
            import shutil

            shutil.rmtree(self.scratch, ignore_errors=True)


class SessionLocation(Bundle):
    """Where the sessions of this process are stored, and the fields of their lines."""

    home: str | None  # where new sessions are stored
    cwd: str
    secrets: tuple[str, ...]
    mirror: Mirrored | None = None  # receives each line of them, too (stream-json 14.5)
    entrypoint: str = "cli"  # names the program that drives us
    branch: str = ""  # of the repository in the working directory
    others: tuple[str, ...] = ()  # further homes where sessions may be
    lists_others: bool = False  # whether lists, and the newest session, include those of the others

    @property
    def folder(self) -> str:
        return folder_of(self.home or "", self.cwd)

    @property
    def homes(self) -> tuple[str, ...]:
        """Where a session is searched by name."""
        return (self.home, *self.others) if self.home is not None else ()

    @property
    def listed_homes(self) -> tuple[str, ...]:
        return self.homes if self.lists_others else self.homes[:1]

    def envelope(self, session_id: str) -> Envelope:
        return Envelope(session_id, self.cwd, __version__, self.entrypoint, self.branch)


def open_journal(config: ResolvedConfig, mirror: Mirrored | None = None) -> OpenedSession:
    """The file of the session that the options name, or of a new one. Raises `StartError`."""
    place = new_place(config.environment, config.cwd, (), mirror, config.options.sessions_home)
    if not config.options.persist:
        return open_private_session(config.options, place, new_id(), keeps_files=wants_checkpoints(config))
    is_test = getattr(config.supplied.provider, "is_for_tests", False)
    if is_test:
        place = replace(place, entrypoint=TESTS)
    is_trial = is_test or config.loop.model.name.startswith(DEMO)
    return open_session_file(config.options, place, new_id(), trials=is_trial)


def open_session_file(
    options: SessionOptions, place: SessionLocation, new_id: str, *, trials: bool = False
) -> OpenedSession:
    """`new_id`: the id of a new session, unless the options name one. `trials`: the session to continue may be one of a
    model for tests or of the demo's."""
    check_session_options(options)
    session_id = options.session_id or new_id
    if place.home is None:
        return open_unstored_session(options, session_id)
    settings = journal_options(options, place)
    try:
        found = find_session_to_resume(options, place, trials=trials)
        if found is not None:
            return resume_session_file(options, place, found, session_id, settings)
        file = file_of(place.folder, session_id)
        return OpenedSession(session_id, FileJournal.create(file, place.envelope(session_id), settings))
    except (UsageError, JournalWriteError) as error:
        raise StartError(str(error)) from None


def new_place(
    environment: Mapping[str, str],
    cwd: str,
    secrets: tuple[str, ...],
    mirror: Mirrored | None = None,
    home: str | None = None,
) -> SessionLocation:
    """`home`: the only place of sessions; None: ours, and the others where sessions may be."""
    driver = environment.get("CLAUDE_CODE_ENTRYPOINT", "")
    entrypoint = driver if driver.isprintable() and len(driver) <= LONGEST_DRIVER else ""
    others, has_usual_home = other_homes(environment) if home is None else ((), False)
    return SessionLocation(
        home or home_folder(environment),
        cwd,
        secrets,
        mirror,
        entrypoint or "cli",
        branch_of(cwd),
        others,
        has_usual_home,
    )


def branch_of(folder: str) -> str:
    """Read from `.git/HEAD`: git itself takes several milliseconds. Empty: there is no repository, or no branch."""
    while True:
        try:
            head = os.open(f"{folder}/.git/HEAD", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it may be a pipe
            try:
                said = os.read(head, LONGEST_HEAD).decode(errors="replace").strip()
            finally:
                os.close(head)
            return said.removeprefix(ON_BRANCH) if said.startswith(ON_BRANCH) and said.isprintable() else ""
        except OSError:
            above = folder.rpartition("/")[0]
            if not above or above == folder:
                return ""
            folder = above


def check_session_options(options: SessionOptions) -> None:
    goes_on = options.resume is not None or options.continue_conversation
    spell = options.spell
    for name, said in (("fork_session", options.fork_session), ("resume_session_at", options.resume_session_at)):
        if said and not goes_on:
            raise options.error(name, f" needs '{spell('resume', 'ID')}' or '{spell('continue_conversation')}'")
    if options.resume_drops_turn and not options.resume_session_at:
        raise options.error("resume_drops_turn", f" needs '{spell('resume_session_at', 'UUID')}'")
    if options.session_id and goes_on and not options.fork_session:
        either, fork = f"'{spell('resume')}' or '{spell('continue_conversation')}'", spell("fork_session")
        raise options.error("session_id", f" sets the id of a new session: with {either}, add '{fork}'")


def open_unstored_session(options: SessionOptions, session_id: str) -> OpenedSession:
    if options.resume:
        raise ResumeError(agent.format_no_session(options.resume))
    why = "no home directory found: set MAINSPRING_HOME"
    if options.require_journal:
        raise options.error("require_journal", f": {why}")
    options.tell(f"{NOT_STORED}: {why}")
    return OpenedSession(session_id, None)


# --- without persistence ----------------------------------------------------------------------------


def wants_checkpoints(config: ResolvedConfig) -> bool:
    """Whether files are stored before each prompt. The user can switch that off for every front end."""
    if config.settings.checkpoints is False or config.environment.get(NO_CHECKPOINTS) in YES:
        return False
    wanted = config.options.checkpoints
    return config.environment.get(CHECKPOINTS) in YES if wanted is None else wanted


def open_private_session(
    options: SessionOptions, place: SessionLocation, new_id: str, *, keeps_files: bool = False
) -> OpenedSession:
    """A session in memory. Its temporary files (long results, output of background commands) are in a private directory
    that `OpenedSession.close` removes. `keeps_files`: files can be rewound, so their earlier versions and the session's
    file, which lists them, are in that directory, too."""
    check_unstored_options(options)
    session_id, scratch = options.session_id or new_id, make_scratch_folder()
    if not scratch or not keeps_files:
        return OpenedSession(session_id, None, scratch=scratch)
    file = file_of(folder_of(scratch, place.cwd), session_id)
    settings = journal_options(options, replace(place, mirror=None))
    return OpenedSession(session_id, FileJournal.create(file, place.envelope(session_id), settings), scratch=scratch)


def check_unstored_options(options: SessionOptions) -> None:
    """Raises `OptionError` for options that need a stored session."""
    unstored = options.spell("persist", "False")
    resumed = ("resume", "continue_conversation", "fork_session", "resume_session_at", "resume_drops_turn")
    for name in (*resumed, "require_journal", "session_mirror"):
        if getattr(options, name):
            raise options.error(name, f" needs a stored session, and '{unstored}' stores none")


def make_scratch_folder() -> str:
    """A new directory that only this user can open, without links in its path. Empty if there can be none: then long
    results are not stored."""
    import tempfile

    try:
        return os.path.realpath(tempfile.mkdtemp(prefix="mainspring-session-"))
    except OSError:
        return ""


def journal_options(options: SessionOptions, place: SessionLocation) -> JournalOptions:
    return JournalOptions(
        require=options.require_journal,
        require_option=options.spell("require_journal"),
        on_trouble=options.tell,
        secrets=place.secrets,
        mirror=place.mirror,
    )


# --- resume -----------------------------------------------------------------------------------------


def find_session_to_resume(options: SessionOptions, place: SessionLocation, *, trials: bool = False) -> str | None:
    """The file to resume; None: a new session, also if there is none to continue."""
    if options.resume:
        file = agent.find_session_by_name(options.resume, place)
        if file is None:
            raise ResumeError(agent.format_no_session(options.resume))
        if where := agent.describe_other_home(file, place):
            options.tell(where)
        return file
    if options.continue_conversation:  # of our home only: another program may still work on a newer one of its own
        latest = sessions.find_newest_session(place.folder, trials=trials)
        return os.fspath(latest) if latest is not None else None
    return None


def resume_session_file(
    options: SessionOptions, place: SessionLocation, file: str, new_id: str, settings: JournalOptions
) -> OpenedSession:
    at, drops = options.resume_session_at or "", options.resume_drops_turn or ""
    try:
        if options.fork_session:
            loaded = sessions.load_session(file, at=at, drops=drops)
            opened = fork_loaded_session(loaded, place.folder, place.envelope(new_id), settings)
            warn_about_loaded(loaded, options)
            return opened
        session_id = id_of(file)
        loaded, journal = FileJournal.resume(file, place.envelope(session_id), settings, at=at, drops=drops)
    except OSError as error:
        raise ResumeError(f"'{file}' cannot be read: {error.strerror}") from None
    except SessionInUse as error:
        raise ResumeError(f"{error}: close it there, or fork it with '{options.spell('fork_session')}'") from None
    except sessions.WouldDropMore as error:
        spelled = sessions.WouldDropMore(error.why, options.spell("resume_drops_turn"))
        raise ResumeError(str(spelled)) from None
    except UsageError as error:
        raise ResumeError(str(error)) from None
    warn_about_loaded(loaded, options)
    return OpenedSession(session_id, journal, loaded)


def fork_loaded_session(
    loaded: LoadedSession, folder: str, envelope: Envelope, settings: JournalOptions
) -> OpenedSession:
    """Writes the conversation to a new file in this folder. Raises `UsageError` if the id of the envelope is taken."""
    forked = sessions.fork_session_state(loaded, file_of(folder, envelope.session_id))
    journal = FileJournal.fork(forked, envelope, settings)
    processes.copy_read_log(read_log(loaded.file), read_log(forked.file))
    if os.path.isdir(history_folder(loaded.file)):  # noqa: PTH112  # pathlib takes 8 ms to load
        from mainspring.checkpoints.store import link_history

        with suppress(OSError):  # then files cannot be rewound to earlier prompts
            link_history(history_folder(loaded.file), history_folder(forked.file))
    return OpenedSession(envelope.session_id, journal, forked)


def warn_about_loaded(loaded: LoadedSession, options: SessionOptions) -> None:
    for warning in loaded.warnings[:MOST_WARNINGS]:
        options.tell(warning)
    if len(loaded.warnings) > MOST_WARNINGS:
        more = len(loaded.warnings) - MOST_WARNINGS
        options.tell(f"and {more} more such lines: 'mainspring sessions show {loaded.session_id}' lists them")
