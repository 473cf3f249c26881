"""Writes `share/`: completions for bash, zsh and fish, and the manual page. `make docs` runs it."""

from __future__ import annotations

from pathlib import Path

from mainspring.cli.command_spec import describe_command_line
from mainspring.cli.commands.completion import write_bash, write_fish, write_man_page, write_zsh

SHARE = Path(__file__).parents[1] / "share"


def build() -> dict[Path, str]:
    top = describe_command_line()
    return {
        SHARE / "bash-completion/completions/mainspring": write_bash(top),
        SHARE / "zsh/site-functions/_mainspring": write_zsh(top),
        SHARE / "fish/vendor_completions.d/mainspring.fish": write_fish(top),
        SHARE / "man/man1/mainspring.1": write_man_page(top),
    }


if __name__ == "__main__":
    for path, text in build().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
