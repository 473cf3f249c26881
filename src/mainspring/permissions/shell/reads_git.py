"""What git could read: names only, files that it tracks, or the content of commits.

A commit holds files as they were: no sandbox hides a denied file in there, and no file of that name need exist any
more. So a command that prints what commits hold is asked about, unless it names the files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mainspring.permissions.shell.look import base
from mainspring.permissions.shell.programs import git_subcommand
from mainspring.permissions.shell.readonly_git import FORMS, SHOWING, Form, only_reads, option_taken
from mainspring.permissions.shell.reads import HERE, NOTHING, Reads, Tree
from mainspring.permissions.shell.tables import longs, names
from mainspring.permissions.shell.values import Word

_BEFORE = frozenset({"--no-pager", "-P", "--paginate", "-p", "--no-optional-locks", "--version", "--help", "-v", "-h"})
# Of the forms that only read: those that never print what is in a file.
_NAMES_ONLY = names(
    "rev-list rev-parse ls-files ls-tree shortlog describe merge-base name-rev count-objects branch tag remote worktree"
)
_RAW = "%(raw"  # a format that prints the object itself
# Options of `diff` and its relatives after which names and numbers are printed, and those that add nothing to that.
_SUMMARY = longs("stat shortstat numstat name-only name-status summary dirstat raw quiet no-patch")
_NO_PATCH = SHOWING - longs("patch word-diff unified function-context check") | _SUMMARY
_QUIET_LETTERS = "snzbwRMGSi"
_HEAD = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*)*\Z", re.ASCII)  # any other name may be one for a file

_FROM_COMMITS = names("checkout restore reset")
_COMMON = "quiet verbose dry-run force"
# Forms that write. What they print are names and numbers; with other options they may show patches.
_WRITING: dict[str, Form] = {
    "add": Form("AunvfN", "", longs(f"all update intent-to-add no-all refresh {_COMMON}")),
    "stage": Form("AunvfN", "", longs(f"all update intent-to-add no-all refresh {_COMMON}")),
    "commit": Form("aqsn", "m", longs(
        "all message quiet signoff no-verify amend no-edit allow-empty allow-empty-message author date no-gpg-sign"
    )),
    "rm": Form("rfqn", "", longs("cached quiet force dry-run")),
    "mv": Form("fkvn", "", longs("force verbose dry-run")),
    "checkout": Form("qfdt", "bB", longs("quiet force detach track no-track orphan ours theirs")),
    "switch": Form("qfdt", "cC", longs("quiet force detach track no-track orphan create force-create discard-changes")),
    "restore": Form("SWq", "s", longs("staged worktree source quiet")),
    "reset": Form("q", "", longs("hard soft mixed keep merge quiet")),
    "merge": Form("nq", "mXs", longs(
        "ff no-ff ff-only squash no-squash no-edit abort continue no-commit quiet message strategy no-stat"
    )),
    "pull": Form("rqtpv", "", longs("rebase no-rebase ff ff-only no-ff prune quiet all tags autostash no-edit")),
    "fetch": Form("aptqvf", "", longs(f"all prune tags depth unshallow {_COMMON}")),
    "push": Form("ufqndv", "", longs(
        f"set-upstream force-with-lease tags delete all follow-tags no-verify porcelain {_COMMON}"
    )),
    "branch": Form("dDmMavrlfqu", "", longs(
        "list all remotes delete move force show-current set-upstream-to merged no-merged contains sort verbose"
    )),
    "tag": Form("adlfn", "m", longs("annotate delete list force message sort contains merged")),
    "init": Form("q", "b", longs("bare quiet initial-branch")),
    "remote": Form("v", "", longs("verbose")),
    "rebase": Form("q", "", longs("continue abort skip quit onto autostash no-autostash quiet")),
    "cherry-pick": Form("nxs", "m", longs("continue abort skip quit no-commit mainline signoff")),
    "revert": Form("ns", "m", longs("continue abort skip quit no-commit no-edit mainline")),
    "clean": Form("fdnqxX", "e", longs("force dry-run quiet exclude")),
    "gc": Form("q", "", longs("quiet auto prune aggressive")),
    "config": Form("l", "", longs("list get get-all get-regexp global local system show-origin show-scope")),
    "version": Form(),
    "help": Form(),
}  # fmt: skip
_NO_FORM = Form()


class _Given(NamedTuple):
    """The words of a subcommand, sorted."""

    options: tuple[str, ...]
    operands: tuple[Word, ...]  # before `--`: revisions or paths
    paths: tuple[Word, ...]  # after it
    dashed: bool


def git_reads(words: tuple[Word, ...]) -> Reads:
    name = base(words[0].text)
    if name != "git":  # `git-log` is `git log`
        words = (Word("git", words[0].start), Word(name[4:], words[0].start), *words[1:])
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
        return _unknown(name)  # `HEAD:folder` puts what is in it elsewhere, where no rule is about it
    reader = _READERS.get(name)
    given = _sorted(rest, FORMS[name] if reader is not None else _WRITING.get(name, _NO_FORM))
    if given is None or (reader is not None and not only_reads(plain)) or (reader is None and name not in _WRITING):
        return _unknown(name)
    return _writing(name, given) if reader is None else reader(given)


def _unknown(what: str) -> Reads:
    """It may print what is in commits, too, which no sandbox hides."""
    return Reads(unknown=f"what 'git' reads cannot be told from its words ('{what}')", history=())


def _sorted(rest: tuple[Word, ...], form: Form) -> _Given | None:
    """None: with an option that is not in the form."""
    options: list[str] = []
    operands: list[Word] = []
    index = 1
    while index < len(rest):
        word = rest[index]
        index += 1
        if word.text == "--":
            return _Given(tuple(options), tuple(operands), rest[index:], dashed=True)
        if word.text.startswith("-") and word.text != "-":
            taken = option_taken(form, word.text)
            if taken < 0:
                return None
            options.append(word.text)
            index += taken
        else:
            operands.append(word)
    return _Given(tuple(options), tuple(operands), (), dashed=False)


# --- status, log, show, diff -----------------------------------------------------------------------------------------


def _status(given: _Given) -> Reads:
    verbose = any("v" in option for option in given.options if not option.startswith("--"))
    return _unknown("status -v") if verbose else NOTHING  # it prints what is staged


def _log(given: _Given) -> Reads:
    return _history(given) if _shows_patch(given) else NOTHING


def _stash(given: _Given) -> Reads:
    return _unknown("stash") if _shows_patch(given) else NOTHING  # `show` prints a summary, `list` names


def _show(given: _Given) -> Reads:
    """Also with `--stat` it prints a file, if it is given one: by its path, or by its number."""
    named = all(_HEAD.match(word.text) for word in given.operands)
    return NOTHING if named and _is_summary(given) else _history(given)._replace(objects=True)


def _diff(given: _Given) -> Reads:
    if _is_summary(given):
        return NOTHING
    commits = not _COMMITS.isdisjoint(given.options) or (given.dashed and given.operands)
    return _history(given)._replace(tracked=not commits, objects=True, folders=True)


_COMMITS = longs("cached staged merge-base")


def _is_summary(given: _Given) -> bool:
    summary = any(option.partition("=")[0] in _SUMMARY or option == "-s" for option in given.options)
    return summary and not _shows_patch(given)


def _shows_patch(given: _Given) -> bool:
    return any(_is_patch(option) for option in given.options)


def _is_patch(option: str) -> bool:
    if option.startswith("--"):
        return option.partition("=")[0] not in _NO_PATCH
    letters = re.split(r"[nGS]", option[1:], maxsplit=1)[0]  # what follows is the value of these
    return not option[1:].isdigit() and any(letter not in _QUIET_LETTERS for letter in letters)


def _history(given: _Given) -> Reads:
    if "--follow" in given.options or (given.dashed and not given.paths):
        return Reads(history=())
    if given.dashed:
        return Reads(history=(), revisions=given.operands, paths=given.paths)
    return Reads(history=given.operands)


# --- blame, cat-file, grep -------------------------------------------------------------------------------------------


def _cat_file(given: _Given) -> Reads:
    quiet = bool(given.options) and all(option in ("-t", "-s", "-e") for option in given.options)
    return NOTHING if quiet else Reads(history=(), revisions=given.operands, objects=True)


def _blame(given: _Given) -> Reads:
    return Reads(history=(*given.operands, *given.paths)[-1:])


def _grep(given: _Given) -> Reads:
    letters = "".join(option[1:] for option in given.options if not option.startswith("--"))
    if any(letter in letters for letter in "lLcq") or not _SILENT.isdisjoint(given.options):
        return NOTHING
    operands = given.operands if "e" in letters else given.operands[1:]
    if "--untracked" in given.options:
        return Reads(trees=tuple([Tree(word, follow=False) for word in (*operands, *given.paths) or (HERE,)]))
    if not operands and not given.paths:
        return Reads(tracked=True)
    found = Reads(history=operands, tracked=True, objects=True, folders=True)
    return found._replace(history=(), revisions=operands, paths=given.paths) if given.dashed else found


_SILENT = longs("name-only files-with-matches count")
_READERS: dict[str, Callable[[_Given], Reads]] = {
    "status": _status, "log": _log, "reflog": _log, "stash": _stash, "show": _show, "diff": _diff,
    "cat-file": _cat_file, "blame": _blame, "grep": _grep,
}  # fmt: skip


# --- what writes -----------------------------------------------------------------------------------------------------


def _writing(name: str, given: _Given) -> Reads:
    words = (*given.operands, *given.paths)
    match name:
        case "add" | "stage" if "-u" in given.options or "--update" in given.options:
            return Reads(tracked=True)
        case "add" | "stage":  # what is added can be shown from then on
            return Reads(trees=tuple([Tree(word, follow=False) for word in words or (HERE,)]))
        case "mv":
            return Reads(trees=tuple([Tree(word) for word in words]))
        case _:
            return NOTHING
