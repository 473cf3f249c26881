"""What was fetched, as text."""

from __future__ import annotations

from mainspring.core.errors import ToolError
from mainspring.core.value import Value
from mainspring.web.body import decode_body
from mainspring.web.fetch import FetchedPage
from mainspring.web.markdown import MOST_HTML, Convert

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = """
application/json application/xml application/javascript application/ecmascript application/x-javascript
application/yaml application/x-yaml application/toml application/sql application/graphql application/x-sh
application/x-ndjson application/jsonl application/rtf image/svg+xml message/rfc822
"""
_KNOWN = frozenset(_TEXTS.split())
_TEXT_ENDS = ("+json", "+xml", "+yaml", "+text")


class WebPage(Value):
    url: str  # where it is in the end
    status: int
    size: int  # bytes of its body
    text: str
    cut: bool = False  # only the beginning was converted
    moved: str = ""  # it is on another host, and was not fetched


async def page_of(fetched: FetchedPage, convert: Convert) -> WebPage:
    page = WebPage(fetched.url, fetched.status, len(fetched.body), "", moved=fetched.moved)
    if fetched.moved or not fetched.body:
        return page
    kind = fetched.content_type.partition(";")[0].strip().lower()
    if kind in _HTML or (not kind and fetched.body[:100].lstrip()[:1] == b"<"):
        html = decode_body(fetched.body, fetched.content_type)
        text, cut = await convert(html[:MOST_HTML], fetched.url), len(html) > MOST_HTML
        return WebPage(page.url, page.status, page.size, text, cut)
    if not _is_text(kind, fetched.body):
        raise ToolError(
            f"'{fetched.url}' is no text: {kind or 'of a kind it does not name'}, {page.size:,} bytes. "
            "Get it with curl in Bash, and look at the file."
        )
    return WebPage(page.url, page.status, page.size, decode_body(fetched.body, fetched.content_type))


def _is_text(kind: str, body: bytes) -> bool:
    if kind.startswith("text/") or kind in _KNOWN or kind.endswith(_TEXT_ENDS):
        return True
    return not kind and b"\0" not in body[:4_096]
