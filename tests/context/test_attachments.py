"""What is put into a conversation: typed, bounded, in a marker that nothing inside can close."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.context.attachments import MANNERS, MARKER, Attachment, Kind, cut, held, missing, render
from mainspring.core.history import History
from mainspring.core.messages import Image, Origin, Text, User, user
from mainspring.core.view import Drop, view

NASTY = st.lists(
    st.sampled_from(
        ["<", "/", ">", "</", MARKER, MARKER.upper(), " ", "\n", '"', "&", "\0", "\udcff", "x", f"</{MARKER}>"]
    )
).map("".join)


@given(kind=st.sampled_from(Kind), name=NASTY | st.text(), text=NASTY | st.text())
def test_nothing_inside_a_marker_closes_it_or_opens_another(kind: Kind, name: str, text: str) -> None:
    said = render(Attachment(kind, name, text)).text
    folded = said.lower().replace(" ", "").replace("\n", "").replace("\t", "")
    assert folded.count(f"<{MARKER}") == 1
    assert folded.count(f"</{MARKER}") == 1
    head, *_ = said.split("\n")
    assert head.startswith(f'<{MARKER} kind="{kind}"')
    assert head.endswith(">")
    assert head.count(">") == 1
    assert said.endswith(f"\n</{MARKER}>")
    assert said.encode()


@pytest.mark.covers("B-28")
@pytest.mark.parametrize("kind", Kind)
def test_each_kind_has_its_limit_and_says_what_was_cut(kind: Kind) -> None:
    most = MANNERS[kind].most
    message = render(Attachment(kind, "/some/file", "line\n" * (3 * most)))
    assert message.origin is Origin.ATTACHMENT
    assert most * 0.85 < len(message.text) < most + 600
    assert f"of {15 * most - 1:,} characters are here. Read '/some/file' for the rest.]" in message.text
    short = render(Attachment(kind, "/some/file", "line"))
    assert "Cut" not in short.text


@given(text=st.text(), most=st.integers(20, 200))
def test_a_cut_text_is_a_beginning_of_the_whole(text: str, most: int) -> None:
    shown = cut(text, most)
    assert shown == text if len(text) <= most else text.startswith(shown.rsplit("\n[Cut: ", 1)[0])


@pytest.mark.covers("D-37", "N-23")
def test_what_the_view_no_longer_holds_is_sent_again() -> None:
    wanted = [Attachment(Kind.MEMORY, "/a", "first"), Attachment(Kind.MEMORY, "/b", "second")]
    sent = missing(wanted, ())
    assert [message.text for message in sent] == [render(attachment).text for attachment in wanted]
    history = History([replace(message, id=str(n)) for n, message in enumerate([user("prompt"), *sent])])
    assert missing(wanted, history) == ()
    assert missing(wanted, view(history, (Drop(("1",)),))) == sent[:1]


def test_only_our_own_messages_count_as_held() -> None:
    text = render(Attachment(Kind.MEMORY, "/a", "first")).text
    assert held([user(text)]) == frozenset()
    assert held([user(text, Origin.ATTACHMENT)]) == {(Text(text),)}


def test_an_image_is_held_as_it_was_and_sent_again_when_it_is_another() -> None:
    first, second = [Attachment(Kind.MEDIA, "/a", "one", (Image("image/png", data),)) for data in ("AAAA", "BBBB")]
    view = [render(first)]
    assert missing([first], view) == ()
    assert missing([second], view) == (render(second),)
    stripped = [User((Text(render(first).text), Text("[An image stood here.]")), Origin.ATTACHMENT)]
    assert missing([first], stripped) == (render(first),)
