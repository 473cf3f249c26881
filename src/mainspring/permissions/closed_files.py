"""Files that no tool and no command may open, under any rule, mode, hook and approval: the user's stored keys, file
checkpoints, and the bus of the system's keyring.

They are checked as a deny rule for each of them would be, with two differences. A command is refused, not asked, if it
may open one: a folder that it reads as a whole, a pattern, a path anywhere in its text. And what only cannot be known
(`npm test`) is no reason to ask: every command would be. Only a sandbox can keep such a command from the files, and
there they are masked.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from mainspring import permissions
from mainspring.permissions import READERS, WRITERS
from mainspring.permissions.files import FileAccessRequest, FileRules
from mainspring.permissions.policy import Paths, PermissionPolicy, PermissionRequest
from mainspring.permissions.rules import PermissionRules, RuleSource, parse_rules

# What the closed files are, by their last name; else they are sockets of the bus.
KINDS = {
    "key": "an API key of yours",
    "credentials.json": "your stored API keys",
    "file-history": "file checkpoints, with the contents of your files",
}
BUS = "the bus of the system's keyring"
_MAGIC = "\\*?[()"


def find_closed_access(asked: PermissionRequest, policy: PermissionPolicy, paths: Paths) -> str:
    """Why the call is refused; empty: it opens none of them, as far as its input tells."""
    inputs = [asked.input] if asked.before is None else [asked.input, asked.before]

    def opens(closed: tuple[str, ...]) -> bool:
        files = FileRules(make_closed_policy(replace(policy, closed=closed)), asked.cwd, paths)
        return any(_opens(asked.tool, one, files) for one in inputs)

    if not opens(policy.closed):
        return ""
    return explain_closed(next((path for path in policy.closed if opens((path,))), ""))


def explain_closed(path: str) -> str:
    """`path`: one of them; empty: it is not known which."""
    what = KINDS.get(path.rpartition("/")[2], BUS)
    name = f"'{path}' ({what})" if path else "a closed file"
    return f"it would open {name}, which is closed to every tool and command, under every rule and mode"


def make_closed_policy(policy: PermissionPolicy) -> PermissionPolicy:
    """The same, with nothing but a deny rule for each closed file. `reads_enforced`: nothing is searched on the disk;
    the closed files are known by their full names."""
    return replace(policy, rules=make_closed_rules(policy.closed), reads_enforced=True)


_KNOWN: dict[tuple[str, ...], PermissionRules] = {}  # a session has one set of them, and rules are sorted by identity


def make_closed_rules(closed: tuple[str, ...]) -> PermissionRules:
    found = _KNOWN.get(closed)
    if found is None:
        if len(_KNOWN) > 8:  # hosts with many homes
            _KNOWN.clear()
        texts = [f"{tool}(/{quote_path(path)})" for path in closed for tool in ("Read", "Edit")]
        found = _KNOWN[closed] = parse_rules(deny=texts, source=RuleSource.BUILT_IN)
    return found


def quote_path(path: str) -> str:
    """For a rule, where `*` and the like would be patterns."""
    return "".join([f"\\{char}" if char in _MAGIC else char for char in path])


def _opens(tool: str, input: Mapping[str, object], files: FileRules) -> bool:
    if tool == "Bash":
        command = input.get("command")
        return isinstance(command, str) and permissions.names_closed_file(command, files)
    path = input.get(READERS.get(tool) or WRITERS.get(tool) or "")
    if not isinstance(path, str):
        return False
    asked = FileAccessRequest("read" if tool in READERS else "write", path)
    return files.check(asked).deny is not None
