"""Collects the permission rules, mode and directories of a session from options and settings, for `permissions/`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from mainspring import agent
from mainspring.agent.options import SessionOptions, StartError
from mainspring.permissions.checker import PermissionChecker, RuleText
from mainspring.processes.paths import is_within
from mainspring.secrets.sources import CREDENTIALS, FILE_NAME
from mainspring.sessions.paths import HISTORY
from mainspring.settings.load import expand_tilde, users_folder
from mainspring.settings.values import SettingEntry, Settings, SettingsSource

if TYPE_CHECKING:
    from mainspring.permissions.checker import SandboxRules

BYPASS, AUTO, DEFAULT = "bypassPermissions", "auto", "default"
BYPASS_SETTING = "permissions.disableBypassPermissionsMode"
SERVERS = "mcpServers"  # of a file with MCP servers

# The name of a settings source in a permission decision.
NAMES = {
    SettingsSource.USER: "user",
    SettingsSource.PROJECT: "project",
    SettingsSource.LOCAL: "local",
    SettingsSource.ENVIRONMENT: "user",
    SettingsSource.COMMAND_LINE: "flag",
    SettingsSource.ADMINISTRATOR: "administrator",
}


def new_gate(  # noqa: PLR0913, PLR0917  # its inputs
    options: SessionOptions,
    settings: Settings,
    cwd: str,
    home: str,
    ours: str | None,
    protected: tuple[str, ...] = (),
    sandbox: SandboxRules | None = None,
    closed: tuple[str, ...] = (),
) -> PermissionChecker:
    def trusted() -> bool:
        from mainspring.settings.trust import is_trusted

        return is_trusted(ours, cwd)

    check_names(options, settings)
    check_folders(options, settings, cwd, home)
    return PermissionChecker(
        collect_rules(options, settings, cwd),
        folders=(cwd, *list_additional_folders(options, settings, cwd, home)),
        home=home,
        ours=(*((ours,) if ours else ()), *protected),
        closed=closed,
        trusted=trusted,
        counts=counts_in(settings),
        sandbox=sandbox,
    )


BUS = "DBUS_SESSION_BUS_ADDRESS"


def list_closed_files(ours: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The user's keys in our folder; the file checkpoints, which may hold secrets of any project; and the sockets of
    the bus through which the system's keyring gives others."""
    keys = [f"{ours}/{name}" for name in (FILE_NAME, CREDENTIALS, HISTORY)] if ours else []
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    sockets = [f"{runtime.rstrip('/')}/bus"] if runtime.startswith("/") else []
    for address in environment.get(BUS, "").split(";"):
        kind, _, pairs = address.partition(":")
        named = [pair.removeprefix("path=") for pair in pairs.split(",") if pair.startswith("path=/")]
        sockets += named if kind == "unix" else []
    return tuple(dict.fromkeys([*keys, *sockets]))


def counts_in(settings: Settings) -> Callable[[RuleText], bool]:
    """Whether a rule of the session counts: it does not if only the administrator may allow what it allows."""

    def counts(rule: RuleText) -> bool:
        if settings.permissions.managed_only and rule.behavior == "allow":
            return False
        return not (settings.sandbox.managed_domains_only and opens_web(rule))

    return counts


def check_names(options: SessionOptions, settings: Settings) -> None:
    given = settings.permissions
    of_flags = (options.allowed_tools, options.disallowed_tools, options.tools, options.model, options.fallback_model)
    if (
        any(of_flags) or given.deny or given.ask or given.allow or settings.model or settings.hooks
    ):  # else there is nothing to check
        agent.tell_of_slips(options, settings)


