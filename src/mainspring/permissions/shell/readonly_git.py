"""The forms of git that only read. Options before the subcommand are never among them (security S6), nor are computed
words."""

from __future__ import annotations

from typing import NamedTuple

from mainspring.permissions.shell.tables import longs, names
from mainspring.permissions.shell.values import ShellWord


class ReadOnlyGitForm(NamedTuple):
    flags: str = ""
    values: str = ""
    longs: frozenset[str] = frozenset()  # alone or with `=value`
    operands: bool = True
    listing: frozenset[str] = frozenset()  # options that turn operands from names to make into names to look for
    first: frozenset[str] = frozenset()  # if given, the first operand is one of these


SHOWING = longs(
    """oneline graph all decorate stat shortstat numstat name-only name-status since until after before author
    committer grep format pretty abbrev-commit no-merges merges first-parent follow reverse max-count skip date
    cached staged color no-color word-diff patch no-patch summary dirstat find-renames diff-filter
    ignore-all-space ignore-space-change ignore-blank-lines unified function-context left-right cherry-pick topo-order
    date-order branches tags remotes no-decorate relative root raw check minimal patience histogram merge-base
    no-ext-diff no-textconv quiet exit-code"""
)
_SHOW = ReadOnlyGitForm("pwbuszcmRM", "nUGSL", SHOWING)

FORMS: dict[str, ReadOnlyGitForm] = {
    "status": ReadOnlyGitForm("sbvuznormal", "", longs(
            "short branch porcelain long show-stash untracked-files ignored ahead-behind no-renames column"
        )),
    "diff": _SHOW,
    "log": _SHOW,
    "show": _SHOW,
    "shortlog": ReadOnlyGitForm("snec", "", longs("summary numbered email all since until no-merges")),
    "rev-list": ReadOnlyGitForm("", "n", SHOWING | longs("count objects not")),
    "rev-parse": ReadOnlyGitForm("q", "", longs(
            "abbrev-ref short show-toplevel is-inside-work-tree verify git-dir git-common-dir show-prefix "
            "is-bare-repository quiet symbolic-full-name show-cdup absolute-git-dir"
        )),
    "ls-files": ReadOnlyGitForm("cdmosutvzk", "x", longs(
            "cached deleted modified others stage exclude-standard exclude full-name error-unmatch"
        )),
    "ls-tree": ReadOnlyGitForm("rdtlz", "", longs("name-only name-status long full-name full-tree abbrev")),
    "blame": ReadOnlyGitForm("wCMsentlfbc", "L", longs("porcelain line-porcelain date show-email")),
    "describe": ReadOnlyGitForm("", "", longs(
            "tags all always dirty abbrev long exact-match match contains"
        )),
    "merge-base": ReadOnlyGitForm("a", "", longs("all is-ancestor fork-point octopus independent")),
    "cat-file": ReadOnlyGitForm("ptse"),
    "name-rev": ReadOnlyGitForm("", "", longs("name-only tags all")),
    "count-objects": ReadOnlyGitForm("vH", operands=False),
    "branch": ReadOnlyGitForm("arv", "", longs(
            "list all remotes show-current merged no-merged contains sort format verbose column no-color"
        ),
                   operands=False, listing=longs("list contains merged no-merged")),
    "tag": ReadOnlyGitForm("ln", "", longs("list contains merged no-merged sort format points-at"), operands=False,
                listing=longs("list contains merged no-merged points-at") | {"-l"}),
    "remote": ReadOnlyGitForm("v", "", longs("verbose"), first=names("get-url")),
    "stash": ReadOnlyGitForm("p", "", longs("stat patch"), first=names("list show")),
    "reflog": ReadOnlyGitForm("", "n", SHOWING, first=names("show HEAD")),
    "grep": ReadOnlyGitForm("nilLwcvEFPGhHqIoW", "eABCm", longs(
            "line-number ignore-case name-only files-with-matches count word-regexp fixed-strings extended-regexp "
            "perl-regexp cached untracked heading break and or not all-match show-function max-depth"
        )),
    "config": ReadOnlyGitForm("", "", longs("get get-all local type default"), operands=False,
        listing=longs("get get-all")),
    "worktree": ReadOnlyGitForm("v", "", longs("porcelain"), first=names("list")),
}  # fmt: skip
_NEEDS_FIRST = names("stash worktree")


def only_reads(words: tuple[ShellWord, ...]) -> bool:
    if len(words) < 2 or not all(word.exact for word in words):
        return False
    subcommand = words[1].text
    form = FORMS.get(subcommand)
    if form is None:
        return False
    operands: list[str] = []
    options: set[str] = set()
    index = 2
    while index < len(words):
        text = words[index].text
        index += 1
        if text == "--":
            paths = [word.text for word in words[index:]]
            if any(_leads_out(path) for path in paths):
                return False
            operands.extend(paths)
            break
        if not text.startswith("-") or text == "-":
            operands.append(text)
            if _leads_out(text):
                return False
            continue
        if "%G" in text:  # signatures: git asks gpg
            return False
        options.add(text.partition("=")[0])
        taken = option_taken(form, text)
        if taken < 0:
            return False
        index += taken
    if form.first and (operands or subcommand in _NEEDS_FIRST):
        return bool(operands) and operands[0] in form.first
    return form.operands or not operands or bool(options & form.listing)


def _leads_out(text: str) -> bool:
    """A path outside: where there is no repository, and with such paths, `git diff` compares any two files."""
    return text.startswith(("/", "~")) or "../" in text or text == ".." or ":/" in text


def option_taken(form: ReadOnlyGitForm, text: str) -> int:
    """How many further words it takes; below zero if it is not allowed."""
    if text.startswith("--"):
        return 0 if text.partition("=")[0] in form.longs else -1
    if text[1:].isdigit():
        return 0
    for position, letter in enumerate(text[1:], 2):
        if letter in form.values:
            return 0 if position < len(text) else 1
        if letter not in form.flags:
            return -1
    return 0
