"""Rules about images and documents. Not checked: pixels, and that the bytes are of the kind they are said to be."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from mainspring.core.models import UNKNOWN
from mainspring.simulator.manners import listed_model
from mainspring.simulator.parameters import Broken
from mainspring.simulator.request import CheckedRequest, PlacedBlock

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
LARGEST_IMAGE = 10 * 1024 * 1024  # of base64, as the API counts; it was 5 MB until the spring of 2026
SMALL_WINDOW = 200_000
MOST_MEDIA, MOST_MEDIA_SMALL = 600, 100  # images and pages in a request; the second where the window is small

_PAGE = re.compile(rb"/Type\s*/Page\b")

# By the kind of the block and of its source: the media types there are.
TYPES = {
    ("image", "base64"): IMAGE_TYPES,
    ("document", "base64"): ("application/pdf",),
    ("document", "text"): ("text/plain",),
}


def check_media_types(request: CheckedRequest) -> Broken:
    for placed in request.media:
        source = placed.block["source"]
        allowed = TYPES.get((placed.kind, source["type"]))
        if allowed and source["media_type"] not in allowed:
            names = " or ".join([f"'{name}'" for name in allowed])
            yield placed.at(f"source.{source['type']}.media_type"), f"Input should be {names}"


def check_base64(request: CheckedRequest) -> Broken:
    for placed in iter_base64_media(request):
        data: str = placed.block["source"]["data"]
        if not data or decode_base64(data) is None:
            yield placed.at("source.base64"), "invalid base64 data"


def check_media_size(request: CheckedRequest) -> Broken:
    for placed in iter_base64_media(request):
        length = len(placed.block["source"]["data"])
        if placed.kind == "image" and length > LARGEST_IMAGE:
            said = f"image exceeds 10 MB maximum: {length} bytes > {LARGEST_IMAGE} bytes"
            yield placed.at("source.base64"), said


def check_urls(request: CheckedRequest) -> Broken:
    for placed in request.media:
        source = placed.block["source"]
        if source["type"] == "url" and not source["url"].startswith(("https://", "http://")):
            yield placed.at("source.url.url"), "Only HTTPS URLs are supported."


def check_media_count(request: CheckedRequest) -> Broken:
    if not request.media:
        return
    images = sum([placed.kind == "image" for placed in request.media])
    pages = sum([pages_of(placed) for placed in request.media if placed.kind == "document"])
    window = (listed_model(request.model) or UNKNOWN).window
    most = MOST_MEDIA_SMALL if window <= SMALL_WINDOW else MOST_MEDIA
    if images + pages > most:
        yield "", f"Too much media: {pages} document pages + {images} images > {most}"


def pages_of(placed: PlacedBlock) -> int:
    """Pages that can be counted without reading the PDF properly: at least one."""
    source = placed.block["source"]
    if source["type"] != "base64":
        return 0
    return max(1, len(_PAGE.findall(decode_base64(source["data"]) or b"")))


def iter_base64_media(request: CheckedRequest) -> Iterator[PlacedBlock]:
    return (placed for placed in request.media if placed.block["source"]["type"] == "base64")


def decode_base64(data: str) -> bytes | None:
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