def collect_rules(options: SessionOptions, settings: Settings, cwd: str) -> tuple[RuleText, ...]:
    given = settings.permissions
    said = [
        *[("deny", entry) for entry in given.deny],
        *[("ask", entry) for entry in given.ask],
        *[("allow", entry) for entry in given.allow],
    ]
    from_settings = [
        RuleText(kind, entry.text, NAMES[entry.origin.source], get_rule_base(entry, cwd)) for kind, entry in said
    ]
    from_flags = [RuleText("deny", text, "flag", cwd) for text in options.disallowed_tools]
    if not given.managed_only:
        from_flags += [RuleText("allow", text, "flag", cwd) for text in options.allowed_tools]
    written = (*from_settings, *make_sandbox_rules(settings, cwd), *from_flags)
    if settings.sandbox.managed_domains_only:
        return tuple([rule for rule in written if not opens_web(rule)])
    return written


def opens_web(rule: RuleText) -> bool:
    """Whether it allows hosts and does not come from the administrator."""
    return rule.behavior == "allow" and rule.text.lstrip().startswith("WebFetch") and rule.source != "administrator"


def make_sandbox_rules(settings: Settings, cwd: str) -> list[RuleText]:
    """Denies to tools what the sandbox denies to commands."""
    given = settings.sandbox
    said = [
        *[(f"WebFetch(domain:{entry.text})", entry) for entry in given.denied_domains],
        *[(f"Read({sandbox_path_to_pattern(entry, cwd)})", entry) for entry in given.unreadable],
        *[(f"Edit({sandbox_path_to_pattern(entry, cwd)})", entry) for entry in given.read_only],
    ]
    return [RuleText("deny", rule, NAMES[entry.origin.source], get_rule_base(entry, cwd)) for rule, entry in said]


def sandbox_path_to_pattern(entry: SettingEntry, cwd: str) -> str:
    """A path of `sandbox.filesystem` in the syntax of a rule, where `/path` would be relative."""
    path = entry.text.replace("(", "\\(").replace(")", "\\)")
    if path.startswith("~"):
        return path
    return (
        f"//{path.lstrip('/')}" if path.startswith("/") else f"/{get_rule_base(entry, cwd)}/{path.removeprefix('./')}"
    )


def sandbox_paths(entries: tuple[SettingEntry, ...], cwd: str, home: str) -> tuple[str, ...]:
    """Absolute paths. A relative one starts at the directory of its settings file, or at the working directory;
    patterns are expanded now."""
    import glob

    found: list[str] = []
    for entry in entries:
        path = os.path.join(get_rule_base(entry, cwd), expand_home(entry.text, home))  # noqa: PTH118  # pathlib takes 8 ms
        found += glob.glob(path, recursive=True, include_hidden=True) if glob.has_magic(path) else [path]  # noqa: PTH207
    return tuple(dict.fromkeys([os.path.normpath(path) for path in found]))


def get_rule_base(entry: SettingEntry, cwd: str) -> str:
    """What `/path` in a rule is relative to: in the user's and the administrator's files, the file's directory."""
    if entry.origin.source in (SettingsSource.USER, SettingsSource.ADMINISTRATOR) and entry.origin.place.startswith(
        "/"
    ):
        return entry.origin.place.rpartition("/")[0] or "/"
    return cwd


def list_additional_folders(options: SessionOptions, settings: Settings, cwd: str, home: str) -> tuple[str, ...]:
    """Additional directories from options and settings."""
    named = [resolve_folder(folder, cwd, home) for folder in options.add_dirs]
    listed = [absolute_folder(entry.text, cwd, home) for entry in settings.permissions.directories]
    out = leading_out(listed, (cwd, *named))
    return tuple(dict.fromkeys([*named, *[os.path.realpath(path) for path in listed if path not in out]]))


def leading_out(paths: Iterable[str], tops: tuple[str, ...]) -> dict[str, str]:
    """Paths inside the workspace that are links to somewhere else, with their targets. A sandboxed command may have
    created the link, in this session or an earlier one."""
    known = [name for top in tops for name in (top, os.path.realpath(top))]
    out: dict[str, str] = {}
    for path in sorted(paths):  # a directory before its content
        name, found = os.path.normpath(path), os.path.realpath(path)
        if any(is_within(name, top) for top in known) and not any(is_within(found, top) for top in known):
            out[path] = found
        else:
            known += [name, found]
    return out


