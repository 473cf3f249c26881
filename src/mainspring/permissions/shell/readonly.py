"""Commands that only read: a table of program -> allowed options (security S8). Anything not in it is asked.

Long options in full, short ones one by one. Files among the words are returned: the rules for reading apply to them.
If no option of a program writes or runs, its words may have unquoted globs: files named like options do no harm.

It also has the forms of git that only read. Options before the subcommand are never among them (security S6), nor are
computed words.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from mainspring.permissions.shell.inline_code import awk_runs, plain_sed, sed_scripts
from mainspring.permissions.shell.values import UNKNOWN, ShellWord, longs, names

Operands = Literal["files", "data", "none", "one pattern, then files"]


class ReadOnlyProgram(NamedTuple):
    operands: Operands
    flags: str = ""  # short options without a value
    values: str = ""  # with one
    longs: frozenset[str] = frozenset()  # alone, or as `--name=value`
    long_values: frozenset[str] = frozenset()  # with the value in the next word
    most: int = 1_000  # operands; if one more would be written to
    globs: bool = True
    number: bool = False  # `-5` is an option
    pattern: frozenset[str] = frozenset()  # options that replace the pattern


_SUMS = ReadOnlyProgram("files", "btz", longs=longs("binary text tag zero"))

TABLE: dict[str, ReadOnlyProgram] = {
    "ls": ReadOnlyProgram(
        "files", "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", "IwT",
        longs(
            "all almost-all author color directory human-readable recursive reverse size sort time full-time "
            "inode classify group-directories-first format hide ignore file-type indicator-style no-group "
            "numeric-uid-gid time-style width si"
        ),
    ),
    "cat": ReadOnlyProgram("files", "AbeEnstTuv", longs=longs(
            "show-all number-nonblank show-ends number squeeze-blank show-tabs"
        )),
    "head": ReadOnlyProgram("files", "qvz", "nc", longs("lines bytes quiet silent verbose"), longs("lines bytes"),
        number=True),
    "tail": ReadOnlyProgram("files", "fFqvz", "nc", longs("lines bytes quiet follow verbose"), longs("lines bytes"),
        number=True),
    "wc": ReadOnlyProgram("files", "clmwL", longs=longs("bytes chars lines words max-line-length total")),
    "stat": ReadOnlyProgram("files", "Lft", "c", longs("dereference file-system format printf terse"), longs("format")),
    "du": ReadOnlyProgram("files", "abchHkmsxS0", "dBt", longs(
            "all apparent-size bytes total human-readable max-depth summarize separate-dirs one-file-system "
            "threshold time exclude si"
        ), longs("max-depth")),
    "df": ReadOnlyProgram("files", "ahHiklPT", "Btx", longs(
            "all human-readable inodes local print-type total si type output"
        )),
    "pwd": ReadOnlyProgram("none", "LP"),
    "echo": ReadOnlyProgram("data"),
    "true": ReadOnlyProgram("data"),
    "false": ReadOnlyProgram("data"),
    ":": ReadOnlyProgram("data"),
    "printf": ReadOnlyProgram("data"),
    "test": ReadOnlyProgram("data"),
    "[": ReadOnlyProgram("data"),
    "seq": ReadOnlyProgram("data", "w", "sf"),
    "sleep": ReadOnlyProgram("data"),
    "whoami": ReadOnlyProgram("none"),
    "arch": ReadOnlyProgram("none"),
    "nproc": ReadOnlyProgram("none", longs=longs("all")),
    "tty": ReadOnlyProgram("none", "s"),
    "uptime": ReadOnlyProgram("none", "ps"),
    "id": ReadOnlyProgram("data", "Ggnruz"),
    "groups": ReadOnlyProgram("data"),
    "uname": ReadOnlyProgram("none", "asnrvmpio", longs=longs(
            "all kernel-name nodename kernel-release machine operating-system"
        )),
    "hostname": ReadOnlyProgram("none", "fsiId"),
    "date": ReadOnlyProgram("data", "uR", "dI", longs("utc date iso-8601 rfc-3339 rfc-email"), longs("date"),
        globs=False),
    "ps": ReadOnlyProgram("data", "AaefFlwyHjT", "opuCtU", globs=False),
    "free": ReadOnlyProgram("none", "bkmghtwl"),
    "lscpu": ReadOnlyProgram("none"),
    "basename": ReadOnlyProgram("data", "az", "s"),
    "dirname": ReadOnlyProgram("data", "z"),
    "which": ReadOnlyProgram("data", "a"),
    "type": ReadOnlyProgram("data", "afptP"),
    "realpath": ReadOnlyProgram("files", "emsLPqz", longs=longs(
            "canonicalize-existing canonicalize-missing no-symlinks strip"
        )),
    "readlink": ReadOnlyProgram("files", "femnqsvz"),
    "file": ReadOnlyProgram("files", "bhikLNpr0", longs=longs(
            "brief mime mime-type mime-encoding dereference no-dereference"
        ), globs=False),
    "diff": ReadOnlyProgram(
        "files", "abBcdeEiNnpqrstTuwyZ", "UCWIxF",
        longs(
            "unified brief color recursive side-by-side ignore-all-space ignore-space-change ignore-blank-lines "
            "ignore-case new-file text context width exclude report-identical-files suppress-common-lines "
            "no-dereference strip-trailing-cr"
        ),
    ),
    "cmp": ReadOnlyProgram("files", "bls", "n"),
    "comm": ReadOnlyProgram("files", "123z"),
    "sort": ReadOnlyProgram("files", "bdfghiMnrRuVzcCms", "kt", longs(
            "ignore-case numeric-sort reverse unique human-numeric-sort version-sort key field-separator check "
            "stable zero-terminated"
        ), globs=False),
    "uniq": ReadOnlyProgram("files", "cdDiuz", "fsw", longs("count repeated unique ignore-case skip-fields"), most=1,
        globs=False),
    "cut": ReadOnlyProgram("files", "snz", "bcdf", longs(
            "bytes characters delimiter fields only-delimited complement output-delimiter"
        )),
    "tr": ReadOnlyProgram("data", "cCdst"),
    "nl": ReadOnlyProgram("files", "p", "bdfhilnsvw"),
    "rev": ReadOnlyProgram("files"),
    "tac": ReadOnlyProgram("files", "br", "s"),
    "fold": ReadOnlyProgram("files", "bs", "w"),
    "paste": ReadOnlyProgram("files", "sz", "d"),
    "join": ReadOnlyProgram("files", "iz", "12aeojtv"),
    "expand": ReadOnlyProgram("files", "i", "t"),
    "column": ReadOnlyProgram("files", "tenx", "cs"),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "cksum": ReadOnlyProgram("files"),
    "od": ReadOnlyProgram("files", "abcdfiloxsv", "AtNjwS"),
    "hexdump": ReadOnlyProgram("files", "bcCdovx", "nse"),
    "xxd": ReadOnlyProgram("files", "bepu", "clsgo", most=1, globs=False),
    "strings": ReadOnlyProgram("files", "af", "nte"),
    "grep": ReadOnlyProgram(
        "one pattern, then files", "abcEFGhHiIlLnoPqrsTUvVwxyZz", "ABCmdDe",
        longs(
            "color colour line-number recursive ignore-case count files-with-matches files-without-match "
            "fixed-strings word-regexp extended-regexp basic-regexp perl-regexp line-regexp invert-match "
            "only-matching max-count context after-context before-context no-filename with-filename quiet silent "
            "no-messages null text byte-offset include exclude exclude-dir regexp"
        ),
        longs(
            "max-count context after-context before-context include exclude exclude-dir regexp"
        ), number=True, pattern=frozenset({"e", "--regexp"}),
    ),
    "rg": ReadOnlyProgram(
        "one pattern, then files", "cFiIlnNoPqsSuvwxHh.", "ABCgjMmtTre",
        longs(
            "color line-number ignore-case smart-case case-sensitive count files-with-matches "
            "files-without-match fixed-strings word-regexp invert-match only-matching max-count context after-context "
            "before-context glob hidden no-ignore type type-not heading no-heading no-filename with-filename json "
            "stats multiline pcre2 sort vimgrep column trim max-depth regexp files"
        ),
        longs(
            "max-count context after-context before-context glob type type-not max-depth sort color regexp"
        ), globs=False, pattern=frozenset({"e", "--regexp", "--files"}),
    ),
    "awk": ReadOnlyProgram("one pattern, then files", "", "Fv", globs=False),
    "tree": ReadOnlyProgram("files", "adfipsughDFrtUxCnASqvcJQN", "LPI", longs("dirsfirst noreport charset "
        "prune filelimit si du"),
                globs=False),
    "jq": ReadOnlyProgram("one pattern, then files", "rcnesSMaCj", "", longs(
            "raw-output compact-output null-input exit-status slurp sort-keys monochrome-output ascii-output "
            "color-output tab"
        ), globs=False),
}  # fmt: skip
_SED_OPTIONS = re.compile(r"-[nErsuz]*e?\Z|--(?:quiet|silent|regexp-extended|expression)\Z")
# The environment, other files, and modules from anywhere.
_JQ_READS = re.compile(r"(?<![.\w])env\b|\$ENV|\$__prog|\b(?:import|include|get_search_list)\b")
# With only this they print and end.
_VERSIONS: dict[str, tuple[list[str], ...]] = {
    **dict.fromkeys(
        names(
            """git npx bun deno python python3 pip pip3 uv ruby gem bundle perl php java javac cargo rustc rustup gcc
            g++ clang make cmake docker podman kubectl helm terraform tsc bash jq rg curl"""
        ),
        (["--version"],),
    ),
    **dict.fromkeys(names("node npm yarn pnpm"), (["--version"], ["-v"])),
    "go": (["version"],),
}
# Besides what runs and writes: the environment, and computed file names.
_AWK_READS = re.compile(r"ENVIRON|ARGV|ARGC|PROCINFO|>|<\s*\"")
_PS_WORDS = names("aux ax axu a x u au ux")
TABLE["egrep"] = TABLE["fgrep"] = TABLE["grep"]

_FIND_TESTS = {
    **dict.fromkeys(names(
            "-not ! -o -a -or -and ( ) , -print -print0 -empty -prune -depth -xdev -mount -readable -writable "
            "-executable -true -false -quit -daystart -noleaf -ls"
        ), 0),
    **dict.fromkeys(names(
            "-name -iname -path -ipath -wholename -type -maxdepth -mindepth -size -mtime -mmin -ctime -cmin "
            "-atime -amin -newer -regex -iregex -regextype -perm -user -group -links -inum -printf"
        ), 1),
}  # fmt: skip


def files_read(words: tuple[ShellWord, ...]) -> list[ShellWord] | None:
    """The files that a read-only command names, or None if it is not known to be one."""
    name = words[0].text
    if name in _VERSIONS and [word.text for word in words[1:]] in _VERSIONS[name]:
        return []
    if name == "find":
        return _find(words)
    if name == "sed":
        return _sed(words)
    if name == "git":
        return [] if only_reads(words) else None
    row = TABLE.get(name)
    if row is None or (name == "printf" and not _plain_format(words)):
        return None
    if row.operands == "data" and not row.flags and not row.values:
        return []
    if name == "awk" and awk_runs(words):
        return None
    operands = row_operands(row, words)
    if operands is None or len(operands) > row.most or not _plain_operands(name, operands):
        return None
    if row.operands == "one pattern, then files":
        if row.pattern and _gives_pattern(row, words):
            return operands
        return operands[1:] if operands and operands[0].exact else None
    if row.operands == "none" and operands:
        return None
    return operands if row.operands == "files" else []


def _plain_operands(name: str, operands: list[ShellWord]) -> bool:
    match name:
        case "date":  # anything else sets the clock
            return all(word.text.startswith("+") for word in operands)
        case "ps":  # with `e` it shows the environment of others
            return all(word.text in _PS_WORDS for word in operands)
        case "awk":
            return bool(operands) and _AWK_READS.search(operands[0].text) is None
        case "strings":  # of binutils: `@file` means the words in a file
            return not any(word.text.startswith("@") for word in operands)
        case "jq":
            return not operands or _JQ_READS.search(operands[0].text) is None
        case _:
            return True


def _gives_pattern(row: ReadOnlyProgram, words: tuple[ShellWord, ...]) -> bool:
    """Then each operand is a file. If an option only looks like one that does, one more file is checked."""
    return any(
        word.text.partition("=")[0] in row.pattern
        if word.text.startswith("--")
        else word.text.startswith("-") and any(letter in row.pattern for letter in word.text[1:])
        for word in words[1:]
    )


def _plain_format(words: tuple[ShellWord, ...]) -> bool:
    return len(words) > 1 and words[1].exact and not words[1].text.startswith("-")


def row_operands(row: ReadOnlyProgram, words: tuple[ShellWord, ...]) -> list[ShellWord] | None:
    """The operands, or None if an option is not in the table."""
    operands: list[ShellWord] = []
    index = 1
    ended = False
    while index < len(words):
        word = words[index]
        index += 1
        if word.names == ("<(",) and word.text == UNKNOWN:
            continue  # the output of a command, which is checked by itself
        if not word.exact:
            if _valued(row, word):
                continue
            free = row.operands == "data" or (word.glob and not word.text.startswith((UNKNOWN + "-", "-")))
            if not (row.globs and free):
                return None
            operands.append(word)
        elif ended or not word.text.startswith("-") or word.text == "-":
            operands.append(word)
        elif word.text == "--":
            ended = True
        else:
            taken = _option(row, word.text, words[index] if index < len(words) else None)
            if taken is None:
                return None
            index += taken
    return operands


def _valued(row: ReadOnlyProgram, word: ShellWord) -> bool:
    """`--include=*.py`: whatever it becomes, it is this option."""
    name, equals, _ = word.text.partition("=")
    return bool(equals) and name in row.longs and (word.glob or not word.many)


def _option(row: ReadOnlyProgram, text: str, following: ShellWord | None) -> int | None:
    """How many further words an option takes; None if it is not allowed."""
    if text.startswith("--"):
        name, equals, _ = text.partition("=")
        if name in row.longs and (equals or name not in row.long_values):
            return 0
        return 1 if name in row.long_values and _one(following) and not equals else None
    if row.number and text[1:].isdigit():
        return 0
    for position, letter in enumerate(text[1:], 2):
        if letter in row.values:
            if position < len(text):
                return 0
            return 1 if _one(following) else None
        if letter not in row.flags:
            return None
    return 0


def _one(word: ShellWord | None) -> bool:
    """Certainly one word, whatever it says."""
    return word is not None and not word.many


def _sed(words: tuple[ShellWord, ...]) -> list[ShellWord] | None:
    """Printing and substituting to the output: `sed -n 5p x`."""
    found = sed_scripts(words)
    if found is None or not all(word.exact for word in words):
        return None
    scripts, files = found
    options = [
        word.text for word in words[1:] if word.text.startswith("-") and word not in scripts and word.text != "-"
    ]
    if not scripts or not all(_SED_OPTIONS.match(option) for option in options):
        return None
    return files if all(plain_sed(script.text) for script in scripts) else None


def _find(words: tuple[ShellWord, ...]) -> list[ShellWord] | None:
    if not all(word.exact for word in words):
        return None
    index = 1
    while index < len(words) and not words[index].text.startswith(("-", "(", "!", ",")):
        index += 1
    places = list(words[1:index])
    while index < len(words):
        taken = _FIND_TESTS.get(words[index].text)
        if taken is None:
            return None
        if words[index].text == "-newer":
            places.extend(words[index + 1 : index + 2])
        index += 1 + taken
    return places


class ReadOnlyGitForm(NamedTuple):
    flags: str = ""
    values: str = ""
    longs: frozenset[str] = frozenset()  # alone or with `=value`
    operands: bool = True
    listing: frozenset[str] = frozenset()  # options that turn operands from names to create into names to search
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
        if "%G" in text:  # signatures: git runs gpg
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
    """A path outside: without a repository, and with such paths, `git diff` compares any two files."""
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
