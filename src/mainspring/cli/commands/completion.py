"""`mainspring completion`: completions for bash, zsh and fish, and the manual page, written from the parsers.

    mainspring completion bash >> ~/.bash_completion
    mainspring completion zsh > ~/.zfunc/_mainspring
    mainspring completion fish > ~/.config/fish/completions/mainspring.fish

A package installs all of them (`share/`). Model names and session ids are asked for when you press Tab.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from mainspring.agent.config import settings_of
from mainspring.agent.find_session import list_sessions_of
from mainspring.agent.options import SessionOptions, StartError
from mainspring.agent.resume import new_place
from mainspring.cli.command_spec import (
    FILES,
    FOLDERS,
    MODELS,
    SESSIONS,
    ArgumentSpec,
    CommandSpec,
    FlagSpec,
    describe_command_line,
    walk_commands,
)
from mainspring.cli.commands.models import known_models
from mainspring.cli.subcommands import PROGRAM, Namespace
from mainspring.settings.values import Settings
from mainspring.text import strip_control_characters, truncate

MOST_SESSIONS = 50
LONGEST_ABOUT = 60  # columns
SAFE = re.compile(r"[A-Za-z0-9._:/@+-]+")  # bash expands the words that it completes: no `$(...)` of a project
ALIASES = ("sonnet", "opus", "haiku", "fable", "default")


def completion(args: Namespace) -> int:
    if args.kind is not None:
        for value, about in list_values(args.kind):
            print(f"{value}\t{about}" if about else value)
        return 0
    if args.shell is None:
        raise StartError("name a shell: 'mainspring completion bash', 'zsh' or 'fish'")
    print(WRITERS[args.shell](describe_command_line()), end="")
    return 0


# --- values ---------------------------------------------------------------------------------------------------------


def list_values(kind: str) -> list[tuple[str, str]]:
    """Each with a few words about it. Never fails: the scripts show no error."""
    cwd = os.getcwd()  # noqa: PTH109
    if kind == MODELS:
        try:
            settings = settings_of(SessionOptions(), cwd, os.environ)
        except StartError:
            settings = Settings()
        names = [*ALIASES, *[model.name for model in known_models(settings)]]
        return [(name, "") for name in dict.fromkeys(names) if SAFE.fullmatch(name)]
    place = new_place(os.environ, cwd, ())
    found = list_sessions_of(cwd, place, MOST_SESSIONS, trials=False) if place.home is not None else []
    return [(one.session_id, clean_title(one.title)) for one in found if SAFE.fullmatch(one.session_id)]


def clean_title(title: str) -> str:
    """Titles come from models and prompts."""
    return truncate(" ".join(strip_control_characters(title).split()), LONGEST_ABOUT)


# --- bash -----------------------------------------------------------------------------------------------------------

BASH = """\
# Completions of mainspring for bash. Written by 'mainspring completion bash'.
_mainspring() {
    local cur prev at key kind=""
    cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    if [[ $cur == = ]]; then
        cur=""
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    key=""
    for at in 1 2; do
        (( COMP_CWORD > at )) || break
        case "$key${key:+ }${COMP_WORDS[at]}" in
            @COMMANDS@) key+="${key:+ }${COMP_WORDS[at]}" ;;
            *) break ;;
        esac
    done
    COMPREPLY=()
    case "$key $prev" in
@VALUES@
    esac
    case "$kind" in
        "") ;;
        files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return ;;
        folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); return ;;
        none) return ;;
        :*)
            kind=$(mainspring completion --values "${kind#:}" 2>/dev/null | cut -f1)
            COMPREPLY=($(compgen -W "$kind" -- "$cur"))
            return
            ;;
        *) COMPREPLY=($(compgen -W "$kind" -- "$cur")); return ;;
    esac
    case "$key" in
