"""`mainspring config get|set|unset|list`, and `mainspring mcp add|get|remove|add-json`: on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.agent.options import StartError
from mainspring.cli.subcommands import main
from mainspring.settings.trust import add_trusted_folder

KEY = "sk-ant-api03-" + "x" * 80


class Shell:
    """Runs subcommands in a folder of its own, in this process."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.folder, self._capsys = base / "home", base / "project", capsys
        self.home.mkdir()
        self.folder.mkdir()
        monkeypatch.chdir(self.folder)
        monkeypatch.setenv("MAINSPRING_HOME", str(self.home))

    def run(self, *words: str) -> str:
        assert main(words) == 0
        return self.printed()

    def printed(self) -> str:
        found = self._capsys.readouterr()
        return found.out + found.err

    def refused(self, *words: str) -> str:
        with pytest.raises(StartError) as error:
            main(words)
        return str(error.value)

    def user(self) -> object:
        return json.loads((self.home / "settings.json").read_text())


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path, monkeypatch, capsys)


# --- config -----------------------------------------------------------------------------------------------------------


def test_a_setting_is_set_read_and_removed(shell: Shell) -> None:
    assert "Saved 'theme' in" in shell.run("config", "set", "theme", "dark")
    assert shell.run("config", "get", "theme") == "dark\n"
    assert shell.user() == {"theme": "dark"}
    assert "Removed 'theme'" in shell.run("config", "unset", "theme")
    assert main(("config", "get", "theme")) == 1
    assert "'theme' is not set in the user settings." in shell.run("config", "unset", "theme")


def test_values_are_typed_and_lists_take_several_words(shell: Shell) -> None:
    shell.run("config", "set", "limits.maxTurns", "7")
    shell.run("config", "set", "permissions.allow", "Bash(ls)", "Read")
    shell.run("config", "set", "permissions.deny", '["Read(.env)"]')
    shell.run("config", "set", "claudeMdExcludes", "one")
    assert shell.user() == {
        "limits": {"maxTurns": 7},
        "permissions": {"allow": ["Bash(ls)", "Read"], "deny": ["Read(.env)"]},
        "claudeMdExcludes": ["one"],
    }
    assert shell.run("config", "get", "permissions.allow") == "Bash(ls)\nRead\n"
    assert json.loads(shell.run("config", "get", "permissions.allow", "--json")) == ["Bash(ls)", "Read"]
    assert shell.run("config", "get", "-s", "user", "limits.maxTurns") == "7\n"
    listed = json.loads(shell.run("config", "list", "--scope", "user", "--json"))
    assert listed["limits.maxTurns"] == 7
    assert "limits.maxTurns" in shell.run("config", "list")
    assert {"name": "limits.maxTurns", "value": "7"}.items() <= json.loads(shell.run("config", "list", "--json"))[
        1
    ].items()


def test_each_scope_has_its_file(shell: Shell) -> None:
    assert "not trusted" in shell.run("config", "set", "--scope", "project", "theme", "dark")
    add_trusted_folder(str(shell.home), str(shell.folder), at=1)
    shell.run("config", "set", "theme", "light", "-s", "local")
    assert json.loads((shell.folder / ".claude/settings.json").read_text()) == {"theme": "dark"}
    assert json.loads((shell.folder / ".claude/settings.local.json").read_text()) == {"theme": "light"}
    assert shell.run("config", "get", "theme") == "light\n"
    assert shell.run("config", "get", "theme", "--scope", "project") == "dark\n"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("set", "theme", "drak"), "Did you mean 'dark'?"),
        (("set", "themes", "dark"), "Did you mean 'theme'?"),
        (("set", "theme", "dark", "light"), "takes one value"),
        (("set", "permissions.deny", "Bash("), "is not a rule"),
        (("set", "-s", "project", "apiKeyHelper", "x"), "choose the user settings"),
        (("set", "allowManagedHooksOnly", "true"), "only the administrator"),
        (("get", "nothing"), "there is no setting 'nothing'"),
        (("set", "timeFormat", "24h"), "has no effect"),
    ],
)
def test_mistakes_are_refused_and_nothing_is_written(shell: Shell, words: tuple[str, ...], reason: str) -> None:
    assert reason in shell.refused("config", *words)
    assert not [*shell.home.iterdir(), *shell.folder.iterdir()]


def test_a_broken_file_is_not_overwritten(shell: Shell) -> None:
    (shell.home / "settings.json").write_text('{"theme": ')
    assert "The file was not changed" in shell.refused("config", "set", "theme", "dark")
    assert (shell.home / "settings.json").read_text() == '{"theme": '


