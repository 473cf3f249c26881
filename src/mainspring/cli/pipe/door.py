"""The session that a program drives: prompts come in and wait their turn, frames go out, both may ask at any time.

Each prompt is a turn of its own, in the order in which they came (stream-json 7, rule 5). Between turns the event loop
runs on: requests are answered, and agents in the background are shown. The end of standard input is no stop signal:
what was received is done first.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.cli.flags import Options
from mainspring.cli.frames import Frames
from mainspring.cli.headless import STDIO, begun, opened_or_told
from mainspring.cli.parts import Parts, prepare
from mainspring.cli.pipe.callbacks import hooks_of
from mainspring.cli.pipe.changes import Changes
from mainspring.cli.pipe.consent import Consent
from mainspring.cli.pipe.controls import respond
from mainspring.cli.pipe.hearing import lines
from mainspring.cli.pipe.incoming import BadLineError, Incoming, Prompt, Reply, Request, incoming, listed
from mainspring.cli.pipe.outgoing import Outgoing, States
from mainspring.cli.pipe.questions import CallbackError, Questions
from mainspring.cli.pipe.turns import Turns
from mainspring.cli.pipe_mirror import Mirror
from mainspring.cli.rights import BYPASS
from mainspring.cli.sessions import Opened
from mainspring.cli.signals import INTERRUPT, Signals
from mainspring.cli.stdout import Pipe
from mainspring.cli.world import Driven, World
from mainspring.engine.plain import new_id
from mainspring.settings.home import home_folder

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Coroutine


EVERY = 0.1  # seconds: how often the session's lines are repeated, if somebody wants them
OWN_HOME = "MAINSPRING_HOME"


def serve(options: Options) -> int:
    with Signals() as signals:
        parts = prepare(options, compatible(dict(os.environ)))
        signals.check()
        signals.kill = parts.kit.kill
        code = asyncio.run(Door(parts, signals).serve())
    if signals.code == INTERRUPT:
        return 0  # as its clients know it: the turn was interrupted, and the session left in order
    return signals.code or code


def compatible(environment: dict[str, str]) -> dict[str, str]:
    """Settings and sessions lie where the functions of the client look for them (settled 31). `CLAUDE_CONFIG_DIR` comes
    first here: the client itself sets it for a session that it keeps elsewhere."""
    chosen = {name: value for name, value in environment.items() if name != OWN_HOME}
    said = environment if not environment.get("CLAUDE_CONFIG_DIR") else chosen
    home = home_folder(said, compatible=True)
    return environment | ({OWN_HOME: home} if home is not None else {})


class Door:
    world: World  # from the first line on
    frames: Frames
    turns: Turns

    def __init__(self, parts: Parts, signals: Signals) -> None:
        self.parts, self._signals = parts, signals
        self.out = Outgoing(Pipe().write)
        self.first: Incoming | None = None
        self.waiting: deque[Prompt] = deque()
        self.questions = Questions(self.out, new_id)
        self.changes = Changes(parts.gate, parts.kit.place, may_bypass=parts.mode == BYPASS)
        self._news = asyncio.Event()  # something came, or is over
        self._shut = False  # nothing will come any more
        self._stopping = False
        self._busy = False  # a turn is under way
        self._wrong: Exception | None = None  # what the other side said cannot be understood
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()  # those of them that answer a request
        environment = parts.environment
        host_only = environment.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
        for_all = environment.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
        self.states = States(self.out, self._stamped, wanted=host_only or for_all, host_only=not for_all)
        self._mirror = Mirror() if parts.options.session_mirror else None

    # --- from the first line to the last ---

    async def serve(self) -> int:
        self._signals.during(self._signals.ending(asyncio.get_running_loop(), self.stop))
        opened = self._opened()
        said = lines()
        self.first = await self._first(said)
        if self.first is None:
            if opened.journal is not None:
                opened.journal.close()
            self._complain()
            return 1 if self._wrong is not None else 0
        self._begin(self.first, opened)
        listening = asyncio.create_task(self._listen(said))
        if self._mirror is not None:
            self._keep(self._repeat(self._mirror))
        try:
            await self.world.open()
            self._take(self.first)
            await self._work()
        finally:
            listening.cancel()
            await asyncio.wait({listening})
            await self._close()
            self._complain()
        return 1 if self._wrong is not None or self.turns.failed else 0

    def _complain(self) -> None:
        if self._wrong is not None:
            print(f"mainspring: {self._wrong}", file=sys.stderr, flush=True)

    async def _first(self, said: AsyncGenerator[bytes, None]) -> Incoming | None:
        """What the session is made of: hooks and agents come with the first request, and everything waits for it."""
        waiting = asyncio.ensure_future(self._next(said))
        while not waiting.done() and not self._stopping:
            woken = asyncio.ensure_future(self._news.wait())
            await asyncio.wait({waiting, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait({waiting})
            return None
        return waiting.result()

    async def _next(self, said: AsyncGenerator[bytes, None]) -> Incoming | None:
        try:
            async for line in said:
                if (one := incoming(line)) is not None:
                    return one
        except BadLineError as error:
            self._wrong = error
        return None

    def _begin(self, first: Incoming, opened: Opened) -> None:
        fields = first.fields if isinstance(first, Request) and first.subtype == "initialize" else {}
        options = self.parts.options
        if fields.get("agents"):
            options.agents = msgspec.json.encode(fields["agents"]).decode()
        skills: Any = fields.get("skills")
        consent = Consent(self.questions, self.states, self.changes)
        asks = options.permission_prompt_tool == STDIO
        driven = Driven(
            hooks=tuple(hooks_of(fields.get("hooks"), self.questions, self._shown)),
            relay=self._relay,
            say=self._say,
            answer=consent.answer if asks else None,
            skills=None if skills is None else tuple(map(str, listed(skills))),
        )
        self.world = begun(self.parts, driven, opened)
        session = self.changes.session = self.world.session
        self.frames = Frames(
            self.world.about,
            new_id=session.deps.new_id,
            now=session.deps.now,
            partial=options.include_partial_messages,
            replay=options.replay_user_messages,
            forward=fields.get("forwardSubagentText") is True,
        )
        self.turns = Turns(self.world, self.frames, self.out, consent)
        self.turns.before_result = self._repeated
        consent.shown, consent.interrupt = self._shown, self.turns.interrupt_soon

    def _stamped(self, subtype: str, fields: dict[str, Any]) -> dict[str, Any]:
        return self.frames.system(subtype, fields)

    def _say(self, words: str) -> None:
        self.turns.say(words)

    async def _shown(self) -> None:
        await self.turns.shown()

    async def _relay(self, server: str, message: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self.questions.ask("mcp_message", server_name=server, message=message)
        except CallbackError as error:
            from mainspring.tools.mcp.relayed import RelayError  # it is loaded: it asks

            raise RelayError(str(error)) from None
        return answer.get("mcp_response") or {}

    def _opened(self) -> Opened:
        opened = opened_or_told(self.parts, self._mirror.add if self._mirror is not None else None)
        self._journal = opened.journal
        return opened

    async def _repeat(self, mirror: Mirror) -> None:
        """The session's lines, now and then; before a result `_repeated` does it."""
        while True:
            await asyncio.sleep(EVERY)
            await self.out.raw(mirror.frames())

    async def _repeated(self) -> None:
        if self._mirror is not None:
            await self.out.raw(self._mirror.frames())

    async def _close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.world.close()
        await self._repeated()

    # --- what comes in ---

    async def _listen(self, said: AsyncGenerator[bytes, None]) -> None:
        while (one := await self._next(said)) is not None:
            self._take(one)
        self._shut = True
        self.questions.shut()
        if self._wrong is not None:
            self.stop()
        self._news.set()

    def _take(self, one: Incoming) -> None:
        match one:
            case Prompt():
                self.waiting.append(one)
                self._news.set()
            case Request():
                task = self._keep(respond(self, one))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case Reply():
                self.questions.hear(one)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._answered)
        return task

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._wrong = error if isinstance(error, Exception) else None  # our own mistake, or nobody reads
            self.stop()

    def interrupt(self) -> None:
        """The turn under way, or the one that is about to begin."""
        if self._busy or self.waiting:
            self.turns.interrupt()

    def stop(self) -> None:
        """The end, in order: by a signal, or because nobody understands the other side any more."""
        self._stopping = True
        if self._busy:
            self.turns.interrupt()
        self._news.set()

    # --- turns ---

    async def _work(self) -> None:
        while not self._stopping:
            self._news.clear()
            await self.turns.show_loose()
            if self.waiting:
                await self._turn(self._prompted(self.waiting.popleft()))
            elif self.world.has_more and self.world.session.shared.inbox.waiting():
                await self._turn(self.turns.woken())
            elif not self.world.agents.away or not self.world.has_more:
                await self.states.idle()
                if not self._shut:
                    await self._some_news()
                elif self._answering:
                    await asyncio.wait(self._answering)  # what was asked before the end of input is answered
                else:
                    return
            else:
                await self._some_news()

    async def _turn(self, turn: Coroutine[Any, Any, None]) -> None:
        self._busy = True
        try:
            await self.states.running()
            await turn
        finally:
            self._busy = False

    async def _prompted(self, prompt: Prompt) -> None:
        if not prompt.composed and prompt.text.strip() == "/clear":
            await self._clear()
        else:
            await self.turns.prompted(prompt)

    async def _clear(self) -> None:
        """A new conversation, under a new id; what the program has set up stays. The old one stays on the disk."""
        assert self.first is not None
        before, policy = self.world.about.session_id, self.world.session.shared.policy
        spent, folders = self.world.session.shared.ledger.account.spent, self.parts.kit.place.folders
        await self.world.close()
        await self.turns.show_loose()
        if self._journal is not None:
            self._journal.close()
        del self.world, self.turns, self.frames  # what is no longer there need not be kept: see `begin`
        gc.collect()
        self.parts = prepare(begun_anew(self.parts.options), compatible(dict(os.environ)))
        self._signals.kill = self.parts.kit.kill
        self.changes = Changes(self.parts.gate, self.parts.kit.place, may_bypass=self.changes.may_bypass)
        self._begin(self.first, self._opened())
        self.changes.set_folders(folders)
        self.world.session.shared.ledger.settle(0, spent)  # a limit holds for all that the program asks for
        await self.world.open()
        await self.world.session.change(policy)
        await self.turns.cleared(before)

    async def _some_news(self) -> None:
        """A line, a signal, or something of an agent in the background."""
        waiting: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._news.wait()),
            asyncio.ensure_future(self.turns.loose.wait()),
        }
        if self.world.agents.away:
            waiting.add(asyncio.ensure_future(self.world.agents.next_report()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()


def begun_anew(options: Options) -> Options:
    """The same, but for what it says of an earlier session."""
    earlier = ("--resume", "--continue", "--fork-session", "--resume-session-at", "--resume-drops-turn", "--session-id")
    said = {**vars(options), "resume": None, "fork_session": False, "resume_session_at": None, "session_id": None}
    said["resume_drops_turn"] = None
    return Options(**said | {"given": tuple([name for name in options.given if name not in earlier])})