@WORDS@
    esac
    if [[ $kind == :* && $cur != -* ]]; then
        kind=$(mainspring completion --values "${kind#:}" 2>/dev/null | cut -f1)
    fi
    COMPREPLY=($(compgen -W "$kind" -- "$cur"))
}
complete -o default -F _mainspring mainspring
"""


def write_bash(top: CommandSpec) -> str:
    commands = [one for one in walk_commands(top) if one.name]
    values = [
        f"        {bash_pattern(command, flag)}) kind={shell_quote(bash_kind(flag))} ;;"
        for command in walk_commands(top)
        for flag in command.flags
        if flag.value and not flag.is_optional
    ]
    words = [f"        {shell_quote(one.name)}) {bash_words(one)} ;;" for one in walk_commands(top)]
    made = BASH.replace("@COMMANDS@", "|".join([shell_quote(one.name) for one in commands]), 1)
    return made.replace("@VALUES@", "\n".join(values), 1).replace("@WORDS@", "\n".join(words), 1)


def bash_pattern(command: CommandSpec, flag: FlagSpec) -> str:
    return "|".join([shell_quote(f"{command.name} {name}") for name in flag.names])


def bash_kind(value: FlagSpec | ArgumentSpec) -> str:
    if value.choices:
        return " ".join(value.choices)
    if value.completes in (MODELS, SESSIONS):
        return f":{value.completes}"
    return value.completes or "none"


def bash_words(command: CommandSpec) -> str:
    """What can stand at this place: a flag, the next word of the subcommand, or an argument."""
    flags = " ".join([name for flag in command.flags for name in flag.names])
    words = " ".join([last_word(one) for one in command.actions])
    first = command.arguments[0] if command.arguments else None
    kind = bash_kind(first) if first is not None else "none"
    if kind.startswith(":"):
        return f'if [[ $cur == -* ]]; then kind={shell_quote(flags)}; else kind="{kind}"; fi'
    if kind in (FILES, FOLDERS, "none"):
        kind = ""
    other = " ".join(filter(None, [words, kind]))
    return f"if [[ $cur == -* ]]; then kind={shell_quote(flags)}; else kind={shell_quote(other)}; fi"


def last_word(command: CommandSpec) -> str:
    return command.name.rpartition(" ")[2]


def shell_quote(text: str) -> str:
    return "'{}'".format(text.replace("'", "'\\''"))


# --- zsh ------------------------------------------------------------------------------------------------------------

ZSH = """\
#compdef mainspring
# Completions of mainspring for zsh. Written by 'mainspring completion zsh'.

