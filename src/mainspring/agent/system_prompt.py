"""What the options have to say about the system prompt; the prompt itself is in `context/prompt.py`."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.agent.options import SessionOptions
from mainspring.context.prompt import IDENTITY, Style, system_prompt

MOST = 1_000_000  # bytes of a file
FILE = "system_prompt_file"


def own_blocks(options: SessionOptions) -> tuple[str, ...]:
    """What stands in place of our own prompt, or empty, and what stands after it, or empty."""
    if options.system_prompt is not None and options.system_prompt_file is not None:
        raise options.error("system_prompt", f" and '{options.spell(FILE)}' exclude each other: leave one out")
    own = options.system_prompt
    if options.system_prompt_file is not None:
        own = read(options, options.system_prompt_file)
    instead = "" if own is None else own.strip() or IDENTITY
    return instead, options.append_system_prompt or ""


def takes_style(own: tuple[str, ...]) -> bool:
    """Whoever writes a system prompt of their own has said how the model answers. An empty one says nothing."""
    return own[0] in ("", IDENTITY)


def complete(
    own: tuple[str, ...], tools: Iterable[str], place: str, *, attended: bool, style: Style | None = None
) -> tuple[str, ...]:
    """The blocks of it, the most stable one first."""
    instead, after = own
    if not instead:
        blocks = system_prompt(tools, place, attended=attended, style=style)
    else:
        blocks = (instead, style.block) if style is not None else (instead,)
    return (*blocks, after) if after else blocks


def read(options: SessionOptions, path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  # pathlib takes 8 ms to load
            data = file.read(MOST + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise options.error(FILE, f" cannot be read: {error.strerror}", path) from None
    except UnicodeDecodeError:
        raise options.error(FILE, " cannot be read: it is not text in UTF-8", path) from None
    if len(data) > MOST:
        raise options.error(FILE, f" has more than {MOST:,} bytes: a system prompt is sent with every request", path)
    return text
