"""Programs that take no command among their words, or whose way of taking one is known. Of all others every word may be
one: a rule about such a word is asked about."""

from __future__ import annotations

from mainspring.permissions.shell.analyze import base_name
from mainspring.permissions.shell.code import CODE_OPTIONS
from mainspring.permissions.shell.file_effects import DATA, KNOWN
from mainspring.permissions.shell.readonly import TABLE
from mainspring.permissions.shell.runners import LOOSE_RUNNERS, RUNNERS, SHELLS, interpreter_family
from mainspring.permissions.shell.tables import names
from mainspring.permissions.shell.values import ShellWord

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


# Known, but what stands behind a `=` in their words they may run.
_VALUED = names("make gmake mvn gradle npm pnpm export declare typeset readonly env")


def may_run_values(words: tuple[ShellWord, ...]) -> bool:
    return len(words) > 1 and base_name(words[0].text) in _VALUED


def may_run(words: tuple[ShellWord, ...]) -> bool:
    """Whether any of the words may be a command that the program runs."""
    return len(words) > 1 and interpreter_family(base_name(words[0].text)) not in _FAMILIAR
