"""Facts about single programs: `find`, git's options, variables that make other programs run.

It also finds commands that change the shell itself, so that the rest of the line is uncertain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mainspring.permissions.rules import glob_matches
from mainspring.permissions.shell.values import UNKNOWN, ShellWord, longs, names

FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
FIND_CHANGES = frozenset({"-delete", "-fprint", "-fprint0", "-fprintf", "-fls"})


def may_be_find_action(word: ShellWord) -> bool:
    """Whether a computed word may become `-exec`, `-delete` or the like. A pattern such as `*.py` cannot."""
    if word.exact:
        return False
    parts = word.text.split(UNKNOWN)
    return not word.glob or any(glob_matches(parts, action) for action in FIND_RUNS | FIND_CHANGES)


# --- variables ------------------------------------------------------------------------------------------------

# Setting one of these before any program does not change what runs. A fixed list, for allow rules (security S5).
SAFE_VARIABLES = names(
    """NODE_ENV CI TZ LANG LANGUAGE LC_ALL LC_CTYPE LC_TIME LC_COLLATE LC_NUMERIC LC_MESSAGES CHARSET TERM COLORTERM
    NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS LINES LS_COLORS LSCOLORS GREP_COLOR GREP_COLORS
    GCC_COLORS TIME_STYLE BLOCK_SIZE BLOCKSIZE RUST_BACKTRACE RUST_LOG PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
    PYTHONHASHSEED PYTEST_DISABLE_PLUGIN_AUTOLOAD PYTEST_DEBUG GOOS GOARCH GOEXPERIMENT CGO_ENABLED GO111MODULE"""
)

# Setting one of these can make another program run, or another file be read as commands.
_RUNNING = names(
    """PATH IFS ENV BASH_ENV BASHOPTS SHELLOPTS PS0 PS1 PS2 PS4 PROMPT_COMMAND CDPATH GLOBIGNORE FPATH ZDOTDIR HOME
    SHELL EDITOR VISUAL PAGER MANPAGER BROWSER LESSOPEN LESSCLOSE LESS MANOPT SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR
    FCEDIT HISTFILE INPUTRC TERMINFO NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE PYTHONPATH PYTHONHOME
    PYTHONSTARTUP PYTHONINSPECT PYTHONWARNINGS PYTHONBREAKPOINT PYTHONUSERBASE PERL5LIB PERL5OPT PERL5DB PERLLIB
    RUBYLIB RUBYOPT GEM_HOME GEM_PATH BUNDLE_GEMFILE LUA_PATH LUA_CPATH LUA_INIT CLASSPATH JAVA_TOOL_OPTIONS
    _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS JAVA_HOME PHPRC PHP_INI_SCAN_DIR R_PROFILE R_ENVIRON
    TCLLIBPATH CC CXX CPP LD AR AS MAKEFLAGS MAKEFILES MAKE RUSTC RUSTC_WRAPPER RUSTFLAGS RUSTUP_HOME CARGO_HOME
    GOFLAGS GOPATH GOROOT CFLAGS LDFLAGS OPENSSL_CONF RSYNC_RSH CVS_RSH SVN_SSH HGEDITOR HGRCPATH TAR_OPTIONS
    GREP_OPTIONS RIPGREP_CONFIG_PATH FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS DOCKER_HOST DOCKER_CONFIG KUBECONFIG
    KUBE_EDITOR AWS_CONFIG_FILE XDG_CONFIG_HOME XDG_DATA_HOME CURL_HOME WGETRC NETRC npm_config_script_shell
    npm_config_prefix BASH_LOADABLES_PATH BASH_FUNC EXECIGNORE POSIXLY_CORRECT TMOUT GCONV_PATH NLSPATH LOCPATH
    PYTEST_ADDOPTS PYTEST_PLUGINS VIMINIT EXINIT GVIMINIT DOTNET_STARTUP_HOOKS GNUMAKEFLAGS MFLAGS GCC_EXEC_PREFIX
    COMPILER_PATH ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ELIXIR_ERL_OPTIONS PERL5SHELL RUBYSHELL PSQLRC CONFIG_SHELL
    TERMINFO_DIRS TERMCAP OPENSSL_MODULES OPENSSL_ENGINES KUBECTL_EXTERNAL_DIFF RSYNC_CONNECT_PROG SSH_SK_HELPER
    SSH_PKCS11_HELPER
    ZIP ZIPOPT UNZIP UNZIPOPT GZIP BZIP BZIP2 XZ_OPT XZ_DEFAULTS MAGIC MORE LESSKEY LESSKEYIN LESSKEY_CONTENT AWKPATH
    AWKLIBPATH PIP_REQUIREMENT PIP_CONSTRAINT PIP_PATH SSLKEYLOGFILE ZIPINFO ZIPINFOOPT
    HOSTALIASES RES_OPTIONS MALLOC_CHECK_ UV_PYTHON PIP_CONFIG_FILE PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX_URL"""
)
_RUNNING_STARTS = (
    "LD_",
    "DYLD_",
    "GIT_",
    "BASH_FUNC_",
    "npm_config_",
    "NPM_CONFIG_",
    "CARGO_",
    "_JAVA",
    "COR_",
    "CORECLR_",
    "ASAN_",
    "LUA_INIT_",
)


_RUNNING_ENDS = ("_PAGER", "_EDITOR", "_BROWSER", "_ASKPASS", "_LAUNCHER")


def can_run_programs(variable: str) -> bool:
    return variable in _RUNNING or variable.startswith(_RUNNING_STARTS) or variable.endswith(_RUNNING_ENDS)


# --- git ------------------------------------------------------------------------------------------------------

# Any other name is an alias, which may run anything, or a program `git-NAME`. An alias cannot take one of these.
GIT_COMMANDS = names(
    """add add--interactive am annotate apply archive backfill bisect bisect--helper blame branch bugreport bundle cat-
    file check-attr check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry
    cherry-pick citool clean clone column commit commit-graph commit-tree config count-objects credential
    credential-cache credential-cache--daemon credential-store daemon describe diagnose diff diff-files diff-index
    diff-pairs diff-tree difftool difftool--helper env--helper fast-export fast-import fetch fetch-pack filter-
    branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck fsck-objects fsmonitor--daemon gc get-tar-
    commit-id grep gui hash-object help hook http-backend http-fetch http-push imap-send index-pack init init-db
    instaweb interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge merge-base
    merge-file merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-recursive-ours merge-
    recursive-theirs merge-resolve merge-subtree merge-tree mergetool mktag mktree multi-pack-index mv name-rev
    notes pack-objects pack-redundant pack-refs patch-id pickaxe prune prune-packed pull push quiltimport range-diff
    read-tree rebase receive-pack reflog refs remote remote-ext remote-fd remote-ftp remote-ftps remote-http remote-
    https repack replace replay request-pull rerere reset restore rev-list rev-parse revert rm send-pack sh-i18n--
    envsubst shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace
    submodule submodule--helper subtree survey switch symbolic-ref tag unpack-file unpack-objects update-index
    update-ref update-server-info upload-archive upload-archive--writer upload-pack var verify-commit verify-pack
    verify-tag version web--browse whatchanged worktree write-tree"""
)
_GIT_VALUES = frozenset(
    {
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--super-prefix",
        "--config-env",
        "--attr-source",
    }
)
_GIT_RUNS = ("-c", "--exec-path", "--config-env", "--git-dir", "--work-tree", "--super-prefix")


def git_subcommand(words: tuple[ShellWord, ...]) -> tuple[ShellWord, ...]:
    """From the subcommand on; empty if there is none, or if it is unknown."""
    index = 1
    while index < len(words) and words[index].text.startswith("-"):
        if not words[index].exact:
            return ()
        index += 2 if words[index].text in _GIT_VALUES else 1
    return words[index:]


def git_objection(words: tuple[ShellWord, ...]) -> str:
    """Why a git command may run another program than git, or ""."""
    rest = git_subcommand(words)
    for word in words[1 : len(words) - len(rest)]:
        if word.text.startswith(_GIT_RUNS):
            return f"'git {word.text.partition('=')[0]}' may make git run other programs"
    if rest and rest[0].text == "config" and _git_config_runs(rest):
        return "'git config' may change what git runs"
    if rest and (rest[0].text in _GIT_EXOTIC or any("ext::" in word.text for word in rest)):
        return f"'git {rest[0].text}' may run other programs"
    return ""


_GIT_EXOTIC = names(
    """filter-branch difftool mergetool daemon instaweb shell http-backend remote-ext remote-fd for-each-repo hook
    send-email credential credential-store credential-cache web--browse difftool--helper mergetool--lib upload-pack
    receive-pack upload-archive cvsserver svn p4 cvsimport cvsexportcommit quiltimport archimport imap-send
    maintenance"""
)
_GIT_CONFIG_READS = frozenset({"--get", "--get-all", "--list", "-l", "get", "list", "--get-regexp", "--show-origin"})
# Settings that name no program and no search path of programs.
_GIT_SETTINGS = re.compile(
    r"""(?:user|color|pull|push|branch|fetch|rebase|rerere|log|tag|status|advice|column|init\.defaultbranch|commit\.gpgsign
    |merge\.(?:ff|conflictstyle)|core\.(?:autocrlf|eol|safecrlf|filemode|ignorecase|longpaths|quotepath|symlinks)
    |diff\.(?:algorithm|colormoved|renames)|remote\.[^.]+\.(?:url|fetch)|http\.postbuffer)(?:\.|\Z)""",
    re.ASCII | re.VERBOSE | re.IGNORECASE,
)


def _git_config_runs(words: tuple[ShellWord, ...]) -> bool:
    """Whether `git config` may set something that names a program."""
    if len(words) < 3 or any(word.text in _GIT_CONFIG_READS for word in words):
        return False
    keys = [word for word in words[1:] if "." in word.text and not word.text.startswith("-")][:1]
    safe = bool(keys) and keys[0].exact and _GIT_SETTINGS.match(keys[0].text) is not None
    return not safe or any(word.text in ("-e", "--edit", "-f", "--file") for word in words)


class _Runs(NamedTuple):
    """Options whose value a subcommand runs, or writes to."""

    shorts: str = ""
    longs: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()


_WRITES = _Runs("", longs("output ext-diff"))
_GIT_RUNNERS: dict[str, _Runs] = {
    "rebase": _Runs("x", longs("exec")),
    "bisect": _Runs(words=names("run")),
    "submodule": _Runs(words=names("foreach")),
    "grep": _Runs("O", longs("open-files-in-pager")),
    "clone": _Runs("uc", longs("upload-pack config template")),
    "init": _Runs("", longs("template")),
    "fetch": _Runs("", longs("upload-pack")),
    "pull": _Runs("", longs("upload-pack")),
    "ls-remote": _Runs("", longs("upload-pack exec")),
    "push": _Runs("", longs("receive-pack exec")),
    "archive": _Runs("o", longs("exec output")),
    "format-patch": _Runs("o", longs("output output-directory ext-diff")),
    "apply": _Runs("", longs("unsafe-paths")),
    **dict.fromkeys(("diff", "log", "show", "shortlog", "stash", "reflog", "whatchanged", "range-diff"), _WRITES),
}


def git_runs(words: tuple[ShellWord, ...]) -> bool:
    """Whether a git command, from the subcommand on, runs another program, or writes to a file that it names."""
    name = words[0].text
    if name in _GIT_EXOTIC or (name == "config" and _git_config_runs(words)):
        return True
    found = _GIT_RUNNERS.get(name, _Runs())
    return any(word.text in found.words or "ext::" in word.text for word in words[1:]) or any(
        has_option(word.text, found.shorts, found.longs) for word in words[1:]
    )


_BUNDLE = re.compile(r"-([A-Za-z]+)")


def has_option(text: str, shorts: str, longs: frozenset[str]) -> bool:
    """Whether a word is one of the options: also abbreviated, as `--exe` for `--exec`, and combined, as in `-ix`."""
    if text.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 3 and any(option.startswith(name) for option in longs)
    found = _BUNDLE.match(text)
    return found is not None and any(letter in found[1] for letter in shorts)


_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=|\Z)")
_ASSIGNING = frozenset(
    {"read", "mapfile", "readarray", "getopts", "declare", "typeset", "local", "export", "readonly", "unset", "let"}
)
_ASSIGNING_BY = {"printf": "v", "wait": "p"}  # with this option
_COMPARED = frozenset({"=", "==", "!=", "-n", "-z"})
_HARMLESS_SHOPT = frozenset({"-s", "-u", "globstar", "nullglob", "failglob", "inherit_errexit", "lastpipe"})
_CHANGING = frozenset({"enable", "bind", "complete", "compgen", "compopt", "fc", "set", "shopt", "hash"})
_CONCERNED = _ASSIGNING | _CHANGING | frozenset(_ASSIGNING_BY) | {"test", "["}
_PLAIN_SET = re.compile(r"[-+][abefhmnuvxCEH]+\Z|--\Z|-\Z")
_PLAIN_SET_NAMES = frozenset(
    {"pipefail", "errexit", "nounset", "xtrace", "verbose", "noglob", "noclobber", "allexport"}
)


def find_variable_objection(name: str) -> str:
    """The objection to setting a variable, or ""."""
    return f"'{name}' is set, which can make other programs run" if can_run_programs(name) else ""


def find_command_objections(words: tuple[ShellWord, ...]) -> Iterable[str]:
    """Objections to one command, without its prefixes."""
    return _objections(words) if words[0].text in _CONCERNED and words[0].exact else ()


def _objections(words: tuple[ShellWord, ...]) -> Iterator[str]:
    name = words[0].text
    if name in _ASSIGNING or (name in _ASSIGNING_BY and _has(_ASSIGNING_BY[name], words)):
        yield from _assigning(name, words[1:])
    elif name in _CHANGING and not _plain(name, words[1:]):
        yield f"'{name}' changes how the shell reads or finds commands"
    elif name not in _CHANGING and name not in _ASSIGNING_BY and _tests_a_name(words[1:]):
        yield "a test of a variable whose name is computed"


def _tests_a_name(words: tuple[ShellWord, ...]) -> bool:
    """`-v a[...]` evaluates the text in the brackets; also if the `-v`, or the name, is computed."""
    subscript = any("[" in word.text and len(word.text) > 1 for word in words)
    if any(word.text in ("-v", "-R") for word in words):
        return subscript or not all(word.exact for word in words)
    return subscript and not all(word.exact for word in words[:-1] if "[" not in word.text) and _short(words)


def _short(words: tuple[ShellWord, ...]) -> bool:
    """`[ $x a[1] ]`: too few words to contain `=`."""
    return not any(word.text in _COMPARED for word in words)


def _has(letter: str, words: tuple[ShellWord, ...]) -> bool:
    return any(word.text.startswith("-") and letter in word.text for word in words[1 : 3 if letter == "v" else None])


def _assigning(name: str, words: tuple[ShellWord, ...]) -> Iterator[str]:
    if name == "let":
        yield "'let' evaluates its words"
        return
    for word in words:
        text = word.text
        if text.startswith("-") and word.exact:
            if name in ("declare", "typeset", "local") and ("n" in text or "i" in text):
                yield f"'{name} {text}' evaluates what it is given"
            if name in ("mapfile", "readarray") and "C" in text:
                yield f"'{name} -C' runs a command"
            continue
        found = _NAME.match(text)
        if found is None:
            if not word.exact or "[" in text:
                yield f"'{name}' with a name that is computed"
        elif text[found.end() :].startswith("("):
            yield f"'{name}' evaluates what stands in the parentheses"
        elif objection := find_variable_objection(found[1]):
            yield objection


def _plain(name: str, words: tuple[ShellWord, ...]) -> bool:
    if name == "set":
        return all(
            word.exact
            and (
                _PLAIN_SET.match(word.text)
                or word.text in ("-o", "+o", "-eo", "-euo", "-uo", "-exo", "-euxo")
                or word.text in _PLAIN_SET_NAMES
            )
            for word in words
        )
    if name == "hash":
        return not any(word.text.startswith("-p") or not word.exact for word in words)
    if name == "shopt":
        return all(word.text in _HARMLESS_SHOPT for word in words)
    if name == "compgen":
        return not any(word.text.startswith(("-C", "-F", "-W")) or not word.exact for word in words)
    return not words
