"""Which files a command names, to read or to write them. For rules about paths, protected paths and acceptEdits.

It knows the usual programs for files. For deny rules it may see a file where there is none, such as the value of an
option; it is not used to find out that a command is harmless (`readonly.py` is).

It also lists programs that take no command among their words, or in a known way. Of all other programs every word may
be a command: a rule about such a word asks.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.value import Value
from mainspring.permissions.shell.analyze import base_name
from mainspring.permissions.shell.inline_code import CODE_OPTIONS, plain_sed
from mainspring.permissions.shell.readonly import TABLE
from mainspring.permissions.shell.runners import LOOSE_RUNNERS, RUNNERS, SHELLS, interpreter_family
from mainspring.permissions.shell.values import ShellWord, longs, names

_READ = names(
    """cat head tail wc nl tac rev stat file md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum
    ls dir du tree readlink realpath diff cmp comm sort uniq cut paste join od xxd hexdump strings less more bat
    view zcat bzcat xzcat base64 base32 fold expand unexpand column pr fmt split csplit iconv tee nano vim vi nvim
    emacs open xdg-open source ."""
)
_READ_AFTER_ONE = names("grep egrep fgrep rg ag ack sed gsed awk gawk mawk nawk jq yq perl")
_WRITE = names("rm rmdir unlink touch mkdir tee truncate shred mkfifo mknod patch nano vim vi nvim ex emacs")
_WRITE_AFTER_ONE = names("chmod chown chgrp setfacl chattr")
_WRITE_LAST = names("cp mv ln install rsync scp link")
_WRITE_FIRST = names("zip script")
_WRITE_SECOND = names("uniq xxd")
# Options whose value is written to. The operands of these programs are something else.
_WRITE_OPTIONS: dict[str, tuple[str, frozenset[str]]] = {
    "curl": ("oDc", longs("output output-dir dump-header cookie-jar trace trace-ascii stderr")),
    "wget": ("OoPa", longs("output-document output-file directory-prefix append-output save-cookies")),
    "sort": ("o", longs("output")),
    "tree": ("o", frozenset()),
    "tar": ("Cf", longs("directory file")),
    "unzip": ("d", frozenset()),
    "git": ("o", longs("output output-directory")),
    "gcc": ("o", frozenset()),
    "cc": ("o", frozenset()),
    "clang": ("o", frozenset()),
    "patch": ("or", longs("output reject-file")),
    "openssl": ("", frozenset({"-out"})),
    "ssh-keygen": ("f", frozenset()),
    "find": ("", names("-fprint -fprint0 -fprintf -fls")),
}
DATA = names(
    "echo printf : true false exit return sleep kill test [ [[ type which hash man help whoami seq expr basename "
    "dirname"
)

KNOWN = _READ | _READ_AFTER_ONE | _WRITE | _WRITE_AFTER_ONE | _WRITE_LAST | _WRITE_FIRST | {"dd", "xargs"}

# Commands that acceptEdits allows, with their options (N-12).
FILE_COMMANDS: dict[str, str] = {
    "mkdir": "pv", "touch": "acm", "rm": "rRfivdI", "rmdir": "pv", "mv": "fivnuT", "cp": "aRrfipvnuT", "sed": "inEer",
}  # fmt: skip


class TouchedPath(Value):
    reads: tuple[ShellWord, ...] = ()
    writes: tuple[ShellWord, ...] = ()
    known: bool = True  # not known: any word may be a file


def find_touched_files(words: tuple[ShellWord, ...]) -> TouchedPath:
    name = base_name(words[0].text)
    found = _touched(name, words)
    written = _values(words, *_WRITE_OPTIONS[name]) if name in _WRITE_OPTIONS else ()
    return replace(found, writes=(*found.writes, *written)) if written else found


def _touched(name: str, words: tuple[ShellWord, ...]) -> TouchedPath:
    if name in DATA:
        return TouchedPath()
    if name == "xargs":  # its inner command is analyzed by itself
        return TouchedPath(_values(words, "a", longs("arg-file")))
    if name == "find":
        return TouchedPath(find_start_folders(words), find_emptied_folders(words))
    if name not in KNOWN:
        return TouchedPath(tuple(_parts(words)), known=False)
    operands = _operands(words)
    if name in ("sed", "gsed", "perl") and any(_in_place(word.text) for word in words[1:]):
        return TouchedPath(operands[1:], operands)
    if name == "dd":
        return TouchedPath(_named(words, "if="), _named(words, "of="))
    if name in _WRITE_LAST:
        target = _target(words)
        reads, writes = (operands, target) if target else (operands[:-1], operands[-1:])
        writes = (*writes, *_in_folder(reads, writes))
        return TouchedPath(reads, (*reads, *writes) if name == "mv" else writes)
    if name in _WRITE_SECOND:
        return TouchedPath(operands[:1], operands[1:])
    if name in _WRITE_FIRST:
        return TouchedPath(operands[1:], operands[:1])
    writes = operands if name in _WRITE else operands[1:] if name in _WRITE_AFTER_ONE else ()
    if name in _READ:
        return TouchedPath(operands, writes)
    if name in _READ_AFTER_ONE:
        given = any(word.text.startswith(("-e", "-f", "--regexp", "--file", "--expression")) for word in words[1:])
        return TouchedPath(operands if given else operands[1:])
    return TouchedPath((), writes)


def find_start_folders(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """The start folders of `find`."""
    found: list[ShellWord] = []
    for word in words[1:]:
        if word.text.startswith(("-", "(", "!")):
            break
        found.append(word)
    return tuple(found)


def _operands(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """Words that are not options, and attached values of options."""
    found: list[ShellWord] = []
    ended = False
    for word in words[1:]:
        if ended or not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif word.text == "--":
            ended = True
        elif "=" in word.text:
            found.append(_after(word, "="))
    return tuple(found)


def _parts(words: tuple[ShellWord, ...]) -> list[ShellWord]:
    """Every piece of an unknown program's words that could be a path: `x`, `--file=x`, `HEAD:x`, `@x`."""
    found: list[ShellWord] = []
    for word in words[1:]:
        if word.text.startswith("file://"):
            found.append(ShellWord(word.text[7:], word.start, many=word.many))
        if "://" in word.text:
            continue
        if not word.text.startswith("-"):
            found.append(word)
        found.extend([_after(word, mark) for mark in ("=", ":", "@") if mark in word.text])
    return found


