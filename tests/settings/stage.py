"""A machine with a user, a project and an administrator, as files."""

from __future__ import annotations

import json
from pathlib import Path

from mainspring.settings import trust
from mainspring.settings.load import SettingsRequest, load_settings
from mainspring.settings.values import ProblemKind, Settings

NOTHING = SettingsRequest()


class Stage:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.home, self.project, self.etc = base / "home/.mainspring", base / "project", base / "etc"
        for folder in (self.home, self.project, self.etc):
            folder.mkdir(parents=True, exist_ok=True)

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.base / "home")}

    def place(self, who: str) -> Path:
        return {
            "user": self.home / "settings.json",
            "user toml": self.home / "config.toml",
            "project": self.project / ".claude/settings.json",
            "ours": self.project / ".mainspring/settings.json",
            "ours toml": self.project / ".mainspring/settings.toml",
            "local": self.project / ".claude/settings.local.json",
            "our local": self.project / ".mainspring/settings.local.json",
            "administrator": self.etc / "managed-settings.json",
            "administrator toml": self.etc / "managed-settings.toml",
        }[who]

    def say(self, who: str, what: object) -> Path:
        """`what` is a tree, or the text of the file."""
        file = self.place(who)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(
            what if isinstance(what, bytes) else (what if isinstance(what, str) else json.dumps(what)).encode()
        )
        return file

    def trust(self) -> None:
        trust.add_trusted_folder(str(self.home), str(self.project), at=1)

    def load(self, asked: SettingsRequest = NOTHING, **environ: str) -> Settings:
        files = (str(self.etc / "managed-settings.json"), str(self.etc / "managed-settings.toml"))
        return load_settings(str(self.project), {**self.environ, **environ}, asked, administrator=files)


def kinds(settings: Settings) -> list[ProblemKind]:
    return [problem.kind for problem in settings.problems]


def texts(entries: object) -> list[str]:
    return [entry.text for entry in entries]  # type: ignore[attr-defined]
