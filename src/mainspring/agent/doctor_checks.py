"""The local checks of `mainspring doctor`: one function per check, all of them in `CHECKS`.

A check yields findings; a problem says how to fix it. No check shows a key, uses the network, or runs code of a
project. The checks create the mainspring folder in the user's home, as a run would.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial

from mainspring.agent.config_checks import broken_rules, slips_in_rules
from mainspring.agent.doctor_parts import (
    Command,
    command_for_extra,
    command_for_program,
    find_missing_packages,
)
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
from mainspring.text import plural
from mainspring.version import __version__

LITTLE, NOTHING_LEFT = 1 << 30, 100 << 20  # bytes free on the disk: a note below, a problem below
AT_ONCE = 4  # probes; one after another they take 17 s, in parallel 5 s
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
    install: Command = ()  # installs the part that is missing


class DoctorContext(Bundle):
    """What the checks look at."""

    options: SessionOptions
    cwd: str
    environ: dict[str, str]  # including `env` of the user's settings
    home: str | None  # the mainspring folder in the user's home
    settings: Settings
    online: bool = False  # also ask servers

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
        yield Finding("program", CheckState.PROBLEM, words, "use Linux, macOS or WSL")


def check_terminal(here: DoctorContext) -> Findings:
    if not os.isatty(1):
        yield Finding("terminal", CheckState.OK, "none (output goes to a file or pipe)")
        return
    columns = shutil.get_terminal_size().columns
    words = f"{here.environ.get('TERM', 'unknown')}, {columns} columns, {sys.stdout.encoding}"
    if sys.stdout.encoding.lower().replace("-", "") != "utf8":
        yield Finding("terminal", CheckState.NOTE, words, "set LANG=C.UTF-8 to show all characters")
    elif columns < NARROW:
        yield Finding("terminal", CheckState.NOTE, words, f"widen it to at least {NARROW} columns")
    else:
        yield Finding("terminal", CheckState.OK, words)


def check_process(_: DoctorContext) -> Findings:
    """Hardens the process, as every run does at its start."""
    if harden_process():
        yield Finding("process", CheckState.OK, "protected from other programs of this user")
    else:
        way_out = "other programs of this user can read its memory and environment; only Linux prevents this"
        yield Finding("process", CheckState.NOTE, "cannot be protected from other programs on this system", way_out)


def check_session_folder(here: DoctorContext) -> Findings:
    """Where sessions are stored: whether it is writable, and whether other users can read it."""
    if here.home is None:
        yield Finding("sessions", CheckState.PROBLEM, "no home folder to store sessions in", "set MAINSPRING_HOME")
        return
    try:
        make_folder(f"{here.home}/projects")
        with tempfile.TemporaryFile(dir=f"{here.home}/projects"):
            pass
    except OSError as error:
        words = f"cannot write to '{here.home}/projects': {error.strerror}"
        way_out = "fix the permissions, or set MAINSPRING_HOME to another folder"
        yield Finding("sessions", CheckState.PROBLEM, words, way_out)
        return
    mode = stat.S_IMODE(os.stat(here.home).st_mode)  # noqa: PTH116  # as elsewhere: paths are texts
    if mode & 0o077:
        words = f"'{here.home}' is accessible to other users (mode {mode:o})"
        state = CheckState.NOTE if not mode & 0o022 else CheckState.PROBLEM
        yield Finding("sessions", state, words, f"run: chmod 700 '{here.home}'")
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
        yield Finding("disk", state, words, "free some space, or sessions cannot be stored")


def check_ripgrep(here: DoctorContext) -> Findings:
    beside = f"{sys.executable.rpartition('/')[0]}/rg"
    found = find_program("rg", path=here.path, outside=(here.cwd,)) or (beside if os.access(beside, os.X_OK) else None)
    if found:
        yield Finding("ripgrep", CheckState.OK, f"'{found}'")
    else:
        yield missing_part(
            "ripgrep",
            "not found; searches are about 6 times slower",
            install_program("ripgrep", here),
            "install ripgrep",
        )


def check_git(here: DoctorContext) -> Findings:
    found = find_program("git", path=here.path, outside=(here.cwd,))
    if found:
        yield Finding("git", CheckState.OK, f"'{found}'")
    else:
        words = "not found; the model does not see the git status"
        yield missing_part("git", words, install_program("git", here), "install git")


def check_packages(_: DoctorContext) -> Findings:
    for package in find_missing_packages():
        words = f"the extra '{package.extra}' is not installed; {package.costs}"
        yield missing_part("extra", words, command_for_extra(package.extra), f"install the extra '{package.extra}'")


def missing_part(name: str, words: str, command: Command, way_out: str) -> Finding:
    return Finding(name, CheckState.NOTE, words, f"run: {shlex.join(command)}" if command else way_out, command)


def install_program(package: str, here: DoctorContext) -> Command:
    return command_for_program(package, here.path, (here.cwd,))


# --- settings and keys --------------------------------------------------------------------------------------------

_WAYS_OUT = {
    ProblemKind.BROKEN: "fix this value",
    ProblemKind.WARNING: "fix this value",
    ProblemKind.UNKNOWN: "correct the name, or remove it",
    ProblemKind.UNTRUSTED: "review the file, then run 'mainspring trust' if you trust this folder",
    ProblemKind.NOT_ITS_OWN: "move it to your user settings if you want it",
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
        words = f"{plural(count, 'value')} set (see 'mainspring config')" if count else "all defaults"
        yield Finding("settings", CheckState.OK, words)


def wanted_key(here: DoctorContext) -> KeyRequest:
    api = here.settings.api
    return KeyRequest(here.environ, here.home, here.cwd, helper=api.key_helper, address=api.base_url or "")


def check_key(here: DoctorContext) -> Findings:
    """The source of the key, never a character of it."""
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
    more = " (only run with --online)" if found.source == HELPER and not here.online else ""
    yield Finding("key", CheckState.OK, f"from {found.source}{more}")
    if unused := [name for name in list_present_keys(wanted) if name != found.source]:
        words = f"also set, but not used: {', '.join(unused)}"
        yield Finding("key", CheckState.NOTE, words, "remove the ones you do not need")


def no_key(here: DoctorContext) -> Finding:
    if here.settings.api.base_url:
        return Finding("key", CheckState.OK, "none (the configured server may not need one)")
    if not is_asked_here(here):
        return Finding("key", CheckState.OK, f"none for Anthropic; '{asked_models(here)[0]}' does not need one")
    way_out = "run 'mainspring login', or set ANTHROPIC_API_KEY; for other servers, see 'mainspring help openai'"
    return Finding("key", CheckState.PROBLEM, "no API key", way_out)


def asked_models(here: DoctorContext) -> tuple[str, ...]:
    """The names of the models that a run would use, the main model first."""
    try:
        config = new_config(here.options, here.settings)
    except StartError:  # a run reports it
        config = new_config(SessionOptions(), Settings())
    return (config.model.name, *[fallback.name for fallback in config.fallbacks])


def is_asked_here(here: DoctorContext) -> bool:
    """Whether a run may need Anthropic's server, or the one configured instead of it."""
    if here.settings.api.base_url or list_present_keys(wanted_key(here)):
        return True
    try:
        return not all(is_elsewhere(name, here.settings, here.environ) for name in asked_models(here))
    except StartError:  # an unknown provider: the server check reports it
        return False


