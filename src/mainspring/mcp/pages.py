"""A list of a server, page by page, and how much of it is taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mainspring.mcp.base import MOST_PAGES

Page = tuple[list[dict[str, Any]], str | None]  # entries as JSON, and where the next page begins


async def fetch_all_pages(
    page: Callable[[str | None], Awaitable[Page]], most: int
) -> tuple[list[dict[str, Any]], bool]:
    """All of them; and whether there are more than we take."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        more, following = await page(cursor)
        found += more
        if not following or following == cursor:
            return found[:most], len(found) > most
        if len(found) >= most:
            break
        cursor = following
    return found[:most], True
