"""What a command could read. Either its words name all of it, or they do not: then `unknown` says why.

Deny rules for reading work without a sandbox only if we know every file that a command opens. So this is a table of
programs whose reads follow from their words, each with the options that keep it so. Everything else, above all every
program that runs its own code, is not enumerable: if a rule denies reading, it is asked.

File names are not secret here: `ls`, `find` and `git status` read folders, not the content of files.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from mainspring import permissions
from mainspring.permissions.shell.analyze import base_name, inner_start
from mainspring.permissions.shell.file_effects import find_touched_files
from mainspring.permissions.shell.inline_code import awk_runs, sed_runs
from mainspring.permissions.shell.readonly import TABLE, ReadOnlyProgram, files_read, row_operands
from mainspring.permissions.shell.runners import RUNNERS, SHELLS, interpreter_family
from mainspring.permissions.shell.values import ShellWord, longs, names


class ReadTree(NamedTuple):
    """A file or a folder that is read completely."""

    word: ShellWord
    hidden: bool = True  # also files and folders whose names begin with a dot
    follow: bool = True  # also behind links in it
    expand: bool = False  # a pattern means its current matches; else it is not known


class CommandReads(NamedTuple):
    """What a command reads, besides the operands that `file_effects.py` finds."""

    files: tuple[ShellWord, ...] = ()
    trees: tuple[ReadTree, ...] = ()
    unknown: str = ""  # why the rest cannot be enumerated
    tracked: bool = False  # files that git tracks, as they are in the working tree or the index
    history: tuple[ShellWord, ...] | None = None  # files in commits: revisions or paths; no path given: all
    revisions: tuple[ShellWord, ...] = ()  # these are no paths
    paths: tuple[ShellWord, ...] = ()  # these are no revisions
    objects: bool = False  # a revision may also be a file by itself, which is printed whatever paths are given
    folders: bool = False  # of a folder in a commit, everything in it is printed


NOTHING = CommandReads()
HERE = ShellWord(".", -1)

# They open no file for its content, whatever their options. They print names, numbers and their own words.
_QUIET = names(
    """rm rmdir unlink touch mkdir mkfifo mknod chmod chown chgrp chattr truncate tee mktemp sync
    echo printf : true false exit return break continue shift test [ [[ type which hash help whoami seq expr basename
    dirname logname tty clear tput reset sleep yes factor nproc uptime free uname groups id locale getconf kill pkill
    killall pgrep pidof wait jobs disown bg fg umask ulimit times dirs cd pushd popd pwd export declare typeset local
    readonly unset read mapfile readarray set shopt getopts let trap eval alias unalias exec printenv ls dir lscpu"""
)
_GREP = names("grep egrep fgrep rgrep")

_GREP_ROW = TABLE["grep"]._replace(flags=TABLE["grep"].flags + "R")
_PACKERS = ReadOnlyProgram("files", "cdfklqtvnN123456789", "S", longs(
    "stdout to-stdout decompress uncompress force keep list quiet test verbose fast best no-name name"
))  # fmt: skip
_PAGER = ReadOnlyProgram("files", "NRSFXeEiInQ", number=True)
# Programs that read only their operands, with these options.
ROWS: dict[str, ReadOnlyProgram] = {
    "sort": ReadOnlyProgram("files", "bdfghiMnrRuVzcCms", "ktoTS", longs(
        "ignore-case numeric-sort reverse unique human-numeric-sort version-sort key field-separator check stable "
        "zero-terminated output temporary-directory buffer-size parallel general-numeric-sort month-sort random-sort "
        "ignore-leading-blanks dictionary-order merge"
    ), longs("output key field-separator buffer-size temporary-directory parallel"), globs=False),
    "uniq": ReadOnlyProgram("files", "cdDiuz", "fsw", longs("count repeated unique ignore-case skip-fields"),
        globs=False),
    "split": ReadOnlyProgram("files", "dxeuz", "abCln", longs(
        "bytes lines number numeric-suffixes suffix-length verbose additional-suffix"
    ), globs=False),
    "base64": ReadOnlyProgram("files", "di", "w", longs("decode ignore-garbage wrap")),
    "base32": ReadOnlyProgram("files", "di", "w", longs("decode ignore-garbage wrap")),
    "iconv": ReadOnlyProgram("files", "cs", "fto", longs("from-code to-code output"),
        longs("from-code to-code output")),
    "fmt": ReadOnlyProgram("files", "cstu", "wgp", longs("width split-only uniform-spacing"), number=True),
    "pr": ReadOnlyProgram("files", "acdfFJmrtT", "ehilnNoSsw"),
    "unexpand": ReadOnlyProgram("files", "a", "t", longs("all first-only tabs")),
    "xxd": ReadOnlyProgram("files", "beipru", "clsgo", globs=False),
    "tail": TABLE["tail"]._replace(values="ncs", longs=TABLE["tail"].longs | longs("pid retry sleep-interval")),
    **dict.fromkeys(names("gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd zcat bzcat xzcat zstdcat"), _PACKERS),
    **dict.fromkeys(names("less more"), _PAGER),
    **dict.fromkeys(names("sha224sum sha384sum b2sum sum"), TABLE["md5sum"]),
    "unzip": ReadOnlyProgram("files", "loqvptnjXZ12", "dx"),
}  # fmt: skip
_COPY = ReadOnlyProgram("files", "abdfHilLnpPrRsTuvxZ", "tS", longs(
    "archive attributes-only backup copy-contents debug dereference no-dereference force interactive link no-clobber "
    "no-target-directory one-file-system parents preserve no-preserve recursive reflink remove-destination sparse "
    "strip-trailing-slashes suffix symbolic-link target-directory update verbose"
), longs("target-directory suffix"))  # fmt: skip
COPIERS: dict[str, ReadOnlyProgram] = {
    "cp": _COPY,
    "install": ReadOnlyProgram("files", "bcCdDpTv", "mogtS", longs(
        "compare directory mode owner group preserve-timestamps target-directory verbose no-target-directory backup"
    ), longs("mode owner group target-directory")),
    "rsync": ReadOnlyProgram("files", "avzrhPnulptgoDHAXSqciCxRLkKWEOJ8", "", longs(
        "archive verbose delete delete-after delete-before delete-during delete-excluded dry-run progress exclude "
        "include recursive compress human-readable stats partial itemize-changes checksum links copy-links "
        "copy-dirlinks info update existing ignore-existing size-only times perms mkpath relative no-perms no-owner "
        "no-group max-size min-size bwlimit timeout"
    ), longs("exclude include")),
    "zip": ReadOnlyProgram("files", "rqjymvXDoSu0123456789", "", longs("recurse-paths quiet junk-paths symlinks")),
    "mv": ReadOnlyProgram("files", "bfinTuvZ", "tS", longs(
        "backup debug force interactive no-clobber no-target-directory strip-trailing-slashes suffix target-directory "
        "update verbose exchange no-copy"
    ), longs("target-directory suffix")),
    "ln": ReadOnlyProgram("files", "bdFfiLnPrsTv", "tS", longs(
        "backup directory force interactive logical no-dereference physical relative symbolic suffix target-directory "
        "no-target-directory verbose"
    ), longs("target-directory suffix")),
    "link": ReadOnlyProgram("files"),
}  # fmt: skip
_TAR = ReadOnlyProgram("files", "cxtrukzjJaZvphSmoOPUwWlnsG", "fCb", longs(
    "create extract get list append update gzip bzip2 xz zstd auto-compress verbose file directory dereference "
    "preserve-permissions same-permissions exclude strip-components one-file-system keep-old-files overwrite "
    "no-same-owner no-same-permissions owner group mode mtime sort to-stdout exclude-vcs exclude-vcs-ignores wildcards "
    "no-recursion numeric-owner totals transform xform absolute-names touch warning ignore-failed-read format"
), longs(
    "file directory exclude strip-components owner group mode mtime sort transform xform warning format"
), globs=True)  # fmt: skip
_AWK_NAMES = re.compile(r"ARG|SYMTAB")  # by which its code can change the list of files
_DD = re.compile(r"(?:if|of|bs|ibs|obs|count|skip|seek|conv|status|iflag|oflag|cbs)=")
_PAGE = re.compile(r"[A-Za-z0-9_.+:][A-Za-z0-9_.+:-]*\Z", re.ASCII)  # of a manual: with a slash it is a file

# Subcommands that query a service, or list what is installed.
_ASKING: dict[str, frozenset[str]] = {
    **dict.fromkeys(("docker", "podman"), names("ps images logs inspect version info stats port")),
    "npm": names("ls list outdated view info ping whoami root prefix"),
    **dict.fromkeys(("pip", "pip3"), names("list show freeze check")),
    "systemctl": names("status is-active is-enabled list-units show restart start stop"),
    "gh": names("pr-list pr-view pr-status pr-checks issue-list issue-view run-list run-view repo-view"),
    "apt": names("list show search policy"),
}
_PLAIN_WORD = re.compile(
    r"-[aglqn]\Z|--(?:all|json|global|depth|tail|since|limit|state)(?:=[\w.,-]*)?\Z|[^-@]", re.ASCII
)


def find_reads(words: tuple[ShellWord, ...]) -> CommandReads:
    """`words`: a command that certainly runs, its name one static string."""
    name = interpreter_family(base_name(words[0].text))
    if name == "git" or name.startswith("git-"):
        return permissions.git_reads(words)
    if name in RUNNERS:
        return _runner(name, words)
    if name in SHELLS or name in ("source", "."):
        return NOTHING  # a string is analyzed; a file or its input makes the line not resolvable
    plain = (ShellWord(name, words[0].start, bare=True), *words[1:])
    found = _by_program(name, plain)
    return found if found is not None else CommandReads(unknown=f"the words of '{name}' do not show what it reads")


# They may create a link in the place of a file: what is then read through it is not known before.
_LINK_MAKERS = names("bsdtar cpio patch")
_CHECKOUTS = names("checkout switch pull merge reset restore rebase cherry-pick revert stash am apply clone worktree")


def may_make_links(words: tuple[ShellWord, ...]) -> bool:
    """Whether a command unpacks something: an archive, or a commit."""
    name = base_name(words[0].text)
    if name == "tar":
        return len(words) > 1 and ("x" in words[1].text or _has(words, "x", "--extract --get"))
    if name == "unzip":
        return not _has(words, "lptZ")
    return name in _LINK_MAKERS or (name == "git" and any(word.text in _CHECKOUTS for word in words[1:3]))


def _runner(name: str, words: tuple[ShellWord, ...]) -> CommandReads:
    """It reads nothing by itself, if the beginning of the inner command is certain."""
    if name == "command" and any(word.text in ("-v", "-V") for word in words[1:2]):
        return NOTHING
    known = inner_start(RUNNERS[name], words, 0, len(words))[1]
    return NOTHING if known else CommandReads(unknown=f"it is unknown what '{name}' runs, and so what that reads")


def _by_program(name: str, words: tuple[ShellWord, ...]) -> CommandReads | None:
    """None: not enumerable."""
    if name in _QUIET:
        return NOTHING
    if name in _GREP or name in ("rg", "diff"):
        return _search(name, words)
    if name in COPIERS:
        return _copied(name, words)
    match name:
        case "find":
            return None if any(word.text.startswith("-files0-from") for word in words) else NOTHING
        case "tar":
            return _packed(words)
        case "sed" | "gsed":
            return None if sed_runs(words) else NOTHING
        case "awk" | "gawk" | "mawk" | "nawk":
            return None if awk_runs(words) or any(_AWK_NAMES.search(word.text) for word in words) else NOTHING
        case "dd":
            return NOTHING if all(_DD.match(word.text) for word in words[1:]) else None
        case "man":
            return NOTHING if all(word.exact and _PAGE.match(word.text) for word in words[1:]) else None
        case "curl" | "wget":
            return NOTHING if _fetches(name, words) else None
        case _:
            return _listed(name, words)


def _listed(name: str, words: tuple[ShellWord, ...]) -> CommandReads | None:
    if files_read(words) is not None:
        return NOTHING
    if name in ROWS:
        operands = row_operands(ROWS[name], words)
        return None if operands is None else CommandReads(files=tuple(operands))
    return NOTHING if _asks(name, words) else None


def _asks(name: str, words: tuple[ShellWord, ...]) -> bool:
    texts = [word.text for word in words[1:]]
    first = "-".join(texts[:2]) if name == "gh" else "".join(texts[:1])
    return first in _ASKING.get(name, ()) and all(word.exact and _PLAIN_WORD.match(word.text) for word in words[1:])


# --- searching -----------------------------------------------------------------------------------------------------


def _search(name: str, words: tuple[ShellWord, ...]) -> CommandReads | None:
    if name == "diff":  # it compares the content of two folders, also without `-r`
        operands = row_operands(TABLE["diff"], words)
        return None if operands is None else CommandReads(trees=tuple([ReadTree(word) for word in operands]))
    operands = row_operands(TABLE["rg"] if name == "rg" else _GREP_ROW, words)
    given = any(_PATTERN.match(word.text) for word in words)
    if operands is None or (operands and not given and not operands[0].exact):
        return None
    named = operands if given else operands[1:]
    if name == "rg":
        hidden = _has(words, "u.", "--hidden --no-ignore") or _unhides(words)
        return CommandReads(trees=tuple([ReadTree(word, hidden, follow=False) for word in named or [HERE]]))
    follow = _has(words, "R")
    if name != "rgrep" and not follow and not _has(words, "r", "--recursive") and not _folders_too(words):
        return NOTHING
    return CommandReads(trees=tuple([ReadTree(word, follow=follow) for word in named or [HERE]]))


_CODE = "py pyi js jsx ts tsx mjs cjs rs go java kt c h cc cpp hpp cs rb php swift scala sh html css scss md rst"
_OF_CODE = re.compile(rf"!.*|[^!]*\*\.({_CODE.replace(' ', '|')})\Z", re.ASCII)
_TYPES = names(f"{_CODE} python rust ruby markdown")


def _unhides(words: tuple[ShellWord, ...]) -> bool:
    """ripgrep also searches hidden files that a glob or a type of its words matches. Code is hardly ever hidden."""
    globs, types = _values_of("g", "--glob", words), _values_of("t", "--type", words)
    return any(not _OF_CODE.match(word.text) for word in globs) or any(word.text not in _TYPES for word in types)


_PATTERN = re.compile(r"-[abcEFGhHiIlLnoPqrRsSTuUvVwxyZzN.]*e|--regexp|--files\Z")


def _has(words: tuple[ShellWord, ...], shorts: str, long: str = "") -> bool:
    """Errs on the side of yes: a letter in the value of another option counts."""
    wanted = long.split()
    for word in words[1:]:
        if word.text.startswith("--"):
            if word.text.partition("=")[0] in wanted:
                return True
        elif word.text.startswith("-") and any(letter in word.text for letter in shorts):
            return True
    return False


def _folders_too(words: tuple[ShellWord, ...]) -> bool:
    """`grep -d recurse`, `-drecurse`, and abbreviated: any value but the two others."""
    for text, following in pairwise([*[word.text for word in words[1:]], ""]):
        if text.startswith("-") and not text.startswith("--") and "d" in text:
            value = text.partition("d")[2] or following
            if value not in ("skip", "read"):
                return True
    return False


# --- copying and packing ---------------------------------------------------------------------------------------------


def _copied(name: str, words: tuple[ShellWord, ...]) -> CommandReads | None:
    if row_operands(COPIERS[name], words) is None:
        return None
    # `mv` and `ln` give files a new name, which a rule does not know, nor do the rules know the files in it.
    named = name in ("mv", "ln", "link")
    whole = named or _has(words, "rRa", "--recursive --archive --recurse-paths")
    if not whole:
        return NOTHING
    found = find_touched_files(words)
    sources = [*found.reads]
    if name == "ln":
        for target in found.writes:  # the target of a symbolic link is relative to its folder
            folder = target.text.rpartition("/")[0]
            sources += [
                ShellWord(f"{place}/{word.text}", -1)
                for word in found.reads
                for place in (folder, target.text)
                if place
            ]
    return CommandReads(trees=tuple([ReadTree(word, expand=named) for word in sources]))


def _packed(words: tuple[ShellWord, ...]) -> CommandReads | None:
    """`tar`: the files that it packs, or the archive that it opens. `-C` sets the folder of its operands."""
    given = [*words[1:]]
    if given and not given[0].text.startswith("-"):  # `tar czfC x.tgz dir src`: its letters take their values in order
        letters, *rest = given
        valued = [letter for letter in letters.text if letter in _TAR.values]
        values = [ShellWord(f"-{letter}{word.text}", word.start) for letter, word in zip(valued, rest, strict=False)]
        flags = "".join([letter for letter in letters.text if letter not in valued])
        words = (words[0], ShellWord(f"-{flags}", letters.start), *values, *rest[len(values) :])
    operands = row_operands(_TAR, words)
    if operands is None:
        return None
    if not _has(words, "cru", "--create --append --update"):
        return CommandReads(files=tuple(_values_of("f", "--file", words)))
    return CommandReads(trees=tuple([ReadTree(word) for word in (*operands, *_values_of("C", "--directory", words))]))


def _values_of(letter: str, long: str, words: tuple[ShellWord, ...]) -> list[ShellWord]:
    found: list[ShellWord] = []
    for word, following in zip(words, (*words[1:], None), strict=True):
        text = word.text
        name, equals, value = text.partition("=")
        if name == long and equals:
            found.append(ShellWord(value, word.start))
        elif name == long or (text.startswith("-") and not text.startswith("--") and text.endswith(letter)):
            found.extend([following] if following is not None else [])
        elif text.startswith("-") and not text.startswith("--") and letter in text:
            found.append(ShellWord(text.partition(letter)[2], word.start, many=word.many))
    return found


# --- from the network ------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"(?:https?://[A-Za-z0-9.-]+|[A-Za-z0-9.-]+)(?::[0-9]+)?(?:[/?][^{}\[\]]*)?\Z", re.ASCII)
_CURL = ReadOnlyProgram("data", "fsSkLvIigO0#qaNGj46", "oXAmHdDwueryx", longs(
    "fail silent show-error insecure location verbose head include remote-name compressed request header data "
    "data-raw json output max-time connect-timeout retry user-agent user http1.1 http2 write-out get fail-with-body "
    "retry-delay create-dirs no-progress-meter progress-bar referer tlsv1.2 dump-header"
), longs(
    "request header data data-raw json output max-time connect-timeout retry user-agent user write-out "
    "retry-delay referer dump-header"
))  # fmt: skip
_WGET = ReadOnlyProgram("data", "qcSvNbr46", "OoPTtU", longs(
    "quiet continue spider verbose no-verbose output-document output-file directory-prefix timeout tries user-agent "
    "header no-check-certificate show-progress no-clobber server-response"
), longs("output-document output-file directory-prefix timeout tries user-agent header"))  # fmt: skip


def _fetches(name: str, words: tuple[ShellWord, ...]) -> bool:
    """Whether it only contacts servers: no `file://`, no data or settings from a file (`-d @x`, `-T x`, `-K x`)."""
    if not all(word.exact for word in words) or any(_from_file(word.text) for word in words):
        return False
    operands = row_operands(_CURL if name == "curl" else _WGET, words)
    return operands is not None and all(_ADDRESS.match(word.text) for word in operands)


def _from_file(text: str) -> bool:
    return text.startswith("@") or "=@" in text or (text.startswith("-") and not text.startswith("--") and "@" in text)
