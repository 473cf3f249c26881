"""A page by its address: from the cache, or fetched and converted."""

from __future__ import annotations

from mainspring.core.errors import ToolError, UsageError
from mainspring.web.cache import PageCache
from mainspring.web.fetch import Near, WebFetcher
from mainspring.web.markdown import Convert
from mainspring.web.page import WebPage, page_of
from mainspring.web.target import parse_target


class PageReader:
    """For one session."""

    def __init__(self, fetcher: WebFetcher, convert: Convert, cache: PageCache | None = None) -> None:
        self._fetcher, self._convert = fetcher, convert
        self._cache = cache if cache is not None else PageCache()

    async def read(self, url: str, near: Near) -> WebPage:
        """Raises `ToolError`, with words for the model."""
        try:
            target = parse_target(url)
        except UsageError as error:
            raise ToolError(f"Not fetched: {error}.") from None
        key = (target.url, near(target.host))
        page = self._cache.get(key)
        if page is None:
            page = await page_of(await self._fetcher.fetch(url, near), self._convert)
            if page.status == 200:
                self._cache.put(key, page)
        return page