def test_values_of_variables_are_not_printed(shell: Shell) -> None:
    shell.run("config", "set", "env.SECRET", "hunter22")
    shell.run("config", "set", "mcpServers.a", json.dumps({"command": "x", "env": {"T": "hunter22"}}))
    shown = shell.run("config", "list") + shell.run("config", "list", "-s", "user", "--json")
    shown += shell.run("config", "get", "env.SECRET", "-s", "user") + shell.run(
        "config", "get", "mcpServers", "-s", "user"
    )
    assert "hunter22" not in shown


# --- MCP servers ------------------------------------------------------------------------------------------------------


def test_a_program_is_added_for_you_in_this_folder(shell: Shell) -> None:
    said = shell.run("mcp", "add", "files", "--env", "A=b=c", "--", "npx", "-y", "thing", "--", "x")
    assert "Added the MCP server 'files'" in said
    entry = {"type": "stdio", "command": "npx", "args": ["-y", "thing", "--", "x"], "env": {"A": "b=c"}}
    file = shell.home / "mcp.json"
    assert json.loads(file.read_text()) == {"projects": {str(shell.folder): {"mcpServers": {"files": entry}}}}
    assert file.stat().st_mode & 0o777 == 0o600
    assert "already" in shell.refused("mcp", "add", "files", "other")
    assert "Removed" in shell.run("mcp", "remove", "files")
    assert "no MCP server 'files'" in shell.refused("mcp", "remove", "files")


def test_a_url_is_added_to_the_project_without_secrets(shell: Shell) -> None:
    url = "https://example.com/mcp"
    assert "may be a secret" in shell.refused(
        "mcp", "add", "web", url, "-s", "project", "-H", "Authorization: Bearer x"
    )
    header = "Authorization: Bearer ${WEB_TOKEN}"
    assert "mainspring trust" in shell.run("mcp", "add", "-s", "project", "web", "--header", header, url)
    entry = {"type": "http", "url": url, "headers": {"Authorization": "Bearer ${WEB_TOKEN}"}}
    assert json.loads((shell.folder / ".mcp.json").read_text()) == {"mcpServers": {"web": entry}}


def test_other_servers_and_the_layout_of_the_file_stay(shell: Shell) -> None:
    old = '{"mcpServers": {\n\t"a": {"command": "x", "odd": [1,2]}\n}, "other": 1}\n'
    (shell.folder / ".mcp.json").write_text(old)
    shell.run("mcp", "add-json", "b", '{"command": "y"}', "--scope", "project")
    new = (shell.folder / ".mcp.json").read_text()
    assert new.startswith(old[:50])
    assert json.loads(new) == {"mcpServers": {**json.loads(old)["mcpServers"], "b": {"command": "y"}}, "other": 1}
    shell.run("mcp", "remove", "b")
    assert json.loads((shell.folder / ".mcp.json").read_text()) == json.loads(old)


def test_a_name_in_two_scopes_must_be_told_apart(shell: Shell) -> None:
    shell.run("mcp", "add", "a", "x", "--scope", "user")
    shell.run("mcp", "add", "a", "y")
    assert shell.user() == {"mcpServers": {"a": {"type": "stdio", "command": "x", "args": []}}}
    assert "local and user" in shell.refused("mcp", "remove", "a")
    shell.run("mcp", "remove", "a", "--scope", "user")
    assert '"scope": "local"' in shell.run("mcp", "get", "a", "--json")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("a",), "needs a program after '--', or a URL"),
        (("a__b", "x"), "give it a name"),
        (("a", "--transport", "http", "x"), "needs one URL"),
        (("a", "--transport", "stdio", "http://x"), "is a URL"),
        (("a", "http://x", "--env", "A=b"), "'--env' is for a program"),
        (("a", "x", "--header", "A: b"), "'--header' is for a server with a URL"),
        (("a", "x", "--env", "A"), "'--env' takes NAME=VALUE"),
        (("a", "x", "--env", "1A=b"), "not a valid variable name"),
    ],
)
def test_wrong_servers_are_refused(shell: Shell, words: tuple[str, ...], reason: str) -> None:
    assert reason in shell.refused("mcp", "add", *words)
    assert not [*shell.home.iterdir(), *shell.folder.iterdir()]


def test_wrong_json_is_refused(shell: Shell) -> None:
    assert "this is not JSON" in shell.refused("mcp", "add-json", "a", "{")
    assert "JSON object" in shell.refused("mcp", "add-json", "a", "[]")
    assert "needs 'command'" in shell.refused("mcp", "add-json", "a", "{}")


@pytest.mark.parametrize(
    "words", [("config", "set"), ("mcp", "add"), ("mcp", "get"), ("mcp", "remove"), ("mcp", "add-json")]
)
def test_each_has_its_own_help(shell: Shell, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        main((*words, "--help"))
    assert f"usage: mainspring {' '.join(words)}" in shell.printed()
