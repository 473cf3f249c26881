"""Images and PDF documents that a prompt mentions, as content for the model, with the limits of `Read`."""

from __future__ import annotations

import binascii
import os

from mainspring.context.mentions import MentionMedia
from mainspring.core.messages import Document, Image
from mainspring.processes.safe_open import read_all
from mainspring.tools import media
from mainspring.tools.files import HEAD

SMALLER = "Make a smaller copy in Bash, and read that."
SOME_PAGES = "The Read tool shows some of its 'pages'."


def medium_in(fd: int, name: str) -> MentionMedia | None:
    """An image or PDF, by the first bytes of the file; None: neither. Files that are too large are not read."""
    head, size = os.pread(fd, HEAD, 0), os.fstat(fd).st_size
    if (found := media.image_in(head)) is not None:
        return too_large(found, size) or make_image_media(read_all(fd, name, media.MOST_IMAGE_BYTES))
    if media.is_pdf(head):
        why = media.too_large(size)
        return (
            refuse_media("PDF", why, SOME_PAGES) if why else make_document_media(read_all(fd, name, media.MOST_BYTES))
        )
    return None


def make_image_media(data: bytes) -> MentionMedia | None:
    found = media.image_in(data)  # its dimensions may come long after the first bytes
    if found is None:
        return None
    size = f", {found.size[0]} x {found.size[1]}" if found.size else ""
    made = MentionMedia(f"{kind_of(found)}{size}", Image(found.media_type, encode_base64(data)), data)
    return too_large(found, len(data)) or made


def make_document_media(data: bytes) -> MentionMedia:
    pages = media.pages_of(data)
    if why := media.too_long(pages):
        return refuse_media("PDF", why, SOME_PAGES)
    what = f"PDF, {pages:,} page{'' if pages == 1 else 's'}" if pages else "PDF"
    return MentionMedia(what, Document("application/pdf", encode_base64(data)), data)


def too_large(found: media.ImageInfo, size: int) -> MentionMedia | None:
    why = media.image_too_large(found, size)
    return refuse_media(kind_of(found), why, SMALLER) if why else None


def refuse_media(what: str, why: str, way_out: str) -> MentionMedia:
    return MentionMedia(what, why_not=f"it {why}", way_out=way_out)


def kind_of(found: media.ImageInfo) -> str:
    return f"{found.media_type.partition('/')[2].upper()} image"


def encode_base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