_mainspring_values() {
    local -a found
    found=(${(f)"$(mainspring completion --values $1 2>/dev/null)"})
    found=(${found//:/\\\\:})
    found=(${found/$'\\t'/:})
    _describe -t $1 $1 found
}

@FUNCTIONS@
_mainspring "$@"
"""


def write_zsh(top: CommandSpec) -> str:
    return ZSH.replace("@FUNCTIONS@", "\n".join([zsh_function(one) for one in walk_commands(top)]), 1)


def zsh_function(command: CommandSpec) -> str:
    """A function per command; that of a subcommand sees its own words only."""
    lines = [f"{zsh_name(command)}() {{"]
    if command.actions:
        rows = [f"        {shell_quote(f'{last_word(one)}:{zsh_about(one.about)}')}" for one in command.actions]
        calls = [
            f"            {last_word(one)}) shift words; (( CURRENT-- )); {zsh_name(one)}; return ;;"
            for one in command.actions
        ]
        lines += ["    local -a commands", "    commands=(", *rows, "    )"]
        lines += ["    if (( CURRENT > 2 )); then", '        case "${words[2]}" in', *calls, "        esac", "    fi"]
        lines += ["    if (( CURRENT == 2 )) && [[ ${words[2]} != -* ]]; then"]
        lines += ["        _describe -t commands subcommand commands", "        return", "    fi"]
    specs = [f"        {one}" for flag in command.flags for one in zsh_flag(flag)]
    specs += [f"        {shell_quote(f'*:{one.name.lower()}:{zsh_completer(one)}')}" for one in command.arguments[:1]]
    specs += ["        '*:prompt:'"] if not command.name else []
    lines.append(" \\\n".join(["    _arguments -S", *specs]) if specs else "    _message 'no arguments'")
    return "\n".join([*lines, "}", ""])


def zsh_name(command: CommandSpec) -> str:
    return "_mainspring" + "".join([f"_{part}" for part in command.name.replace("-", "_").split()])


def zsh_flag(flag: FlagSpec) -> Iterator[str]:
    value = f":{zsh_about(flag.value.lower())}:{zsh_completer(flag)}" if flag.value and not flag.is_optional else ""
    others = f"({' '.join(flag.names)})" if len(flag.names) > 1 else ""
    for name in flag.names:
        takes = ("=" if name.startswith("--") else "") if value else ""
        yield shell_quote(f"{others}{name}{takes}[{zsh_about(flag.about)}]{value}")


def zsh_completer(value: FlagSpec | ArgumentSpec) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    known = {FILES: "_files", FOLDERS: "_files -/"}
    return known.get(value.completes) or (f"_mainspring_values {value.completes}" if value.completes else " ")


def zsh_about(text: str) -> str:
    for mark in "\\[]:":
        text = text.replace(mark, f"\\{mark}")
    return text


# --- fish -----------------------------------------------------------------------------------------------------------


def write_fish(top: CommandSpec) -> str:
    rows = ["# Completions of mainspring for fish. Written by 'mainspring completion fish'."]
    rows += ["function __mainspring_at_top", f"    {none_of(top.actions)}", "end", "complete -c mainspring -f"]
    for command in walk_commands(top):
        where = fish_condition(command)
        seen = "".join([f"; and not __fish_seen_subcommand_from {last_word(one)}" for one in command.actions])
        for one in command.actions:
            only = "__fish_use_subcommand" if not command.name else f"{where}{seen}"
            rows.append(f"complete -c mainspring -n {fish_quote(only)} -a {last_word(one)} -d {fish_quote(one.about)}")
        given = [fish_flag(flag) for flag in command.flags]
        given += filter(None, [fish_values(argument) for argument in command.arguments[:1]])
        rows += [f"complete -c mainspring -n {fish_quote(where)} {one}" for one in given]
    return "\n".join([*rows, ""])


def fish_condition(command: CommandSpec) -> str:
    if not command.name:
        return "__mainspring_at_top"
    return "; and ".join([f"__fish_seen_subcommand_from {word}" for word in command.name.split()])


def none_of(commands: tuple[CommandSpec, ...]) -> str:
    return f"not __fish_seen_subcommand_from {' '.join(map(last_word, commands))}"


def fish_flag(flag: FlagSpec) -> str:
    names: list[str] = []
    for name in flag.names:
        sort = "-l" if name.startswith("--") else "-s" if len(name) == 2 else "-o"
        names.append(f"{sort} {name.lstrip('-')}")
    value = ""
    if flag.value and not flag.is_optional:
        value = f" {fish_values(flag) or '-x'}"
    return f"{' '.join(names)}{value} -d {fish_quote(flag.about)}"


def fish_values(value: FlagSpec | ArgumentSpec) -> str:
    if value.choices:
        return f"-x -a {fish_quote(' '.join(value.choices))}"
    if value.completes in (MODELS, SESSIONS):
        return f"-x -a {fish_quote(f'({PROGRAM} completion --values {value.completes} 2>/dev/null)')}"
    if value.completes == FOLDERS:
        return "-x -a '(__fish_complete_directories)'"
    return "-r -F" if value.completes == FILES else ""


def fish_quote(text: str) -> str:
    return "'{}'".format(text.replace("\\", "\\\\").replace("'", "\\'"))


WRITERS = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}


# --- the manual page ------------------------------------------------------------------------------------------------

MAN_HEAD = """\
.\\" Written by scripts/completion_pages.py: run 'make docs'.
.TH MAINSPRING 1 "" "mainspring" "User Commands"
.SH NAME
mainspring \\- an agent for the terminal, and for programs
.SH SYNOPSIS
.B mainspring
[\\fIFLAGS\\fR] [\\fIPROMPT\\fR]
.br
.B mainspring \\-p
[\\fIFLAGS\\fR] [\\fIPROMPT\\fR]
.br
.B mainspring
\\fISUBCOMMAND\\fR [\\fIARGUMENTS\\fR]
.SH DESCRIPTION
The first form starts a conversation in the terminal. With \\fB\\-p\\fR, mainspring answers one prompt and exits;
standard input is added to the prompt. In a conversation you approve every change. With \\fB\\-p\\fR nobody can approve,
so anything your rules do not allow is denied.
.PP
A prompt that is a slash command, such as \\fB/cost\\fR or \\fB/help\\fR, is answered without a request to the model.
"""
MAN_TAIL = """\
.SH EXIT STATUS
.TP
.B 0
success
.TP
.B 1
the result is an error, or the start failed
.TP
.B 129, 130, 143
ended by SIGHUP, SIGINT or SIGTERM
.TP
.B 141
the reader of the output has closed the pipe
.SH ENVIRONMENT
.TP
.B ANTHROPIC_API_KEY
key of the Anthropic API; other providers have variables of their own
.TP
.B ANTHROPIC_BASE_URL
address of a server with the Anthropic API
.TP
.B MAINSPRING_HOME
folder of settings and sessions; default: \\fI~/.mainspring\\fR
.TP
.B NO_COLOR
print no colours
.SH FILES
.TP
.I ~/.mainspring/settings.json
your settings
.TP
.I ~/.mainspring/projects/
sessions, one file each
.TP
.I ~/.mainspring/debug/
debug logs
.SH SEE ALSO
\\fBmainspring help topics\\fR lists the pages of the documentation, \\fBmainspring help\\fR \\fITOPIC\\fR prints one.
"""


def write_man_page(top: CommandSpec) -> str:
    parts = [MAN_HEAD, ".SH OPTIONS\n", *[man_flag(flag) for flag in top.flags], ".SH SUBCOMMANDS\n"]
    for command in top.actions:
        for one in walk_commands(command):
            words = "".join([f" [\\fI{roff(argument.name)}\\fR]" for argument in one.arguments])
            parts.append(f".SS mainspring {roff(one.name)}{words}\n{roff_line(one.about)}\n")
            parts += [man_item(f"\\fI{roff(argument.name)}\\fR", argument.about) for argument in one.arguments]
            parts += [man_flag(flag) for flag in one.flags]
    return "".join([*parts, MAN_TAIL])


def man_flag(flag: FlagSpec) -> str:
    names = ", ".join([f"\\fB{roff(name)}\\fR" for name in sorted(flag.names, key=len)])
    return man_item(f"{names} \\fI{roff(flag.value)}\\fR" if flag.value else names, flag.about)


def man_item(head: str, about: str) -> str:
    return f".TP\n{head}\n{roff_line(about)}\n"


def roff(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def roff_line(text: str) -> str:
    """A line that begins with a dot or a quote would be a request."""
    line = roff(" ".join(text.replace("%%", "%").split()))
    return f"\\&{line}" if line[:1] in (".", "'") else line
