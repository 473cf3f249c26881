"""Images and documents within the API's limits. What does not fit is replaced by words that say so.

As documented on 2026-11-15: images of four types, 5 MB each; 100 images and documents a request; 32 MB in all.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable

from mainspring.core.messages import Content, Document, Image, Text

IMAGES: tuple[str, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
DOCUMENTS: tuple[str, ...] = ("application/pdf",)
LARGEST_IMAGE = 5 * 1024 * 1024  # of base64, which is how the server counts
LARGEST_DOCUMENT = 20 * 1024 * 1024
MOST, MOST_BYTES = 100, 24 * 1024 * 1024  # the rest of the 32 MB is left to the text

# When there is too much, more goes than must: else each new image would push one more out, and break the cached prefix
# with every request.
FEWER, FEWER_BYTES = MOST // 2, MOST_BYTES // 2

REMOVED = Text("[An image or document stood here. It was removed to make room for newer ones.]")


def replace_oversized_media(part: Content) -> Content:
    """The part itself, or words in its place."""
    if isinstance(part, Text):
        return part
    image = isinstance(part, Image)
    kind, types = ("image", IMAGES) if image else ("document", DOCUMENTS)
    largest = LARGEST_IMAGE if image else LARGEST_DOCUMENT
    if part.media_type not in types:
        return Text(f"[This {kind} cannot be shown: its type is '{part.media_type[:60]}', not {', '.join(types)}.]")
    if len(part.data) > largest:
        return Text(f"[This {kind} cannot be shown: it is larger than {largest // 1024 // 1024} MB.]")
    if not part.data or not is_base64(part.data):
        return Text(f"[This {kind} cannot be shown: its data is damaged.]")
    return part


def is_base64(data: str) -> bool:
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:  # also for what is not ASCII
        return False
    return True


def too_many(sizes: Iterable[int]) -> int:
    """How many of the oldest must go. Adding to the end never brings one back."""
    kept: list[int] = []
    gone = total = 0
    for size in sizes:
        kept.append(size)
        total += size
        if len(kept) > MOST or total > MOST_BYTES:
            while kept and (len(kept) > FEWER or total > FEWER_BYTES):
                total -= kept.pop(0)
                gone += 1
    return gone


def media_in(parts: Iterable[object]) -> list[int]:
    """The sizes of those that would be shown."""
    return [len(part.data) for part in parts if isinstance(part, Image | Document) and media_fits(part)]


def media_fits(part: Image | Document) -> bool:
    largest = LARGEST_IMAGE if isinstance(part, Image) else LARGEST_DOCUMENT
    return len(part.data) <= largest


def without_oldest(parts: tuple[Content, ...], gone: int) -> tuple[Content, ...]:
    """The parts with the first `gone` images and documents replaced."""
    kept: list[Content] = []
    for part in parts:
        if gone and isinstance(part, Image | Document) and media_fits(part):
            gone -= 1
            kept.append(REMOVED)
        else:
            kept.append(part)
    return tuple(kept)
