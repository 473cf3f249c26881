"""Protected places (security F5): what runs later is asked for; what agents edit all day is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.processes.paths import Resolved, resolve_path
from mainspring.processes.protected_paths import SYSTEM, SYSTEM_REASON, TABLE, is_protected

PROTECTED = """
.git/config  .git/hooks/pre-commit  .git  sub/.git/HEAD  .git/modules/x/config  .GIT/config  .gi\u200ct/config
git~1/config  HEAD  .gitmodules  .hg/hgrc  .jj/repo  .svn/entries  .mainspring/settings.json  .mainspring
.claude/settings.json  .claude/settings.local.json  .claude/agents/x.md  .claude/skills/x/SKILL.md  .mcp.json
sub/.mcp.json  .cursor/mcp.json  .bashrc  .zshenv  .profile  .envrc  .config/fish/config.fish  .vscode/tasks.json
.idea/workspace.xml  .vimrc  .exrc  .dir-locals.el  x.code-workspace  .devcontainer/devcontainer.json
.husky/pre-commit  .pre-commit-config.yaml  lefthook.yml  .lefthook.toml  .githooks/post-checkout  .lintstagedrc.json
.npmrc  sub/.npmrc  .yarnrc.yml  .pnpmfile.cjs  pip.conf  .cargo/config.toml  .mvn/extensions.xml  .bundle/config
NuGet.Config  .github/workflows/ci.yml  .github/actions/x/action.yml  .gitlab-ci.yml  .circleci/config.yml
Jenkinsfile  .travis.yml  evil.pth  sitecustomize.py  .ssh/authorized_keys  .local/bin/ls  .config/autostart/x.desktop
.ripgreprc  .aws/credentials
"""
FREE = """
src/main.py  README.md  AGENTS.md  CLAUDE.md  package.json  Makefile  pyproject.toml  .gitignore  .gitattributes
.github/CODEOWNERS  .github/ISSUE_TEMPLATE/bug.md  .editorconfig  .env.example  .config/app.toml  git/config
claude/settings.json  husky/pre-commit  settings.json  workflows/ci.yml  .gitx/config  x.git/config  bashrc
docs/vscode/tasks.json  .docker/Dockerfile  usr/bin/tool  header  ahead  HEAD.md  lefthook  pth  etc/hosts
"""


def at(name: str) -> Resolved:
    return Resolved(name, f"/home/me/project/{name}")


@pytest.mark.parametrize("name", PROTECTED.split())
def test_asked_for(name: str) -> None:
    assert is_protected(at(name))


@pytest.mark.parametrize("name", FREE.split())
def test_not_asked_for(name: str) -> None:
    assert is_protected(at(name)) is None


def test_the_reason_is_that_of_its_row() -> None:
    for row in TABLE:
        for name in (*row.names.split(), *row.folders.split(), *row.ends.split()):
            assert is_protected(at(name.replace("*", "x"))) is not None, name
        first = (row.names.split() or row.folders.split())[0].replace("*", "x")
        assert is_protected(at(first)) == row.reason
    assert is_protected(Resolved("", "/etc/hosts")) == SYSTEM_REASON
    assert all(is_protected(Resolved("", f"{place}/x")) for place in SYSTEM)
    assert is_protected(Resolved("", "/etcetera/hosts")) is None


def test_our_own_folder_wherever_it_is() -> None:
    path = Resolved("", "/data/agent/settings.json")
    assert is_protected(path) is None
    assert is_protected(path, homes=("/data/agent",)) == TABLE[1].reason
    assert is_protected(Resolved("", "/data/agent2/settings.json"), homes=("/data/agent",)) is None


def test_a_link_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "notes").symlink_to(".git")
    (tmp_path / ".vscode").symlink_to("plain")
    (tmp_path / "plain").mkdir()
    assert is_protected(resolve_path("notes/new", str(tmp_path)))
    assert is_protected(resolve_path(".vscode/tasks.json", str(tmp_path)))  # the editor looks under this name
    assert is_protected(resolve_path("plain/../.git/config", str(tmp_path)))
    assert is_protected(resolve_path("plain/tasks.json", str(tmp_path))) is None


@given(
    st.sampled_from([n for row in TABLE for n in (*row.names.split(), *row.folders.split(), *row.ends.split())]),
    st.lists(st.sampled_from(["a", "b c", ".x", "\u00e9"]), max_size=3),
    st.lists(st.booleans(), min_size=60, max_size=60),
    st.integers(0, 60),
)
def test_no_spelling_hides_it(name: str, before: list[str], upper: list[bool], at_: int) -> None:
    """In any folder, in any case, with an invisible character."""
    spelled = "".join([letter.upper() if up else letter for letter, up in zip(name, upper, strict=False)])
    spelled = spelled.replace("*", "x")
    spelled = spelled[:at_] + "\u200d" + spelled[at_:]
    assert is_protected(Resolved("", "/" + "/".join([*before, spelled])))
