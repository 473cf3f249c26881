"""Programs that run other programs: how to find the inner command among their words. Tables; `analyze.py` walks them.

An option that is missing here is not taken for a flag: the words after it are then tried in every position, and a
possible denied command is asked. So a gap in a table costs a question, never a rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from mainspring.permissions.shell.values import longs, names


class RunnerProgram(NamedTuple):
    """Options, then perhaps assignments, then some words of its own, then the inner command."""

    flags: str = ""  # short options without a value
    values: str = ""  # short options with one
    long_flags: frozenset[str] = frozenset()
    long_values: frozenset[str] = frozenset()  # with the value in the next word; `--name=value` needs no row
    own: int = 0  # words of its own before the command
    assigns: bool = False  # NAME=value may precede the command


RUNNERS: dict[str, RunnerProgram] = {
    # Allow rules also look through these seven, in these forms (security S5).
    "timeout": RunnerProgram("v", "ks", longs("foreground preserve-status verbose"), longs("kill-after signal"), own=1),
    "time": RunnerProgram("pavqV", "fo", longs("portability append verbose quiet"), longs("format output"),
        assigns=True),
    "nice": RunnerProgram("", "n", longs(""), longs("adjustment")),
    "nohup": RunnerProgram(),
    "stdbuf": RunnerProgram("", "ioe", longs(""), longs("input output error")),
    "command": RunnerProgram("p"),
    "builtin": RunnerProgram(),
    # Only deny and ask rules look through the rest.
    "coproc": RunnerProgram(assigns=True),
    "exec": RunnerProgram("cl", "a"),
    "env": RunnerProgram("0iv", "uC", longs("ignore-environment null debug"), longs("unset chdir"), assigns=True),
    "sudo": RunnerProgram(
        "AbBEeHhiKklnPSsVv", "CcghpRrTtuUD",
        longs(
            "askpass background bell preserve-env edit set-home help login non-interactive preserve-groups "
            "stdin shell"
        ),
        longs(
            "close-from group host prompt chroot role command-timeout type other-user user chdir"
        ), assigns=True,
    ),
    "doas": RunnerProgram("nsL", "uC"),
    "xargs": RunnerProgram(
        "0rtpxo", "adEILnPs", longs("null no-run-if-empty verbose interactive exit open-tty"),
        longs(
            "arg-file delimiter max-lines max-args max-procs max-chars replace process-slot-var"
        ),
    ),
    "setsid": RunnerProgram("cfw", "", longs("ctty fork wait")),
    "ionice": RunnerProgram("t", "cnpPu", longs("ignore"), longs("class classdata pid")),
    "chrt": RunnerProgram("abdfiormvp", "TPD", own=1),
    "taskset": RunnerProgram("acp", "", longs("all-tasks cpu-list pid"), own=1),
    "chroot": RunnerProgram("", "", longs("skip-chdir"), longs("userspec groups"), own=1),
    "unshare": RunnerProgram(
        "mpunicCUTrfkh", "SGRw",
        longs(
            "mount uts ipc net pid user cgroup time fork map-root-user map-current-user keep-caps mount-proc "
            "kill-child"
        ),
        longs("setuid setgid root wd"),
    ),
    "nsenter": RunnerProgram("amuinpUCTrwFZ", "tSGe", longs("all no-fork"), longs("target setuid setgid")),
    "strace": RunnerProgram("cCdDfFhiknqrtTvVwxyzZ", "abeEIoOpPsSuUX", longs("follow-forks"), longs("trace output")),
    "ltrace": RunnerProgram("bcCfhiLrStTV", "AaDeFlnopsuwxX"),
    "flock": RunnerProgram("sxenuoFhV", "wE", longs("shared exclusive nonblock unlock close no-fork verbose"),
                    longs("wait timeout conflict-exit-code"), own=1),
    "busybox": RunnerProgram(),
    "toybox": RunnerProgram(),
    "setpriv": RunnerProgram("dh", "", longs("no-new-privs clear-groups keep-groups"), longs("reuid regid groups")),
    "linux32": RunnerProgram("vRBFIX3L"),
    "linux64": RunnerProgram("vRBFIX3L"),
    "fakeroot": RunnerProgram("u", "lsbif"),
    "unbuffer": RunnerProgram("p"),
    "chronic": RunnerProgram("ev"),
    "numactl": RunnerProgram("alHs", "iNmCpP"),
    "proxychains": RunnerProgram("q", "f"),
    "proxychains4": RunnerProgram("q", "f"),
    "torsocks": RunnerProgram("qdi", "up"),
    "torify": RunnerProgram(),
    "catchsegv": RunnerProgram(),
    "caffeinate": RunnerProgram("dimsu", "tw"),
    "noglob": RunnerProgram(),
    "nocorrect": RunnerProgram(),
    "dbus-run-session": RunnerProgram(),
    "ld.so": RunnerProgram(),
}  # fmt: skip

# Prefixes that allow rules look through, with their options (security S5). The `time` of bash has `-p` only.
ALLOW_LOOKS_THROUGH: dict[str, RunnerProgram] = {
    **{name: RUNNERS[name] for name in ("timeout", "nice", "nohup", "stdbuf", "command", "builtin")},
    "time": RunnerProgram("p", assigns=True),
}

# Runners with their own syntax, and the first words after which they run something; none: always. Every later word may
# be the command: a match with a deny rule is asked.
LOOSE_RUNNERS: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        names("""parallel watch entr ssh rsh mosh npx bunx uvx pipx pnpx systemd-run systemd-nspawn nix-shell firejail
        xvfb-run
    bwrap valgrind rr heaptrack screen tmux start-stop-daemon cgexec cpulimit faketime rlwrap fd fdfind runuser su
    sg capsh script expect gdb lldb flock pkexec gosu su-exec prlimit hyperfine sshpass chpst softlimit setuidgid envdir
    tini dumb-init daemonize choom uclampset eatmydata fakechroot proot schroot wine dtach abduco nsjail minijail0
    with-contenv s6-setuidgid dotenv setarch arch"""),
        frozenset[str](),
    ),
    **dict.fromkeys(("docker", "podman", "nerdctl"), frozenset({"exec", "run", "create"})),
    **dict.fromkeys(names("kubectl oc lxc bundle direnv asdf rbenv pyenv nodenv"),
                    frozenset({"exec", "run", "debug", "shell"})),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"),
                    frozenset({"exec", "x", "dlx", "explore", "workspace", "workspaces"})),
    **dict.fromkeys(("uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "micromamba"),
                    frozenset({"run", "tool", "env"})),
    "mise": frozenset({"exec", "x", "run"}),
    "devbox": frozenset({"run", "shell"}),
    "nix": frozenset({"run", "develop", "shell"}),
    "vagrant": frozenset({"ssh"}),
    "machinectl": frozenset({"shell"}),
    "perf": frozenset({"stat", "record", "trace"}),
    "snap": frozenset({"run"}),
    "rustup": frozenset({"run"}),
    "meson": frozenset({"devenv"}),
    "brew": frozenset({"sh"}),
    **dict.fromkeys(("gem", "composer"), frozenset({"exec"})),
}  # fmt: skip

# Of the runners, those that pass words on as they are: a word with blanks need not be meant for a shell.
WITHOUT_SHELL = names(
    "docker podman nerdctl kubectl oc lxc bundle uv poetry pipenv pdm hatch rye conda mamba micromamba"
)

# They read commands from their input.
READ_COMMANDS = frozenset({"at", "batch", "crontab", "ed", "red"})

SHELLS = names("sh bash dash ash ksh mksh rbash zsh fish csh tcsh pwsh posh yash elvish nu xonsh")
LIKE_BASH = frozenset({"sh", "bash", "dash", "ash", "rbash", "ksh", "mksh"})

# Options whose value is a command, in programs that otherwise do something else.
COMMAND_OPTIONS: dict[str, frozenset[str]] = {
    "tar": longs(
        "to-command checkpoint-action use-compress-program info-script new-volume-script rsh-command rmt-command"
    ) | {"-I", "-F"},
    "rsync": frozenset({"-e", "--rsh", "--rsync-path"}),
    "zip": frozenset({"-TT", "--unzip-command"}),
    "man": frozenset({"-P", "--pager", "-H", "--html"}),
    "rg": frozenset({"--pre", "--hostname-bin"}),
    "sort": frozenset({"--compress-program"}),
    "split": frozenset({"--filter"}),
    "script": frozenset({"-c", "--command"}),
    "su": frozenset({"-c", "--command"}),
    "runuser": frozenset({"-c", "--command"}),
    "sg": frozenset({"-c"}),
    "flock": frozenset({"-c", "--command"}),
    "env": frozenset({"-S", "--split-string"}),
    "nix-shell": frozenset({"--run", "--command"}),
    "ssh": frozenset({"-o"}),
    "scp": frozenset({"-o", "-S"}),
    "sftp": frozenset({"-o", "-S"}),
    "nc": frozenset({"-e", "-c"}),
    "ncat": frozenset({"-e", "-c", "--exec", "--sh-exec"}),
    "gcc": frozenset({"-wrapper"}),
    "wget": frozenset({"--use-askpass", "-e", "--execute"}),
    "go": frozenset({"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool"}),
    "gcloud": frozenset({"--command"}),
    "helm": frozenset({"--post-renderer"}),
    **dict.fromkeys(("docker", "podman", "nerdctl"), frozenset({"--entrypoint"})),
    "vagrant": frozenset({"-c", "--command"}),
    "git": longs(
        "exec extcmd upload-pack receive-pack tree-filter index-filter msg-filter env-filter commit-filter "
        "parent-filter tag-name-filter setup open-files-in-pager"
    ) | {"-x", "-u", "-O"},
}  # fmt: skip

# Names with one of these prefixes are a program of a family: python3.12, gawk, ld-linux-x86-64.so.2.
FAMILIES = (
    ("python", "python"), ("pypy", "pypy"), ("perl5", "perl"), ("ruby", "ruby"), ("lua5", "lua"), ("php", "php"),
    ("ld-linux", "ld.so"), ("ld-musl", "ld.so"), ("tclsh", "tclsh"), ("node", "node"),
)  # fmt: skip


@lru_cache(maxsize=1_024)
def interpreter_family(name: str) -> str:
    for start, one in FAMILIES:
        if name.startswith(start) and not name[len(start) : len(start) + 1].isalpha():
            return one
    return name