# --- the sandbox --------------------------------------------------------------------------------------------------


def check_sandbox(here: DoctorContext) -> Findings:
    """The sandbox level, and a probe of every known escape."""
    wanted = level_of(here.settings.sandbox)
    if here.home is None or not os.path.isdir(here.home):  # noqa: PTH112
        answer = ProbeResult(None, "no mainspring folder to test it in: set MAINSPRING_HOME")
    else:
        kinds = tuple(SandboxBackend) if wanted is SandboxLevel.REQUIRED else (SandboxBackend.BUBBLEWRAP,)
        answer = probe_sandbox(here.home, path=here.path, outside=(here.cwd,), kinds=kinds)
    try:
        standing = decide_status(wanted, answer)
    except UsageError as error:
        yield Finding("sandbox", CheckState.PROBLEM, str(error), "fix the cause, or do not require the sandbox")
        return
    if standing.program is None:
        words = f"off: {standing.reason}"
        way_out = (
            'set "sandbox.enabled" to true'
            if wanted is SandboxLevel.OFF
            else "until then, only permission rules protect you"
        )
        yield Finding("sandbox", CheckState.NOTE, words, way_out)
        yield from offer_bubblewrap(wanted, here)
        return
    words = f"on ({standing.kind}, '{standing.program}'), level '{wanted}'"
    if standing.kind is SandboxBackend.LANDLOCK:
        yield Finding("sandbox", CheckState.NOTE, f"{words}: {standing.reason}", "run: mainspring help sandbox")
        yield from offer_bubblewrap(wanted, here)
    else:
        yield Finding("sandbox", CheckState.OK, words)
    yield from run_sandbox_probes(standing.program, here.home or "", standing.kind)


def offer_bubblewrap(wanted: SandboxLevel, here: DoctorContext) -> Findings:
    """If it is only missing. A bubblewrap that is there and fails has another reason."""
    if (
        wanted is SandboxLevel.OFF
        or sys.platform != "linux"
        or find_program("bwrap", path=here.path, outside=(here.cwd,))
    ):
        return
    words = "bubblewrap is not installed; commands have a weaker sandbox, or none"
    yield missing_part("sandbox", words, install_program("bubblewrap", here), "install bubblewrap")


def run_sandbox_probes(program: str, home: str, kind: SandboxBackend) -> Findings:
    """Runs the probes in the mainspring folder: the sandbox hides temporary folders, so probes there show nothing."""
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
                "probes",
                CheckState.PROBLEM,
                f"failed to run: {error}",
                "run 'mainspring help sandbox', and report a bug",
            )
            return
    escaped = [outcome for outcome in outcomes if outcome.escaped]
    for outcome in escaped:
        words = f"a command can escape: {outcome.probe.name} ({outcome.said})"
        yield Finding(
            "probes", CheckState.PROBLEM, words, "update bubblewrap and the kernel; if that does not help, report a bug"
        )
    unclear = [one.probe.name for one in outcomes if not one.escaped and not _was_refused(one.probe.name, one.said)]
    if unclear:
        words = f"{plural(len(unclear), 'probe')} did not start: {', '.join(unclear)}"
        yield Finding("probes", CheckState.PROBLEM, words, "run 'mainspring help sandbox', and report a bug")
    elif not escaped:
        yield Finding("probes", CheckState.OK, f"{plural(len(outcomes), 'escape')} tried, all blocked")


def _was_refused(name: str, said: str) -> bool:
    """A blocked probe ends with a Python error; only one is blocked after its own end."""
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
    check_packages,
    check_sandbox,
)
