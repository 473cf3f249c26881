"""Adds a rule to settings again and again, each time killed one system call later. Prints what each kill left.

A program of its own, so that it can fork.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from pathlib import Path

from processes.steps import Steps, left_over

from mainspring.settings.edit import ListChange, write_change
from mainspring.settings.load import SettingsPaths
from mainspring.settings.values import SettingsSource

NAMES = {SettingsSource.USER: "home/settings.json", SettingsSource.LOCAL: "work/.claude/settings.local.json"}
EXCLUDE = "work/.git/info/exclude"
OLD = b'{"env": {"A": "1"}, "permissions": {"deny": ["Bash(rm:*)"]}}'


def killed_at(folder: Path, source: SettingsSource, old: bytes, at: int) -> dict[str, object]:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work/.git/info").mkdir(parents=True)
    (folder / "work/.git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / EXCLUDE).write_text("# mine")
    file = folder / NAMES[source]
    if old:
        file.parent.mkdir(parents=True)
        file.write_bytes(old)
        file.chmod(0o640)
    child = os.fork()
    if child == 0:
        with Steps(at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            write_change(
                SettingsPaths(str(folder / "home"), str(folder / "work")), source, ListChange("allow", ("Bash(ls)",))
            )
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    return {
        "killed": os.WIFSIGNALED(status),
        "code": os.waitstatus_to_exitcode(status),
        "content": file.read_text() if file.exists() else None,
        "mode": stat.S_IMODE(file.stat().st_mode) if file.exists() else None,
        "exclude": (folder / EXCLUDE).read_text(),
        "left": len(left_over(folder)),
    }


def main() -> None:
    folder, source, old = Path(sys.argv[1]), SettingsSource(sys.argv[2]), OLD if sys.argv[3] == "old" else b""
    warm = SettingsPaths(str(folder / "home"), str(folder / "work"))
    (folder / "work").mkdir(parents=True)
    write_change(warm, source, ListChange("allow", ("x",)))  # all is loaded: no kill within an import
    rounds: list[dict[str, object]] = []
    while not rounds or rounds[-1]["killed"]:
        rounds.append(killed_at(folder, source, old, len(rounds)))
    print(json.dumps(rounds))


if __name__ == "__main__":
    main()
