"""The permission checker of a session: builds the policy once and calls `permissions/` for each decision.

The deciding modules are loaded at the first call, not at the start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from mainspring import permissions, processes
from mainspring.core.value import Bundle

if TYPE_CHECKING:
    from mainspring.permissions.policy import (
        Mode,
        Paths,
        PermissionDecision,
        PermissionPolicy,
        PermissionRequest,
    )
    from mainspring.permissions.suggest import Suggestion


class RuleText(Bundle):
    """Rules as written, and their source."""

    behavior: str  # deny, ask, allow
    text: str
    source: str  # one of `permissions.rules.Source`
    base: str | None = None  # the base of `/path` in it; None: the working folder


if TYPE_CHECKING:  # a protocol takes as long to define as ten functions

    class PolicyView(Protocol):
        """What may change while a session runs."""

        @property
        def mode(self) -> str: ...

        @property
        def rules(self) -> tuple[str, ...]:
            """Rules that an answer added: `allow Bash(npm test)`."""
            ...


if TYPE_CHECKING:  # a protocol takes as long to define as ten functions

    class SandboxRules(Protocol):
        """A sandbox, as far as rules are concerned (security X5)."""

        @property
        def in_force(self) -> bool: ...

        @property
        def auto_allow(self) -> bool:
            """Commands in it need no approval: the user set that."""
            ...

        def hides_denied(self, command: str, leave: bool) -> bool:  # as requested
            """Whether the command would find none of the files that rules deny reading."""
            ...

        def walls(self, command: str, leave: bool) -> str:  # as requested
            """`none`: the command would run outside."""
            ...

        def uncontained(self, command: str, leave: bool) -> str:  # as requested
            """Why the command may have effects outside of the workspace; empty if it cannot."""
            ...


LEAVES = "dangerouslyDisableSandbox"


def _yes() -> bool:
    return True


def _every(rule: RuleText) -> bool:  # noqa: ARG001  # all of them alike
    return True


class PermissionChecker:
    def __init__(  # noqa: PLR0913  # keywords, nearly all of them
        self,
        written: tuple[RuleText, ...] = (),
        *,
        folders: tuple[str, ...] = (),
        home: str = "",
        ours: tuple[str, ...] = (),
        closed: tuple[str, ...] = (),
        trusted: Callable[[], bool] = _yes,
        counts: Callable[[RuleText], bool] = _every,
        sandbox: SandboxRules | None = None,
    ) -> None:
        """`closed`: files that nothing may open. `trusted`: whether the repository's own code may run; called when the
        first call is decided. `counts`: whether a rule that was added in the session counts; the administrator may
        reserve allow rules.
        """
        self._written = written
        self._home, self._ours, self._closed = home, ours, closed
        self._reached: dict[str, tuple[str, ...]] = {}
        self.sandbox = sandbox
        self._trusted, self._counts = trusted, counts
        self._made: tuple[str, tuple[str, ...], PermissionPolicy] | None = None
        self.set_folders(folders)

    def set_folders(self, folders: tuple[str, ...]) -> None:
        """Sets the working folders; the first one stays."""
        self._folders, self._made = folders, None
        self._reached = {one: self._reached.get(one) or processes.names_of_path(one) for one in folders}

    def forget_rule(self, behavior: str, text: str, source: str) -> None:
        """The user removed it from its file."""
        removed = (behavior, text, source)
        self._written = tuple([one for one in self._written if (one.behavior, one.text, one.source) != removed])
        self._made = None

    def policy(self, standing: PolicyView) -> PermissionPolicy:
        made = self._made
        if made is None or made[0] != standing.mode or made[1] != standing.rules:
            made = self._made = (standing.mode, standing.rules, self._policy(standing))
        return made[2]

    def _policy(self, standing: PolicyView) -> permissions.PermissionPolicy:
        rules = permissions.PermissionRules()
        added = [session_rule(text) for text in standing.rules]
        for one in (*self._written, *[rule for rule in added if self._counts(rule)]):
            rules = rules.and_also(
                permissions.parse_rules(
                    **{one.behavior: (one.text,)}, source=permissions.RuleSource(one.source), base=one.base
                )
            )
        root = self._folders[0] if self._folders else ""  # where the session began
        return permissions.PermissionPolicy(
            rules,
            permissions.Mode(standing.mode),
            folders=self._folders,
            reached=tuple([name for found in self._reached.values() for name in found]) if self._folders else None,
            home=self._home,
            ours=self._ours,
            closed=self._closed_names,
            root=root,
            trusted=self._trusted(),
        )

    @cached_property
    def _closed_names(self) -> tuple[str, ...]:
        """Every name of the closed files, whether they exist or not."""
        return tuple(dict.fromkeys([name for path in self._closed for name in (path, *processes.names_of_path(path))]))

    def is_closed(self, path: str) -> bool:
        """Whether the file, or a folder that it is in, is closed to every tool: a real path."""
        return any(path == name or path.startswith(f"{name}/") for name in self._closed_names)

    async def verdict(
        self, asked: PermissionRequest, standing: PolicyView, paths: Paths | None = None
    ) -> PermissionDecision:
        """`paths`: the resolver. A caller that opens a path afterwards passes its own, and opens what that returned;
        None: nothing is opened, or only by a name that this decides on.
        """
        from mainspring.permissions.decide import decide

        policy = self._beside_sandbox(asked, self.policy(standing))
        if asked.tool == "Bash" and not policy.trusted and asks_git_here(asked):
            policy = replace(policy, trusted=True)
        decided = decide(asked, policy, paths or self._paths)
        if asked.tool == "Bash" and self.sandbox is not None:
            decided = decide_outside_sandbox(asked, decided, policy.mode, self.sandbox)
        return self.confine(asked, decided)

    def confine(self, asked: PermissionRequest, verdict: PermissionDecision) -> PermissionDecision:
        """Leaves a command to the user, also in mode auto, unless a sandbox contains it."""
        if asked.tool != "Bash" or not verdict.open:
            return verdict
        from mainspring.permissions.decide import keep_from_classifier

        why, command = "there is no sandbox", str(asked.input.get("command", ""))
        if self.sandbox is not None:
            why = self.sandbox.uncontained(command, asked.input.get(LEAVES) is True)
        return keep_from_classifier(verdict, why)

    def suggestions(
        self, asked: PermissionRequest, standing: PolicyView, paths: Paths | None = None
    ) -> tuple[Suggestion, ...]:
        offered = permissions.suggest_rules(
            asked, self._beside_sandbox(asked, self.policy(standing)), paths or self._paths
        )
        return offered if all(self._counts(session_rule(f"allow {one.rule}")) for one in offered) else ()

    def wider_suggestions(
        self, asked: PermissionRequest, standing: PolicyView, paths: Paths | None = None
    ) -> tuple[Suggestion, ...]:
        """Rules that cover similar calls, too; empty if there are none."""
        offered = permissions.suggest_wider_rules(
            asked, self._beside_sandbox(asked, self.policy(standing)), paths or self._paths
        )
        return offered if all(self._counts(session_rule(f"allow {one.rule}")) for one in offered) else ()

    def suggested_mode(self, asked: PermissionRequest, standing: PolicyView, paths: Paths | None = None) -> Mode | None:
        return permissions.suggested_mode(asked, self.policy(standing), paths or self._paths)

    def _beside_sandbox(self, asked: PermissionRequest, policy: PermissionPolicy) -> PermissionPolicy:
        """Adds what the sandbox enforces. The sandbox is consulted only if there are rules about reading."""
        if asked.tool != "Bash" or self.sandbox is None or not has_reading_rules(policy):
            return policy
        hidden = self.sandbox.hides_denied(str(asked.input.get("command", "")), asked.input.get(LEAVES) is True)
        return replace(policy, reads_enforced=hidden)

    def unreadable(self, cwd: str, standing: PolicyView) -> tuple[tuple[str, ...], bool]:
        """For a sandbox: the paths that rules deny reading, and whether these are all."""
        policy = self.policy(standing)
        return (
            permissions.FileRules(policy, cwd, self._paths).unreadable(policy.folders)
            if has_reading_rules(policy)
            else ((), True)
        )

    def resolutions(self) -> processes.Resolutions:
        """For one call."""
        return processes.Resolutions(self._home or None)

    def readable(self, cwd: str, standing: PolicyView) -> Callable[[str], bool]:
        """For searches: which files a rule denies to `Read` (security F6). The search of the folder is already allowed,
        so a file without a rule is readable.
        """
        by_rules = self.reading_rules(cwd, standing)

        def may_read(path: str) -> bool:
            return not self.is_closed(path) and (by_rules is None or by_rules(path))

        return may_read

    def reading_rules(self, cwd: str, standing: PolicyView) -> Callable[[str], bool] | None:
        """The same; None: no rule is about reading."""
        policy = self.policy(standing)
        closing = (*policy.rules.deny, *policy.rules.ask)
        if not policy.rules.broken and not any(permissions.names_tool(rule, "Read") for rule in closing):
            return None
        files = permissions.FileRules(policy, cwd, self._paths)

        def may_read(path: str) -> bool:
            found = files.check(permissions.FileAccessRequest("read", path, "Read"))
            return found.deny is None and not found.refused and found.ask is None

        return may_read

    def names_host(self, host: str, standing: PolicyView) -> bool:
        """Whether an allow rule names this host itself, so that it may be on this machine or local (security N1)."""
        return permissions.names_host(self.policy(standing).rules, host)

    def denied_search_domains(self, standing: PolicyView) -> tuple[tuple[str, ...], ...]:
        """Domains whose pages are left out of the results of web searches."""
        return permissions.denied_search_domains(self.policy(standing).rules)

    def only_reads(self, command: str, cwd: str, standing: PolicyView) -> bool:
        """Whether a shell command is known to change nothing, so that it may run beside others."""
        return permissions.findings(
            "Bash", {"command": command}, permissions.FileRules(self.policy(standing), cwd, self._paths)
        ).reads

    def _paths(self, path: str, cwd: str) -> Any:
        return processes.resolve_path(path, cwd, home=self._home or None)


def has_reading_rules(policy: PermissionPolicy) -> bool:
    return bool(permissions.sort_rules(policy.rules).reading)


ELSEWHERE = ("cd", "pushd", "-C", "--git-dir", "--work-tree", "GIT_", "-c", "--exec-path")


def asks_git_here(asked: PermissionRequest) -> bool:
    """A line about the repository it is in, which contains nothing that git would run (security P6)."""
    command = str(asked.input.get("command", ""))
    if "git" not in command or any(word in command for word in ELSEWHERE):
        return False
    from mainspring.sandbox.git_config import is_harmless

    return is_harmless(asked.cwd)


def decide_outside_sandbox(
    asked: PermissionRequest, verdict: PermissionDecision, mode: str, sandbox: SandboxRules
) -> PermissionDecision:
    """Leaving the sandbox is a separate right: no rule for the command grants it (security X5)."""
    leaves, command = asked.input.get(LEAVES) is True, str(asked.input.get("command", ""))
    if leaves:
        free = verdict.decision == "deny" or asked.hook == "allow" or mode == "bypassPermissions"
        if free or not sandbox.in_force:
            return verdict
        why = "it asks to run outside of the sandbox, which no rule for a command covers"
        if verdict.decision == "ask":
            why = f"{why}; and {verdict.reason}"
        decision = "deny" if mode == "dontAsk" else "ask"
        return replace(verdict, decision=decision, reason=why, rule="", source="", person=True, open=False)
    open_question = verdict.decision == "ask" and not verdict.rule and not verdict.person and asked.hook is None
    if not open_question or mode == "plan" or not (sandbox.auto_allow and sandbox.in_force):
        return verdict
    if sandbox.walls(command, leave=False) == "none":
        return verdict
    return replace(verdict, decision="allow", reason="it runs in the sandbox ('sandbox.autoAllowBashIfSandboxed')")


class AllowAll(PermissionChecker):
    """No rules: the host is responsible for its tools. For programs that pass us their own functions."""

    async def verdict(
        self,
        asked: PermissionRequest,  # noqa: ARG002
        standing: PolicyView,  # noqa: ARG002
        paths: Paths | None = None,  # noqa: ARG002
    ) -> permissions.PermissionDecision:
        return permissions.PermissionDecision("allow", "there are no rules here")

    def reading_rules(self, cwd: str, standing: PolicyView) -> Callable[[str], bool] | None:  # noqa: ARG002
        return None


def session_rule(text: str) -> RuleText:
    behavior, _, rule = text.partition(" ")
    return RuleText(behavior, rule, "session")
