"""A trace as one HTML file that opens from the disk: the same page, with its scripts and its data in it.

The file may do nothing but show itself: its policy names its own scripts by their hashes, and allows no connection.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

import msgspec

from mainspring.viewer.details import get_span_details
from mainspring.viewer.pages import INDEX, SCRIPTS, STYLE, read_page_file
from mainspring.viewer.replay import StepReplay
from mainspring.viewer.trace import Trace

LONGEST = 8_000  # characters of one text: a file is sent around, and holds them all
ALL = 10**9


def export_html(trace: Trace) -> bytes:
    """Of a trace that was looked at. Raises OSError if its files are gone."""
    style = read_page_file(STYLE)
    scripts = [read_page_file(name) for name in SCRIPTS]
    made = read_page_file(INDEX).replace(b'<link rel="stylesheet" href="style.css">', b"<style>%b</style>" % style)
    data = b'<script type="application/json" id="embedded">%b</script>\n' % harmless_json(encode_trace(trace))
    first, *others = [b'<script src="%b"></script>' % name.encode() for name in SCRIPTS]
    made = made.replace(first, data + first)
    for tag, script in zip((first, *others), scripts, strict=True):
        made = made.replace(tag, b"<script>%b</script>" % script)
    policy = b'<meta http-equiv="Content-Security-Policy" content="%b">\n' % policy_for(scripts, style).encode()
    return made.replace(b"<meta charset", policy + b"<meta charset", 1)


def policy_for(scripts: list[bytes], style: bytes) -> str:
    known = " ".join([f"'sha256-{base64_digest(script)}'" for script in scripts])
    return (
        f"default-src 'none'; script-src {known}; style-src 'sha256-{base64_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def base64_digest(data: bytes) -> str:
    return b64encode(sha256(data).digest()).decode()


def encode_trace(trace: Trace) -> bytes:
    parts = {span.key: found.parts for span in trace.spans if (found := get_span_details(trace, span.key, LONGEST))}
    return msgspec.json.encode(
        {
            "head": trace.head(),
            "spans": list(trace.spans),
            "details": {key: texts for key, texts in parts.items() if texts},
            "steps": [steps_of(trace, place) for place in range(len(trace.files))],
        }
    )


def steps_of(trace: Trace, place: int) -> list[msgspec.Raw]:
    replay = StepReplay(trace.files[place].lines.file, aside=place > 0)
    replay.look()
    return replay.steps(1, ALL)


def harmless_json(data: bytes) -> bytes:
    """JSON within a script element: nothing in it may end the element, open a comment, or be a line end of JavaScript.
    These characters stand only within strings there."""
    for character, escaped in ESCAPES:
        data = data.replace(character, escaped)
    return data


ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    (b"\xe2\x80\xa8", rb"\u2028"),
    (b"\xe2\x80\xa9", rb"\u2029"),
)
