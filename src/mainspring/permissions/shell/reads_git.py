"""What git could read: names only, tracked files, or the content of commits.

A commit contains files as they were: no sandbox hides a denied file in there, and the file may no longer exist. So a
command that prints the content of commits is asked, unless it names the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mainspring.permissions.shell.analyze import base_name
from mainspring.permissions.shell.programs import git_subcommand
from mainspring.permissions.shell.readonly import FORMS, SHOWING, ReadOnlyGitForm, only_reads, option_taken
from mainspring.permissions.shell.reads import HERE, NOTHING, CommandReads, ReadTree
from mainspring.permissions.shell.values import ShellWord, longs, names

_BEFORE = frozenset({"--no-pager", "-P", "--paginate", "-p", "--no-optional-locks", "--version", "--help", "-v", "-h"})
# Of the forms that only read: those that never print the content of a file.
_NAMES_ONLY = names(
    "rev-list rev-parse ls-files ls-tree shortlog describe merge-base name-rev count-objects branch tag remote worktree"
)
_RAW = "%(raw"  # a format that prints the object itself
# Options of `diff` and its relatives that print names and numbers, and those that add nothing to that.
_SUMMARY = longs("stat shortstat numstat name-only name-status summary dirstat raw quiet no-patch")
_NO_PATCH = SHOWING - longs("patch word-diff unified function-context check") | _SUMMARY
_QUIET_LETTERS = "snzbwRMGSi"
_HEAD = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*)*\Z", re.ASCII)  # any other name may be a file

_FROM_COMMITS = names("checkout restore reset")
_COMMON = "quiet verbose dry-run force"
# Forms that write. They print names and numbers; with other options they may show patches.
_WRITING: dict[str, ReadOnlyGitForm] = {
    "add": ReadOnlyGitForm("AunvfN", "", longs(f"all update intent-to-add no-all refresh {_COMMON}")),
    "stage": ReadOnlyGitForm("AunvfN", "", longs(f"all update intent-to-add no-all refresh {_COMMON}")),
    "commit": ReadOnlyGitForm("aqsn", "m", longs(
        "all message quiet signoff no-verify amend no-edit allow-empty allow-empty-message author date no-gpg-sign"
    )),
    "rm": ReadOnlyGitForm("rfqn", "", longs("cached quiet force dry-run")),
    "mv": ReadOnlyGitForm("fkvn", "", longs("force verbose dry-run")),
    "checkout": ReadOnlyGitForm("qfdt", "bB", longs("quiet force detach track no-track orphan ours theirs")),
    "switch": ReadOnlyGitForm("qfdt", "cC", longs("quiet force detach track no-track orphan create force-create "
        "discard-changes")),
    "restore": ReadOnlyGitForm("SWq", "s", longs("staged worktree source quiet")),
    "reset": ReadOnlyGitForm("q", "", longs("hard soft mixed keep merge quiet")),
    "merge": ReadOnlyGitForm("nq", "mXs", longs(
        "ff no-ff ff-only squash no-squash no-edit abort continue no-commit quiet message strategy no-stat"
    )),
    "pull": ReadOnlyGitForm("rqtpv", "", longs("rebase no-rebase ff ff-only no-ff prune quiet all tags "
        "autostash no-edit")),
    "fetch": ReadOnlyGitForm("aptqvf", "", longs(f"all prune tags depth unshallow {_COMMON}")),
    "push": ReadOnlyGitForm("ufqndv", "", longs(
        f"set-upstream force-with-lease tags delete all follow-tags no-verify porcelain {_COMMON}"
    )),
    "branch": ReadOnlyGitForm("dDmMavrlfqu", "", longs(
        "list all remotes delete move force show-current set-upstream-to merged no-merged contains sort verbose"
    )),
    "tag": ReadOnlyGitForm("adlfn", "m", longs("annotate delete list force message sort contains merged")),
    "init": ReadOnlyGitForm("q", "b", longs("bare quiet initial-branch")),
    "remote": ReadOnlyGitForm("v", "", longs("verbose")),
    "rebase": ReadOnlyGitForm("q", "", longs("continue abort skip quit onto autostash no-autostash quiet")),
    "cherry-pick": ReadOnlyGitForm("nxs", "m", longs("continue abort skip quit no-commit mainline signoff")),
    "revert": ReadOnlyGitForm("ns", "m", longs("continue abort skip quit no-commit no-edit mainline")),
    "clean": ReadOnlyGitForm("fdnqxX", "e", longs("force dry-run quiet exclude")),
    "gc": ReadOnlyGitForm("q", "", longs("quiet auto prune aggressive")),
    "config": ReadOnlyGitForm("l", "", longs("list get get-all get-regexp global local system show-origin show-scope")),
    "version": ReadOnlyGitForm(),
    "help": ReadOnlyGitForm(),
}  # fmt: skip
_NO_FORM = ReadOnlyGitForm()


class _GitArguments(NamedTuple):
    """The words of a subcommand, sorted."""

    options: tuple[str, ...]
    operands: tuple[ShellWord, ...]  # before `--`: revisions or paths
    paths: tuple[ShellWord, ...]  # after it
    dashed: bool


def git_reads(words: tuple[ShellWord, ...]) -> CommandReads:
    name = base_name(words[0].text)
    if name != "git":  # `git-log` is `git log`
        words = (ShellWord("git", words[0].start), ShellWord(name[4:], words[0].start), *words[1:])
    rest = git_subcommand(words)
    if any(word.text not in _BEFORE for word in words[1 : len(words) - len(rest)]):
        return _unknown("options before the subcommand")
    if not rest:
        return NOTHING
    name = rest[0].text
    plain = (words[0], *rest)
    if any(_RAW in word.text for word in rest) or not all(word.exact for word in rest):
        return _unknown(name)
    if name in _NAMES_ONLY and only_reads(plain):
        return NOTHING
    if name in _FROM_COMMITS and any(":" in word.text for word in rest):
        return _unknown(name)  # `HEAD:folder` puts its content elsewhere, where no rule is about it
    reader = _READERS.get(name)
    given = _sorted(rest, FORMS[name] if reader is not None else _WRITING.get(name, _NO_FORM))
    if given is None or (reader is not None and not only_reads(plain)) or (reader is None and name not in _WRITING):
        return _unknown(name)
    return _writing(name, given) if reader is None else reader(given)


def _unknown(what: str) -> CommandReads:
    """It may also print the content of commits, which no sandbox hides."""
    return CommandReads(unknown=f"the words of 'git' do not show what it reads ('{what}')", history=())


def _sorted(rest: tuple[ShellWord, ...], form: ReadOnlyGitForm) -> _GitArguments | None:
    """None: with an option that is not in the form."""
    options: list[str] = []
    operands: list[ShellWord] = []
    index = 1
    while index < len(rest):
        word = rest[index]
        index += 1
        if word.text == "--":
            return _GitArguments(tuple(options), tuple(operands), rest[index:], dashed=True)
        if word.text.startswith("-") and word.text != "-":
            taken = option_taken(form, word.text)
            if taken < 0:
                return None
            options.append(word.text)
            index += taken
        else:
            operands.append(word)
    return _GitArguments(tuple(options), tuple(operands), (), dashed=False)


# --- status, log, show, diff -----------------------------------------------------------------------------------------


def _status(given: _GitArguments) -> CommandReads:
    verbose = any("v" in option for option in given.options if not option.startswith("--"))
    return _unknown("status -v") if verbose else NOTHING  # it prints what is staged


def _log(given: _GitArguments) -> CommandReads:
    return _history(given) if _shows_patch(given) else NOTHING


def _stash(given: _GitArguments) -> CommandReads:
    return _unknown("stash") if _shows_patch(given) else NOTHING  # `show` prints a summary, `list` names


def _show(given: _GitArguments) -> CommandReads:
    """Also with `--stat` it prints a file, if it gets one: by its path, or by its number."""
    named = all(_HEAD.match(word.text) for word in given.operands)
    return NOTHING if named and _is_summary(given) else _history(given)._replace(objects=True)


def _diff(given: _GitArguments) -> CommandReads:
    if _is_summary(given):
        return NOTHING
    commits = not _COMMITS.isdisjoint(given.options) or (given.dashed and given.operands)
    return _history(given)._replace(tracked=not commits, objects=True, folders=True)


_COMMITS = longs("cached staged merge-base")


def _is_summary(given: _GitArguments) -> bool:
    summary = any(option.partition("=")[0] in _SUMMARY or option == "-s" for option in given.options)
    return summary and not _shows_patch(given)


def _shows_patch(given: _GitArguments) -> bool:
    return any(_is_patch(option) for option in given.options)


def _is_patch(option: str) -> bool:
    if option.startswith("--"):
        return option.partition("=")[0] not in _NO_PATCH
    letters = re.split(r"[nGS]", option[1:], maxsplit=1)[0]  # the rest is the value of these
    return not option[1:].isdigit() and any(letter not in _QUIET_LETTERS for letter in letters)


def _history(given: _GitArguments) -> CommandReads:
    if "--follow" in given.options or (given.dashed and not given.paths):
        return CommandReads(history=())
    if given.dashed:
        return CommandReads(history=(), revisions=given.operands, paths=given.paths)
    return CommandReads(history=given.operands)


# --- blame, cat-file, grep -------------------------------------------------------------------------------------------


def _cat_file(given: _GitArguments) -> CommandReads:
    quiet = bool(given.options) and all(option in ("-t", "-s", "-e") for option in given.options)
    return NOTHING if quiet else CommandReads(history=(), revisions=given.operands, objects=True)


def _blame(given: _GitArguments) -> CommandReads:
    return CommandReads(history=(*given.operands, *given.paths)[-1:])


def _grep(given: _GitArguments) -> CommandReads:
    letters = "".join(option[1:] for option in given.options if not option.startswith("--"))
    if any(letter in letters for letter in "lLcq") or not _SILENT.isdisjoint(given.options):
        return NOTHING
    operands = given.operands if "e" in letters else given.operands[1:]
    if "--untracked" in given.options:
        return CommandReads(
            trees=tuple([ReadTree(word, follow=False) for word in (*operands, *given.paths) or (HERE,)])
        )
    if not operands and not given.paths:
        return CommandReads(tracked=True)
    found = CommandReads(history=operands, tracked=True, objects=True, folders=True)
    return found._replace(history=(), revisions=operands, paths=given.paths) if given.dashed else found


_SILENT = longs("name-only files-with-matches count")
_READERS: dict[str, Callable[[_GitArguments], CommandReads]] = {
    "status": _status, "log": _log, "reflog": _log, "stash": _stash, "show": _show, "diff": _diff,
    "cat-file": _cat_file, "blame": _blame, "grep": _grep,
}  # fmt: skip


# --- what writes -----------------------------------------------------------------------------------------------------


def _writing(name: str, given: _GitArguments) -> CommandReads:
    words = (*given.operands, *given.paths)
    match name:
        case "add" | "stage" if "-u" in given.options or "--update" in given.options:
            return CommandReads(tracked=True)
        case "add" | "stage":  # added files can be shown from then on
            return CommandReads(trees=tuple([ReadTree(word, follow=False) for word in words or (HERE,)]))
        case "mv":
            return CommandReads(trees=tuple([ReadTree(word) for word in words]))
        case _:
            return NOTHING
