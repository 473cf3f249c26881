"""Tasks of a fleet: what they are, and the file that lists them, a JSON object per line.

    {"id": "fix-17", "prompt": "Fix the failing test", "cwd": "work/17", "tags": ["python"]}

`FleetTask.digest` identifies the content of a task: a task that has a result is not run again, and it is an error if
its line was changed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.core.errors import UsageError
from mainspring.core.value import Bundle
from mainspring.library.options import KINDS, check_agent_options
from mainspring.text import did_you_mean

LONGEST_ID = 200  # characters
FIELDS = ("id", "prompt", "cwd", "repo", "ref", "in_place", "options", "check", "tags")
NOT_IN_A_FILE = ("approve", "deps", "hooks", "provider")  # functions and objects
MODEL = "model"


class FleetTask(Bundle, frozen=True):
    """One task of a fleet: a prompt, where it runs, and how.

    Example:
        task = FleetTask("bonn", "Weather in Bonn?", options={"max_turns": 5}, tags=("weather",))
        async for result in Fleet({"model": "haiku"}).run([task]):
            print(result.id, result.text)
    """

    id: str
    prompt: str
    cwd: str | None = None
    """The directory that it works in: a copy of it, unless `in_place`."""
    repo: str | None = None
    """A git repository, which it works in a clone of."""
    ref: str | None = None
    """The commit, branch or tag to check out."""
    in_place: bool = False
    options: Mapping[str, Any] = {}
    """Options of its agent, over those of the fleet: those of `Agent`, and `model`."""
    check: str | None = None
    """A command that runs after it; its exit code is stored with the result."""
    tags: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of everything but the id: of the same task, always the same."""
        fields = {name: getattr(self, name) for name in FIELDS if name != "id"}
        return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()[:16]


def check_task(task: FleetTask) -> FleetTask:
    """Returns the task. Raises `UsageError`."""
    where = f"task '{task.id[:LONGEST_ID]}'"
    if not task.id or len(task.id) > LONGEST_ID or not task.id.isprintable():
        raise UsageError(f"{where}: 'id' must be text of 1 to {LONGEST_ID} printable characters")
    if not task.prompt.strip():
        raise UsageError(f"{where}: 'prompt' is empty")
    if task.cwd is not None and task.repo is not None:
        raise UsageError(f"{where}: 'cwd' and 'repo' cannot be combined: give only one")
    if task.ref is not None and task.repo is None:
        raise UsageError(f"{where}: 'ref' needs 'repo', the repository that it is in")
    if task.repo is not None and task.in_place:
        raise UsageError(f"{where}: 'in_place' needs 'cwd': a repository is always cloned")
    check_task_options(task.options, where)
    return task


def check_task_options(options: Mapping[str, Any], where: str) -> None:
    given = {name: value for name, value in options.items() if name != MODEL}
    for name in given:
        if name not in KINDS:
            raise UsageError(f"{where}: there is no option '{name}'{did_you_mean(name, (*KINDS, MODEL))}")
        if name == "cwd":
            raise UsageError(f"{where}: 'cwd' is a field of the task, not one of its options")
    try:
        check_agent_options(given, where)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    if not isinstance(options.get(MODEL, ""), str):
        raise UsageError(f"{where}: 'model' must be the name of a model, not {options[MODEL]!r}")


def name_tasks(tasks: Iterable[FleetTask | str]) -> Iterable[FleetTask]:
    """Prompts become tasks with their position as their id: 1, 2, 3."""
    for number, task in enumerate(tasks, 1):
        yield name_task(task, number)


def name_task(task: FleetTask | str, number: int) -> FleetTask:
    return FleetTask(str(number), task) if isinstance(task, str) else task


# --- the file -----------------------------------------------------------------------------------------


def load_tasks(path: Path | str) -> list[FleetTask]:
    """The tasks of a file, in its order. Relative paths start at the directory of the file. Raises `UsageError`, which
    names the line and the key."""
    file = Path(path)
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read '{file}': {error.strerror}") from None
    found: dict[str, tuple[int, FleetTask]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"line {number} of '{file}'"
        task = parse_task(line, where, file.absolute().parent)
        if task.id in found:
            raise UsageError(f"{where}: the id '{task.id}' is already used in line {found[task.id][0]}")
        found[task.id] = number, task
    return [task for _, task in found.values()]


def parse_task(line: bytes, where: str, folder: Path) -> FleetTask:
    try:
        given: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f'{where} is not a JSON object, such as {{"id": "1", "prompt": "..."}}')
    fields = cast("dict[str, Any]", given)
    for name in fields:
        if name not in FIELDS:
            raise UsageError(f"{where}: a task has no key '{name}'{did_you_mean(name, FIELDS)}")
    for name in ("id", "prompt"):
        if name not in fields:
            raise UsageError(f"{where}: the key '{name}' is missing")
    try:
        task = msgspec.convert(fields, FleetTask)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    for name in NOT_IN_A_FILE:
        if name in task.options:
            raise UsageError(f"{where}: the option '{name}' cannot be in a file: it is not JSON")
    try:
        check_task(task)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return msgspec.structs.replace(task, cwd=resolve(folder, task.cwd), repo=resolve_repo(folder, task.repo))


def resolve(folder: Path, path: str | None) -> str | None:
    return str(folder / Path(path).expanduser()) if path is not None else None


def resolve_repo(folder: Path, repo: str | None) -> str | None:
    """A path, unless it is an address, such as `https://host/repo` or `git@host:repo`."""
    if repo is None or "://" in repo or (":" in repo and not Path(repo).exists()):
        return repo
    return resolve(folder, repo)
