"""Paths whose content runs later, or configures what may run: writing there always needs approval (security F5).

One table. A row matches a file by its name, a folder anywhere on the way, or the end of a path; `*` matches the rest
of one name. The comparison ignores case and invisible characters: some file systems do not distinguish them, and a
false match only asks a person.

Not here, because agents edit them all day: `package.json`, `Makefile`, `pyproject.toml`, memory files.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from mainspring.processes.paths import Resolved, is_within


class ProtectedPathRule(NamedTuple):
    reason: str
    names: str = ""  # files
    folders: str = ""  # and everything in them
    ends: str = ""  # several components; their content, too


TABLE: tuple[ProtectedPathRule, ...] = (
    ProtectedPathRule(
        "version control runs and trusts what is in it",
        names="HEAD .gitconfig .gitmodules .hgrc",  # with a HEAD any folder can pose as a repository
        folders=".git git~1 .hg .svn .jj .bzr .sl CVS _darcs .fossil",
        ends=".config/git .config/hg .config/jj",
    ),
    ProtectedPathRule(
        "it is the configuration of mainspring or of Claude Code",
        names=".claude.json managed-settings.json managed-settings.toml",
        folders=".mainspring .claude",
        ends="etc/mainspring etc/claude-code",
    ),
    ProtectedPathRule(
        "it says which MCP servers are started",
        names=".mcp.json mcp.json mcp_config.json claude_desktop_config.json",
    ),
    ProtectedPathRule(
        "shells run it when they start",
        names=(
            ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin "
            ".zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .envrc .direnvrc .pam_environment "
            ".xprofile .xinitrc .xsession .xsessionrc .tmux.conf .screenrc profile.ps1 Microsoft.PowerShell_profile.ps1"
        ),
        ends=".config/fish .config/zsh .config/direnv .config/tmux .config/environment.d etc/profile.d",
    ),
    ProtectedPathRule(
        "editors run or obey it when they open the folder",
        names=".vimrc .gvimrc .exrc .nvimrc .nvim.lua .vimrc.local .lvimrc .emacs .dir-locals.el "
        "*.code-workspace *.sublime-project .devcontainer.json .ripgreprc",
        folders=".vscode .idea .vim .nvim .emacs.d .zed .fleet .cursor .windsurf .devcontainer .vs",
        ends=".config/nvim .config/emacs .config/Code .config/zed .config/ripgrep",
    ),
    ProtectedPathRule(
        "a hook manager runs what it names",
        names=".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.* .lefthook.* "
        "lefthook-local.* .overcommit.yml captainhook.json .huskyrc .huskyrc.* .lintstagedrc .lintstagedrc.* "
        "lint-staged.config.* .simple-git-hooks.*",
        folders=".husky .githooks .git-hooks .lefthook .pre-commit",
    ),
    ProtectedPathRule(
        "a package manager obeys it, and may run or fetch what it names",
        names=".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnpmfile.js bunfig.toml .bunfig.toml pip.conf pip.ini .pypirc "
        ".pydistutils.cfg uv.toml .condarc .gemrc .netrc _netrc .curlrc .wgetrc NuGet.config .mise.toml mise.toml "
        ".tool-versions init.gradle init.gradle.kts .terraformrc .cargo-ok",
        folders=".yarn .bundle .mvn .cargo .m2 .gradle",
        ends=".config/pip .config/uv .config/mise .config/yarn",
    ),
    ProtectedPathRule(
        "a build service runs it",
        names=".gitlab-ci.yml .gitlab-ci.yaml Jenkinsfile Jenkinsfile.* azure-pipelines.yml azure-pipelines.yaml "
        ".travis.yml .drone.yml .woodpecker.yml .woodpecker.yaml bitbucket-pipelines.yml appveyor.yml .appveyor.yml "
        "cloudbuild.yaml cloudbuild.yml buildspec.yml .cirrus.yml .readthedocs.yaml .readthedocs.yml",
        folders=".circleci .buildkite .teamcity .woodpecker .tekton .ci",
        ends=".github/workflows .github/actions .gitlab/ci .gitea/workflows .gitea/actions .forgejo/workflows "
        ".forgejo/actions",
    ),
    ProtectedPathRule(
        "Python runs it when it starts",
        names="*.pth sitecustomize.py usercustomize.py .pythonrc .pythonrc.py pyvenv.cfg",
    ),
    ProtectedPathRule(
        "the system runs or obeys it",
        names=".crontab",
        folders=".ssh .gnupg LaunchAgents LaunchDaemons",
        ends=".aws/config .aws/credentials .kube/config .docker/config.json .docker/cli-plugins .config/autostart "
        ".config/systemd .config/containers .local/bin .local/share/applications .local/share/systemd var/spool/cron",
    ),
)
# Whole trees of the system: no project is in them.
SYSTEM = ("/etc", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/boot", "/var/spool/cron")
SYSTEM_REASON = "it belongs to the system"


def is_protected(path: Resolved, *, homes: tuple[str, ...] = ()) -> str | None:
    """Why writing here needs approval; empty: it does not. `homes`: our folders in the user's home."""
    for name in path.names:
        if any(is_within(name, home) for home in homes):
            return TABLE[1].reason
        if reason := _by_table(name):
            return reason
        if _is_of_the_system(name):
            return SYSTEM_REASON
    return None


def _is_of_the_system(name: str) -> bool:
    parts = name.split("/", 4)
    return any("/".join(parts[:size]) in SYSTEM for size in (2, 3, 4))  # no entry has more than three components


class _Index(NamedTuple):
    """The table as an index: one pass over the components of a path."""

    names: dict[str, str]
    starts: tuple[tuple[str, str], ...]  # "lefthook." of "lefthook.*"
    endings: tuple[tuple[str, str], ...]  # ".pth" of "*.pth"
    folders: dict[str, str]
    ends: dict[tuple[str, ...], str]
    first: frozenset[str]  # of the ends


@functools.cache
def _index() -> _Index:
    names = [(_plain(name), row.reason) for row in TABLE for name in row.names.split()]
    ends = {tuple(_plain(end).split("/")): row.reason for row in TABLE for end in row.ends.split()}
    return _Index(
        names={name: reason for name, reason in names if "*" not in name},
        starts=tuple([(name[:-1], reason) for name, reason in names if name.endswith("*")]),
        endings=tuple([(name[1:], reason) for name, reason in names if name.startswith("*")]),
        folders={_plain(name): row.reason for row in TABLE for name in row.folders.split()},
        ends=ends,
        first=frozenset([end[0] for end in ends]),
    )


def _by_table(path: str) -> str | None:
    index = _index()
    parts = _plain(path).strip("/").split("/")
    for at, part in enumerate(parts):
        reason = index.folders.get(part)
        if reason is None and part in index.first:
            reason = index.ends.get(tuple(parts[at : at + 2])) or index.ends.get(tuple(parts[at : at + 3]))
        if reason:
            return reason
    return _by_name(parts[-1], index)


def _by_name(name: str, index: _Index) -> str | None:
    if name in index.names:
        return index.names[name]
    for start, reason in index.starts:
        if name.startswith(start):
            return reason
    for ending, reason in index.endings:
        if name.endswith(ending):
            return reason
    return None


def _plain(path: str) -> str:
    if path.isascii():
        return path.lower()
    import unicodedata

    folded = unicodedata.normalize("NFKC", path).casefold()
    return "".join([letter for letter in folded if unicodedata.category(letter) != "Cf"])
