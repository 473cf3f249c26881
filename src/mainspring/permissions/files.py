"""Whether a file may be read or written: path rules, working folders, protected paths (security F1, F2, F3, F5)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from mainspring.core.value import Value
from mainspring.permissions import READERS, WRITERS, patterns
from mainspring.permissions.policy import Findings, Paths, PermissionPolicy
from mainspring.permissions.rules import (
    Behavior,
    PermissionRule,
    glob_matches,
    names_tool,
    sort_rules,
)
from mainspring.permissions.shell.values import UNKNOWN
from mainspring.processes.disk import DISK, Disk, TooManyError
from mainspring.processes.paths import PathRefused, Resolved
from mainspring.processes.protected_paths import is_protected

MOST_HIDDEN = 200_000  # files and folders that are examined for a sandbox, once per session
_ELSEWHERE = re.compile(r"(?:/proc/[^/]+/(?:task/[^/]+/)?(?:cwd|root|fd|map_files)|/dev/fd)(?:/|\Z)")
_OPEN_ALREADY = re.compile(r"/dev/(?:stdin|stdout|stderr|fd/[0-9]+)\Z", re.ASCII)
MOST_FOUND = 2_000  # by a pattern; with more, it is asked
_DESCRIPTORS = (["fd"], ["stdin"], ["stdout"], ["stderr"])
Access = Literal["read", "write"]


def _finds_name(pattern: str, name: str) -> bool:
    return glob_matches(pattern.split(UNKNOWN), name) and (name[0] != "." or pattern[:1] == ".")


def _passes_descriptors(path: str) -> bool:
    """`/dev/fd/../cwd/x`, `/dev/fd/9/x`: `/dev/fd` is a link into `/proc`, so `..` does not lead back."""
    passed: list[str] = []
    for name in path.split("/"):
        further = name not in ("", ".") and passed[:1] == ["dev"] and passed[1:2] in _DESCRIPTORS
        if further and (name == ".." or len(passed) > 2 or passed[1] != "fd"):
            return True
        if name == "..":
            del passed[-1:]
        elif name not in ("", "."):
            passed.append(name)
    return False


class FileAccessRequest(Value):
    """One access to a file. `tool` is "" for a redirect or a file that a shell command names."""

    access: Access
    path: str
    tool: str = ""


class FileRules:
    """The rules about files, for one decision: within it, a path has one target."""

    def __init__(self, policy: PermissionPolicy, cwd: str, paths: Paths, disk: Disk = DISK) -> None:
        self.policy = policy
        self.disk = disk
        self.cwd = cwd
        self._paths = paths
        self._known: dict[str, Resolved] = {}
        self._straight: list[str] = []  # real paths, with a slash at the end, that led through no link
        self._seen_from = policy.root or cwd  # the base of relative rules
        self._checked: dict[tuple[str, str, str, str], Findings] = {}
        self._passed: dict[tuple[str, str, bool, bool], bool] = {}
        self.rules = sort_rules(policy.rules)

    def resolve(self, path: str, at: str) -> Resolved:
        full = path if path.startswith(("/", "~/")) or not path else f"{at}/{path}"
        found = self._known.get(full)
        if found is None:
            found = self._known[full] = self._paths(full, at)
            if not found.via:
                self._straight.append(found.real + "/")
        return found

    def names(self, path: str) -> tuple[str, ...]:
        """Every name of a path; none if it leads nowhere."""
        if any(one.startswith(path + "/") for one in self._straight):
            return (path,)  # no link was met on the way to another path
        try:
            return self.resolve(path, "/").names
        except PathRefused:
            return ()

    def _all_names(self, path: str) -> tuple[str, ...]:
        """Those of a path with `..`, too: after a link the kernel goes elsewhere than the text says."""
        found = self.names(posixpath.normpath(path))
        return (*found, *self.names(path)) if ".." in path else found

    def glob_leads_to_a_rule(self, path: str, at: str) -> bool:
        """Whether a pattern finds a link to a file that a rule is about. Unknown parts of `path` match anything."""
        full = self.policy.home + path[1:] if path[:2] == "~/" else posixpath.join(at, path)
        before, _, _ = full.partition(UNKNOWN)
        start = before.rpartition("/")[0]
        linked = bool(self._via(start))
        found = [(start, linked)]
        for name in full[len(start) + 1 :].split("/"):
            if UNKNOWN not in name:
                found = [(f"{folder}/{name}", True) for folder, _ in found]
                continue
            found = [
                (entry.path, passed or entry.is_link)
                for folder, passed in found
                for entry in self.disk.list_folder(folder)
                if _finds_name(name, entry.path.rpartition("/")[2])
            ]
            if len(found) > MOST_FOUND:
                return True
        checked = [self.check(FileAccessRequest("read", path)) for path, passed in found if passed]
        return any(one.deny is not None or one.ask is not None for one in checked)

    def glob_finds_a_rule(self, path: str, at: str) -> bool:
        """Whether a pattern may find a file that a rule names in full, or something in a folder that it names: by the
        names alone, nothing need exist."""
        full = self.policy.home + path[1:] if path[:2] == "~/" else posixpath.join(at, path)
        start, _, rest = full.partition(UNKNOWN)
        start, _, begun = start.rpartition("/")
        parts = (begun + UNKNOWN + rest).split("/")
        for names in [patterns.split_components(name) for name in self._all_names(start or "/")]:
            for rule in self.rules.guarded:
                for base in self._anchored(rule)[1]:
                    further = base[len(names) :]
                    if base[: len(names)] == names and len(further) <= len(parts) and all(
                        _finds_name(pattern, name) for pattern, name in zip(parts, further, strict=False)
                    ):  # fmt: skip
                        return True
        return False

    def _via(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(self.resolve(path or "/", "/").via)
        except PathRefused:
            return ()

    # --- one file ----------------------------------------------------------------------------------------------

    def check(self, ask: FileAccessRequest, *, at: str | None = None) -> Findings:
        """`at`: the folder that the path is relative to, if not the working folder. Rules are anchored at that."""
        key = (ask.access, ask.path, ask.tool, at or self.cwd)
        found = self._checked.get(key)
        if found is None:
            found = self._checked[key] = self._check(ask, at or self.cwd)
        return found

    def _check(self, ask: FileAccessRequest, at: str) -> Findings:
        try:
            found = self.resolve(ask.path, at)
        except PathRefused as error:
            return Findings(refused=str(error))
        if ask.tool and (found.kind == "special" or _is_for_devices(found.real)):
            return Findings(refused=f"'{ask.path}' is no regular file: devices, pipes, /proc and /sys are not opened")
        names = [patterns.split_components(name) for name in found.names]
        deny = self._first("deny", ask, names)
        if deny is not None:
            return Findings(deny=deny)
        rule = self._first("allow", ask, names)
        inside = self._inside(names)
        reads = ask.access == "read" and (inside or rule is not None) and found.kind != "special"
        return Findings(
            ask=self._first("ask", ask, names),
            never=self._never(ask, found) if ask.access == "write" else "",
            allow=() if rule is None else (rule,),
            covered=reads or (ask.access == "write" and rule is not None),
            reads=reads,
            edits=rule is not None or inside,
            why="" if reads else _why(ask, inside=inside),
        )

    def _never(self, ask: FileAccessRequest, found: Resolved) -> str:
        if found.kind == "special":
            return f"'{ask.path}' is a device or the like"
        reason = is_protected(found, homes=self.policy.ours)
        return "" if reason is None else f"'{ask.path}' is protected: {reason}"

    def _inside(self, names: list[tuple[str, ...]]) -> bool:
        held = self.policy.reached
        folders = _as_components((self.cwd, *self.policy.folders) if held is None else (*self.policy.folders, *held))
        if len(names) == 1 and names[0][: len(folders[0])] == folders[0]:
            return True  # no links, in the first folder: the usual case
        if _within(names, folders):
            return True
        if held is not None:
            return False
        # The folder itself may be a link, or behind one: then its real name counts, too.
        further = [self.names(folder) for folder in {self.cwd, *self.policy.folders}]
        return _within(names, [*folders, *[patterns.split_components(name) for found in further for name in found]])

    def is_inside(self, path: str, at: str | None = None) -> bool:
        try:
            return self._inside([patterns.split_components(name) for name in self.resolve(path, at or self.cwd).names])
        except PathRefused:
            return False

    def is_named_by_a_rule(self, path: str, at: str) -> bool:
        """Whether a deny or ask rule is about the path as written: for words that may not even be paths."""
        if not any(needle in path or needle in at for needle in self.rules.needles):
            return False
        full = path if path.startswith("/") else f"{at}/{path}"
        name = patterns.split_components(posixpath.normpath(full) if ".." in full else full)
        return any(self._hits(rule, [name]) for rule in self.rules.guarded)

    def may_match_a_rule(self, parts: Sequence[Sequence[str]]) -> bool:
        """Whether a deny or ask rule may be about a file that a glob finds. A part of the path is the text between its
        wildcards. A name that begins with a dot is found only by a part that begins with one.
        """
        return any(
            not needle or any(glob_matches(part, needle) and (part[0] or needle[0] != ".") for part in parts)
            for needle in self.rules.needles
        )

    def begins_in(self, folder: str, at: str) -> bool:
        """Whether a deny or ask rule about writing begins in the folder: then an operation on all of it affects that,
        too. For a name at any depth this applies to the working folder, not to a folder in it.
        """
        names = [patterns.split_components(name) for name in self._all_names(posixpath.join(at, folder))]
        return any(
            base[: len(name)] == name
            for rule in self.rules.guarded
            if rule.tool in WRITERS
            for base in self._anchored(rule)[1]
            for name in names
        )

    # --- whole folders -----------------------------------------------------------------------------------------

    def may_hold(self, folder: str, at: str) -> bool:
        """Whether a rule about reading may match something in a folder, whatever it contains now."""
        names = [patterns.split_components(name) for name in self._all_names(posixpath.join(at, folder))]
        for rule in self.rules.reading:
            place, bases = self._anchored(rule)
            for base in bases:
                for name in names:
                    inner = name[: len(base)] == base and patterns.may_reach(place.rest, name[len(base) :])
                    if inner or base[: len(name)] == name:
                        return True
        return False

    def leads_elsewhere(self, path: str, at: str) -> bool:
        """`/proc/self/cwd/x`: only the kernel knows its target, which differs for each process."""
        if _OPEN_ALREADY.match(path):
            return False
        full = posixpath.normpath(posixpath.join(at, path))
        if _passes_descriptors(posixpath.join(at, path)):
            return True
        return any(_ELSEWHERE.match(name) for name in (full, *self._names_on_the_way(full)))

    def _names_on_the_way(self, path: str) -> tuple[str, ...]:
        """Of a path, or if it leads nowhere for us, of its longest existing part."""
        parts = path.split("/")
        ways = ("/".join(parts[:end]) for end in range(len(parts), 1, -1))
        return next((names for way in ways if (names := self.names(way))), ())

    def holds_commits(self, path: str, at: str, *, whole: bool) -> bool:
        """Whether a path is in the object store of a repository in which a rule may be about a file. `whole`: all of
        the path is read.
        """
        if ".git" not in path:
            return False
        full = posixpath.normpath(posixpath.join(at, path))
        top, mark, rest = full.partition("/.git")
        inside = bool(mark) and ((whole and not rest) or rest == "/objects" or rest.startswith("/objects/"))
        return inside and self.may_hold(top, at)

    def read_in_passing(self, folder: str, at: str, *, hidden: bool, follow: bool) -> bool:
        """Whether reading all of a folder reads a file that a rule is about. `hidden`: also names with a leading dot;
        `follow`: also behind links. If a rule begins in the folder, the answer is yes whether there is such a file or
        not; else the disk is searched, unless a sandbox hides such files anyway.
        """
        key = (folder, at, hidden, follow)
        found = self._passed.get(key)
        if found is None:
            found = self._passed[key] = self._read_in_passing(folder, at, hidden=hidden, follow=follow)
        return found

    def _read_in_passing(self, folder: str, at: str, *, hidden: bool, follow: bool) -> bool:
        path = posixpath.join(at, self.policy.home + folder[1:] if folder[:2] == "~/" else folder)
        names = [patterns.split_components(name) for name in self._all_names(path)]
        hidden = hidden or self.disk.unhides(posixpath.normpath(path))
        for rule in self.rules.reading:
            if self._hits(rule, names):
                return True
            place, bases = self._anchored(rule)
            for base in bases:
                for name in names:
                    further = (*base[len(name) :], *place.rest)
                    if base[: len(name)] == name and (hidden or not patterns.is_hidden(further)):
                        return True
        if self.policy.reads_enforced or not names or not (follow or self.may_hold(path, at)):
            return False
        try:
            places = dict.fromkeys(["/" + "/".join(name) for name in names])
            return any(self._finds(place, names, hidden=hidden, follow=follow) for place in places)
        except TooManyError:
            return True

    def _finds(self, folder: str, names: list[tuple[str, ...]], *, hidden: bool, follow: bool) -> bool:
        start = len(patterns.split_components(folder))
        for entry in self.disk.walk(folder):
            inner = patterns.split_components(entry.path)[start:]
            if not hidden and any(name.startswith(".") for name in inner):
                continue
            if not entry.is_link:
                found = any(self._hits(rule, [(*name, *inner) for name in names]) for rule in self.rules.reading)
            else:
                found = follow and self._leads_to_a_rule(entry.path)
            if found:
                return True
        return False

    def _leads_to_a_rule(self, link: str) -> bool:
        """A link to a denied file, or to a folder that is not searched again: it may contain one."""
        try:
            target = self.resolve(link, "/")
        except PathRefused:
            return False
        found = self.check(FileAccessRequest("read", link))
        return (
            found.deny is not None
            or found.ask is not None
            or (target.kind == "folder" and self.may_hold(target.real, "/"))
        )

    def unreadable(self, folders: Sequence[str]) -> tuple[tuple[str, ...], bool]:
        """For a sandbox: the paths that rules deny reading, and whether these are all. A path that a rule names in full
        is among them even if it does not exist; of patterns, the current matches.
        """
        found: set[str] = set()
        roots: dict[str, None] = {}
        for rule in self.rules.reading:
            place, bases = self._anchored(rule)
            for path in ["/" + "/".join(base) for base in bases]:
                if patterns.is_literal(place.rest):
                    found.add(path)
                else:
                    within = [folder for folder in folders if f"{path}/".startswith(f"{folder}/")]
                    roots.update(dict.fromkeys(within or [path]))
        try:
            for root in roots:
                for entry in self.disk.walk(root, MOST_HIDDEN, ".git"):
                    name = patterns.split_components(entry.path)
                    if any(self._hits(rule, [name]) for rule in self.rules.reading):
                        found.add(entry.path)
        except TooManyError:
            return _tops(found), False
        return _tops(found), True

    def tracks_what_a_rule_is_about(self, top: str | None) -> bool:
        """Whether a repository tracks a file that a rule denies reading; also yes if that is unknown."""
        tracked = None if top is None else self.disk.tracked(top)
        if top is None or tracked is None:
            return True
        start = patterns.split_components(top)
        needles = [patterns.find_needle(rule.specifier or "") for rule in self.rules.reading]
        suspects = [name for name in tracked if any(needle in name or needle in top for needle in needles)]
        return any(
            self._hits(rule, [(*start, *patterns.split_components(name))])
            for name in suspects
            for rule in self.rules.reading
        )

    # --- rules -------------------------------------------------------------------------------------------------

    def _first(self, behavior: Behavior, ask: FileAccessRequest, names: list[tuple[str, ...]]) -> PermissionRule | None:
        key = (behavior, ask.access, ask.tool)
        rules = self.rules.concerned.get(key)
        if rules is None:
            rules = tuple([rule for rule in self.rules.files[behavior] if _concerns(rule, ask, behavior)])
            self.rules.concerned[key] = rules
        matches = self._covers if behavior == "allow" else self._hits
        for rule in rules:
            if rule.specifier is None or matches(rule, names):
                return rule
        return None

    def _hits(self, rule: PermissionRule, names: list[tuple[str, ...]]) -> bool:
        """For deny and ask: any name of the file, from any name of the folder that the rule is anchored in."""
        place, bases = self._anchored(rule)
        for base in bases:
            for name in names:
                if name[: len(base)] == base and patterns.matches_below(place.rest, name[len(base) :]):
                    return True
        return False

    def _anchored(self, rule: PermissionRule) -> tuple[patterns.PathPattern, list[tuple[str, ...]]]:
        key = (rule.specifier or "", rule.base or "", self._seen_from, self.policy.home)
        known = self.rules.anchored.get(key)
        if known is None:
            place = patterns.parse_path_pattern(rule.specifier or "", allow=False)
            start = _join(_root(place, *key[1:]), place)
            bases = [patterns.split_components(name) for name in {start, *self.names(start)}]
            known = self.rules.anchored[key] = (place, bases)
        return known

    def _covers(self, rule: PermissionRule, names: list[tuple[str, ...]]) -> bool:
        """For allow: all of them. The folder that the rule is anchored at may be behind a link; nothing below may."""
        place, root, base = _allowed(rule.specifier or "", rule.base or "", self._seen_from, self.policy.home)
        if all(patterns.matches_under(place, base, name) for name in names):
            return True
        roots = self.names(root)
        if roots == (root,):
            return False  # it is behind no link, as most are
        bases = [patterns.split_components(_join(one, place)) for one in {root, *roots}]
        return all(any(patterns.matches_under(place, one, name) for one in bases) for name in names)


def _tops(paths: set[str]) -> tuple[str, ...]:
    """Without those inside another one of them."""
    tops: list[str] = []
    for path in sorted(paths):
        if not tops or not path.startswith(f"{tops[-1]}/"):
            tops.append(path)
    return tuple(tops)


# Of texts alone, so they may be cached: real paths are looked up again for each decision.
@lru_cache(maxsize=256)
def _as_components(folders: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple([patterns.split_components(folder) for folder in dict.fromkeys(folders)])


@lru_cache(maxsize=1_024)
def _allowed(specifier: str, base: str, seen_from: str, home: str) -> tuple[patterns.PathPattern, str, tuple[str, ...]]:
    """An allow rule: its pattern, the folder that it is anchored at, and the target of its literal part."""
    place = patterns.parse_path_pattern(specifier, allow=True)
    root = _root(place, base, seen_from, home)
    return place, root, patterns.split_components(_join(root, place))


def _root(place: patterns.PathPattern, base: str, seen_from: str, home: str) -> str:
    if place.anchor == "root":
        return "/"
    if place.anchor == "home":
        return home
    return (place.anchor == "settings" and base) or seen_from


def _is_for_devices(path: str) -> bool:
    return path.startswith("/dev/") and not path.startswith("/dev/shm/")  # noqa: S108  # not ours: a place where ordinary files are


def _why(ask: FileAccessRequest, *, inside: bool) -> str:
    return f"no rule covers '{ask.path}'" if inside else f"'{ask.path}' is outside the working folders"


def _within(names: list[tuple[str, ...]], folders: Sequence[tuple[str, ...]]) -> bool:
    """Whether each name is in one of the folders: by components, never by text prefix (security F2)."""
    return all(any(name[: len(folder)] == folder for folder in folders) for name in names)


def _join(root: str, place: patterns.PathPattern) -> str:
    return "/".join([root.rstrip("/"), *place.literal]) or "/"


def _names(rule: PermissionRule, ask: FileAccessRequest) -> bool:
    """Without a path a rule is about its tool only. A redirect counts as either of the two that write."""
    if ask.tool:
        return names_tool(rule, ask.tool)
    return ask.access == "write" and rule.tool in ("Edit", "Write")


def _concerns(rule: PermissionRule, ask: FileAccessRequest, behavior: Behavior) -> bool:
    """Whether a rule is about this kind of access at all, wherever the file is."""
    if rule.specifier is None:
        return _names(rule, ask)
    tool = rule.tool
    if ask.access == "read":
        return tool == "Read" or (tool in READERS and (behavior != "allow" or tool == ask.tool))
    if behavior == "deny" and tool in READERS:
        return tool == "Read"  # a file that must not be read must not be replaced, either
    if behavior == "allow" and tool != "Edit":
        return tool in WRITERS and (tool == ask.tool or (not ask.tool and tool == "Write"))
    return tool in WRITERS