def _after(word: ShellWord, mark: str) -> ShellWord:
    return ShellWord(word.text.partition(mark)[2], word.start, many=word.many)


def _named(words: tuple[ShellWord, ...], start: str) -> tuple[ShellWord, ...]:
    return tuple(
        ShellWord(word.text[len(start) :], word.start, many=word.many) for word in words if word.text.startswith(start)
    )


def _target(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """`cp -t folder ...`"""
    for index, word in enumerate(words[:-1]):
        if word.text in ("-t", "--target-directory"):
            return (words[index + 1],)
        if word.text.startswith("--target-directory="):
            return (_after(word, "="),)
    return ()


def _in_folder(sources: tuple[ShellWord, ...], targets: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """`cp x/.mcp.json .`: if the target is a folder, this is the file."""
    return tuple(
        ShellWord(f"{target.text.rstrip('/') or '/'}/{name}", target.start, tilde=target.tilde)
        for target in targets
        for source in sources
        if target.exact and source.exact and (name := base_name(source.text.rstrip("/"))) not in ("", ".", "..")
    )


def _values(words: tuple[ShellWord, ...], shorts: str, longs: frozenset[str]) -> tuple[ShellWord, ...]:
    """The values of the options, in the next word or in the same."""
    found: list[ShellWord] = []
    for index, word in enumerate(words[1:], 1):
        text = word.text
        if not text.startswith("-"):
            continue
        following = words[index + 1 : index + 2]
        if text.startswith("--"):
            name, equals, _ = text.partition("=")
            if len(name) > 3 and any(option.startswith(name) for option in longs):
                found.extend([_after(word, "=")] if equals else following)
        elif text in longs:
            found.extend(following)
        elif text.startswith("-") and (letter := next((one for one in text[1:] if one in shorts), "")):
            inside = text.partition(letter)[2]
            found.extend([ShellWord(inside, word.start, many=word.many)] if inside else following)
    return tuple(found)


def find_emptied_folders(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """The folders in which `find` removes."""
    if base_name(words[0].text) != "find" or not any(word.text == "-delete" for word in words):
        return ()
    return find_start_folders(words) or (ShellWord(".", -1),)


def _in_place(text: str) -> bool:
    return text.startswith("--in-place") or (text.startswith("-") and not text.startswith("--") and "i" in text)


def plain_file_command(words: tuple[ShellWord, ...]) -> TouchedPath | None:
    """The files that a file command of the short list changes, if all of it is certain."""
    shorts = FILE_COMMANDS.get(words[0].text)
    if shorts is None or not all(word.exact for word in words):
        return None
    operands: list[ShellWord] = []
    ended = False
    for word in words[1:]:
        if ended or not word.text.startswith("-"):
            operands.append(word)
        elif word.text == "--":
            ended = True
        elif word.text.startswith("--") or any(letter not in shorts for letter in word.text[1:]) or word.text == "-":
            return None
    if words[0].text == "sed":
        if (
            not operands
            or not plain_sed(operands[0].text)
            or sum("e" in word.text for word in words if word.text[0:1] == "-")
        ):
            return None
        operands = operands[1:]
    return TouchedPath(tuple(operands), tuple(operands)) if operands else None


_FAMILIAR = (
    names(
        """git gh glab hub find sed gsed awk gawk mawk nawk make gmake cd pushd popd eval trap alias source . export
        declare typeset local readonly unset read set shopt ps kill pkill killall pgrep npm npx pnpm yarn bun docker
        podman kubectl helm brew apt apt-get dnf yum apk pacman snap pip pip3 pipx gem cargo go rustup dotnet mvn
        gradle terraform aws gcloud az curl wget ssh scp sftp ssh-keygen systemctl service journalctl tar zip unzip gzip
        crontab printenv compgen complete hash command builtin wait jobs mapfile readarray getopts jq yq pytest tsc
        eslint prettier ruff mypy black jest vitest rails rake bundle composer ninja meson"""
    )
    | frozenset(TABLE)
    | KNOWN
    | DATA
    | frozenset(RUNNERS)
    | frozenset(LOOSE_RUNNERS)
    | frozenset(CODE_OPTIONS)
    | SHELLS
)


# Known, but they may run the text after a `=` in their words.
_VALUED = names("make gmake mvn gradle npm pnpm export declare typeset readonly env")


def may_run_values(words: tuple[ShellWord, ...]) -> bool:
    return len(words) > 1 and base_name(words[0].text) in _VALUED


def may_run(words: tuple[ShellWord, ...]) -> bool:
    """Whether any of the words may be a command that the program runs."""
    return len(words) > 1 and interpreter_family(base_name(words[0].text)) not in _FAMILIAR
