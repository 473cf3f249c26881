"""A conformance suite for providers: subclass it to test yours.

    class TestMine(ProviderConformance):
        def provider(self, replies): ...      # a provider whose server sends these replies

Each test requests a reply and checks the items, however they are split into batches.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from contextlib import aclosing

from mainspring.core.effects import Request
from mainspring.core.errors import ProviderError
from mainspring.core.history import History
from mainspring.core.messages import Stop, Text, Thinking, ToolCall, user
from mainspring.core.money import Usage
from mainspring.core.reasons import Failure, Trouble
from mainspring.core.updates import BlockKind
from mainspring.providers.base import (
    BlockDelta,
    BlockFinished,
    Conversation,
    Item,
    Provider,
    Retry,
    StreamEnded,
    StreamStarted,
)
from mainspring.providers.scripted import Break, Pause, ScriptedReply, says

REQUEST = Request("some-model", 1_000, 1, "sdk", "", 0, overload_tries=1)
CONVERSATION = Conversation(History([user("go")]))


async def items(provider: Provider) -> list[Item]:
    collected: list[Item] = []
    async with aclosing(provider.stream(REQUEST, CONVERSATION)) as stream:
        async for batch in stream:
            assert isinstance(batch, tuple), "a batch must be a tuple: the items of one read"
            collected.extend(batch)
    return collected


class ProviderConformance:
    """Subclass it, implement `provider`, and let pytest collect it."""

    @abstractmethod
    def provider(self, replies: list[ScriptedReply]) -> Provider: ...

    def play(self, *replies: ScriptedReply) -> list[Item]:
        return asyncio.run(items(self.provider(list(replies))))

    def test_a_reply_begins_once_and_ends_once(self) -> None:
        got = self.play(says("Hello."))
        assert isinstance(got[0], StreamStarted)
        assert isinstance(got[-1], StreamEnded)
        assert sum(isinstance(item, StreamStarted | StreamEnded) for item in got) == 2

    def test_the_pieces_of_a_block_make_the_block(self) -> None:
        got = self.play(says("A text that is long enough for several pieces."))
        pieces = "".join(item.text for item in got if isinstance(item, BlockDelta) and item.kind is BlockKind.TEXT)
        assert [item.block for item in got if isinstance(item, BlockFinished)] == [Text(pieces)]

    def test_blocks_come_finished_and_in_order(self) -> None:
        blocks = (Thinking("hm", "signature"), Text("So:"), ToolCall("c1", "Read", {"file_path": "a"}))
        got = self.play(says(*blocks))
        assert tuple(item.block for item in got if isinstance(item, BlockFinished)) == blocks

    def test_a_call_comes_before_the_end_of_the_reply(self) -> None:
        got = self.play(says(ToolCall("c1", "Read", {}), "and more text"))
        finished = [n for n, item in enumerate(got) if isinstance(item, BlockFinished)]
        assert finished[0] < len(got) - 2

    def test_the_end_carries_the_stop_reason_and_the_usage(self) -> None:
        usage = Usage(input=7, output=3)
        ended = self.play(says("cut", stop=Stop.MAX_TOKENS, usage=usage))[-1]
        assert isinstance(ended, StreamEnded)
        assert (ended.stop, ended.usage) == (Stop.MAX_TOKENS, usage)

    def test_a_call_stops_for_tool_use(self) -> None:
        ended = self.play(says(ToolCall("c1", "Read", {})))[-1]
        assert isinstance(ended, StreamEnded)
        assert ended.stop is Stop.TOOL_USE

    def test_a_failure_after_something_was_handed_on_is_raised_with_its_kind(self) -> None:
        broken = says("half a", Break(Failure(Trouble.OVERLOADED, "try later")), "never")
        raised: list[Trouble] = []
        try:
            self.play(broken)
        except ProviderError as error:
            raised.append(error.failure.kind)
        assert raised == [Trouble.OVERLOADED], "the stream broke off without an error"

    def test_a_wait_is_told_only_before_the_reply_begins(self) -> None:
        wait = Retry(Failure(Trouble.OVERLOADED), 1, 10)
        got = self.play(says(wait, "Hello."))
        kinds = [type(item) for item in got]
        assert Retry not in kinds[kinds.index(StreamStarted) :]

    def test_closing_the_stream_early_leaves_nothing_running(self) -> None:
        async def main() -> None:
            async with aclosing(
                self.provider([says("first", Pause(60_000), "never")]).stream(REQUEST, CONVERSATION)
            ) as stream:
                async for _ in stream:
                    break
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main())

    def test_cancelling_a_waiting_stream_ends_at_once(self) -> None:
        async def main() -> None:
            waiting = asyncio.get_running_loop().create_task(items(self.provider([says(Pause(60_000), "never")])))
            await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=1)
            assert waiting.cancelled()

        asyncio.run(main())