def left_out(origin: str, key: str, text: str, found: str) -> str:
    return (
        f"{origin}: '{key}' has '{text}', which is now a link to '{found}'. It is skipped, because a command may have "
        "created the link: if you mean that directory, name it itself"
    )


def check_folders(options: SessionOptions, settings: Settings, cwd: str, home: str) -> None:
    """A directory that does not exist is probably misspelled: an error for an option, a warning for a setting."""
    for folder in options.add_dirs:
        if not os.path.isdir(resolve_folder(folder, cwd, home)):  # noqa: PTH112  # pathlib takes 8 ms
            raise options.error("add_dirs", ": there is no such directory", folder)
    entries = settings.permissions.directories
    named = [resolve_folder(folder, cwd, home) for folder in options.add_dirs]
    out = leading_out([absolute_folder(entry.text, cwd, home) for entry in entries], (cwd, *named))
    for entry in entries:
        if found := out.get(absolute_folder(entry.text, cwd, home)):
            options.tell(left_out(entry.origin.place, "permissions.additionalDirectories", entry.text, found))
        elif not os.path.isdir(resolve_folder(entry.text, cwd, home)):  # noqa: PTH112
            options.tell(
                f"{entry.origin.place}: 'permissions.additionalDirectories' has '{entry.text}', but there is no such "
                "directory"
            )


def resolve_folder(folder: str, cwd: str, home: str) -> str:
    return os.path.realpath(absolute_folder(folder, cwd, home))


def absolute_folder(folder: str, cwd: str, home: str) -> str:
    return os.path.join(cwd, expand_home(folder, home))  # noqa: PTH118


def expand_home(folder: str, home: str | None = None) -> str:
    """`home`: the user's, in the session's environment; None: that of this process."""
    return expand_tilde(folder, users_folder({}) if home is None else home)


def choose_permission_mode(options: SessionOptions, settings: Settings, environment: Mapping[str, str]) -> str:
    chosen = options.permission_mode or settings.permissions.default_mode or DEFAULT
    if chosen == BYPASS and settings.permissions.bypass_disabled:
        raise StartError(f"'{BYPASS}' is disabled by '{BYPASS_SETTING}': choose another mode")
    if chosen == AUTO and settings.permissions.auto_disabled:
        raise StartError(f"'{AUTO}' is disabled by '{settings.permissions.auto_disabled}': choose another mode")
    may_bypass = chosen == BYPASS or options.allow_dangerously_skip_permissions
    if may_bypass and os.geteuid() == 0 and environment.get("IS_SANDBOX") != "1":
        raise StartError(
            f"'{BYPASS}' is not allowed for root, who can change everything: use another user, or set IS_SANDBOX=1 "
            "where nothing can be harmed, such as in a container"
        )
    return chosen


def refuse_sideloading(options: SessionOptions) -> None:
    """For `disableSideloadFlags`. MCP servers inside the host are not sideloaded."""
    given = {
        "agents": options.agents is not None,
        "plugin_dirs": bool(options.plugin_dirs),
        "mcp_servers": not all(is_within_program(one) for one in options.mcp_servers),
    }
    for option, is_there in given.items():
        if is_there:
            raise options.error(option, " is disabled by 'disableSideloadFlags': remove it")


def is_within_program(servers: str | Mapping[str, Any]) -> bool:
    """Whether all of them certainly are: a file may contain anything."""
    named = None if isinstance(servers, str) else servers.get(SERVERS, {})
    if not isinstance(named, Mapping):
        return False
    entries = cast("Mapping[str, Any]", named).values()
    return all(isinstance(one, Mapping) and cast("Mapping[str, Any]", one).get("type") == "sdk" for one in entries)


def taken_away(options: SessionOptions, settings: Settings) -> set[str]:
    """Tools that are denied as a whole: the model does not see them (N-10)."""
    denied = [*options.disallowed_tools, *[entry.text for entry in settings.permissions.deny]]
    bare = [rule.removesuffix("()").removesuffix("(*)") for rule in denied]
    return {"Agent" if rule == "Task" else rule for rule in bare if "(" not in rule and "*" not in rule}
