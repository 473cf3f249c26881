"""The session that a program drives: prompts come in and wait their turn, frames go out, both may ask at any time.

Each prompt is a turn of its own, in the order in which they came (stream-json 7, rule 5). Between turns the event loop
runs on: requests are answered, and agents in the background are shown. That nothing more will come is no stop signal:
what was received is done first.

How the two sides reach each other is not known here: `cli/pipe.py` has lines of JSON, `sdk/` hands objects over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring.assembly.beginning import STDIO, begun
from mainspring.assembly.carry_over import carry_over, options_for_next, take_along
from mainspring.assembly.options import Options, StartError
from mainspring.assembly.parts import Parts, open_journal
from mainspring.assembly.rights import BYPASS
from mainspring.assembly.sessions import Opened, ResumeError
from mainspring.assembly.world import Driven, World
from mainspring.core.value import Bundle
from mainspring.driven.asides import never_begun
from mainspring.driven.callbacks import hooks_of
from mainspring.driven.changes import Changes
from mainspring.driven.consent import Consent
from mainspring.driven.controls import respond
from mainspring.driven.frames import Frames
from mainspring.driven.incoming import BadLineError, Incoming, Prompt, Reply, Request, listed
from mainspring.driven.mirror import Mirror
from mainspring.driven.outgoing import Out, States
from mainspring.driven.questions import CallbackError, Questions
from mainspring.driven.turns import Turns
from mainspring.engine.endings import end_all, regardless
from mainspring.engine.ledger import Ledger
from mainspring.engine.plain import new_id
from mainspring.settings.home import compatible_home
from mainspring.settings.keeping import Keeper
from mainspring.settings.load import Asked

if TYPE_CHECKING:
    from collections.abc import Coroutine


EVERY = 0.1  # seconds: how often the session's lines are repeated, if somebody wants them
OWN_HOME = "MAINSPRING_HOME"


def nothing() -> None:
    pass


class Host(Bundle):
    """What the process around a session does for it."""

    prepare: Callable[[Options], Parts]
    heard: Callable[[], AsyncGenerator[Incoming, None]]  # what the program says; raises `BadLineError`
    out: Out  # where frames go
    begun: Callable[[], object] = nothing  # everything is loaded
    stays: bool = False  # it answers also after its last prompt
    left: Callable[[], object] = nothing  # nothing of a conversation is needed any more


def compatible(environment: dict[str, str]) -> dict[str, str]:
    """Settings and sessions lie where the functions of the client look for them (settled 31)."""
    home = compatible_home(environment)
    return environment | ({OWN_HOME: home} if home is not None else {})


class Door:
    world: World  # from the first line on
    frames: Frames
    turns: Turns

    def __init__(self, options: Options, host: Host) -> None:
        """Raises `StartError`: what is wrong is told before anybody waits or pays."""
        self.parts, self._host = host.prepare(options), host
        parts, self.out = self.parts, host.out
        self.first: Incoming | None = None
        self.waiting: deque[Prompt] = deque()
        self.questions = Questions(self.out, new_id)
        self.changes = changes_of(parts, may_bypass=parts.mode == BYPASS)
        self._news = asyncio.Event()  # something came, or is over
        self._shut = False  # nothing will come any more
        self._stopping = False
        self._busy = False  # a turn is under way
        self._number = 0  # of the turn under way, or of the last one
        self._unwanted = 0  # the number of a turn that was interrupted before it began
        self.wrong: Exception | None = None  # what the other side said cannot be understood
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[None]] = set()  # those of them that answer a request
        environment = parts.environment
        host_only = environment.get("CLAUDE_CODE_SDK_READS_SESSION_STATE") == "1"
        for_all = environment.get("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS") == "1"
        self.states = States(self.out, self._stamped, wanted=host_only or for_all, host_only=not for_all)
        self._mirror = Mirror() if parts.options.session_mirror else None

    # --- from the first line to the last ---

    async def serve(self) -> int:
        """The exit code. Raises `ResumeError`, which the program has heard of then, as a result."""
        opened = await self._opened_or_told()
        try:
            return await self._serve(opened)
        finally:
            if self._journal is not None:
                self._journal.close()

    async def _serve(self, opened: Opened) -> int:
        said = self._host.heard()
        self.first = await self._first(said)
        if self.first is None:
            self._complain()
            return 1 if self.wrong is not None else 0
        self._begin(self.first, opened)
        listening = asyncio.create_task(self._listen(said))
        if self._mirror is not None:
            self._keep(self._repeat(self._mirror))
        try:
            await self.world.open()
            self._take(self.first)
            await self._work()
        finally:
            await regardless(self._close(listening))
            self._complain()
        return 1 if self.wrong is not None or self.turns.failed else 0

    def _complain(self) -> None:
        if self.wrong is not None:
            self.parts.options.tell(str(self.wrong))

    async def _first(self, said: AsyncGenerator[Incoming, None]) -> Incoming | None:
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

    async def _next(self, said: AsyncGenerator[Incoming, None]) -> Incoming | None:
        try:
            return await anext(said, None)
        except BadLineError as error:
            self.wrong = error
            return None

    def _begin(self, first: Incoming, opened: Opened, ledger: Ledger | None = None) -> None:
        fields = first.fields if isinstance(first, Request) and first.subtype == "initialize" else {}
        options = self.parts.options
        if fields.get("agents"):
            if self.parts.settings.no_sideloading:
                raise StartError("'agents' is switched off by 'disableSideloadFlags': leave it out")
            options.agents = msgspec.json.encode(fields["agents"]).decode()
        skills: Any = fields.get("skills")
        consent = Consent(self.questions, self.states, self.changes)
        asks = options.permission_prompt_tool == STDIO
        driven = Driven(
            hooks=tuple(hooks_of(fields.get("hooks"), self.questions, self._shown, options.tell)),
            relay=self._relay,
            say=self._say,
            answer=consent.answer if asks else None,
            skills=None if skills is None else tuple(map(str, listed(skills))),
            place_apart=fields.get("excludeDynamicSections") is True,
        )
        self.world = begun(self.parts, opened, driven, ledger)
        self._host.begun()
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
        if options.include_hook_events:
            self.turns.watch_hooks()
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
        opened = open_journal(self.parts, self._mirror.add if self._mirror is not None else None)
        self._journal = opened.journal
        return opened

    async def _opened_or_told(self) -> Opened:
        try:
            return self._opened()
        except ResumeError as error:
            await self.out.put(never_begun(str(error), self.parts.options.resume or ""))
            raise

    @property
    def stays(self) -> bool:
        """We are part of the program that drives us."""
        return self._host.stays

    def kill(self) -> None:
        """At once, with all that it has started."""
        self.parts.kit.kill()

    async def _repeat(self, mirror: Mirror) -> None:
        """The session's lines, now and then; before a result `_repeated` does it."""
        while True:
            await asyncio.sleep(EVERY)
            await self.out.raw(mirror.frames())

    async def _repeated(self) -> None:
        if self._mirror is not None:
            await self.out.raw(self._mirror.frames())

    async def _close(self, listening: asyncio.Task[None]) -> None:
        await end_all([listening, *self._tasks])
        try:
            await self.world.close()
        finally:
            await self._repeated()

    # --- what comes in ---

    async def _listen(self, said: AsyncGenerator[Incoming, None]) -> None:
        while (one := await self._next(said)) is not None:
            self._take(one)
        self._shut = True
        if not self._host.stays:
            self.questions.shut()
        if self.wrong is not None:
            self.stop()
        self._news.set()

    def _take(self, one: Incoming) -> None:
        match one:
            case Prompt():
                self.waiting.append(one)
                self._news.set()
            case Request():
                task = self._keep(respond(self, one, self._interruptible()))
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
            self.wrong = error if isinstance(error, Exception) else None  # our own mistake, or nobody reads
            self.stop()

    def _interruptible(self) -> int | None:
        """The turn that an interrupt which comes now is about: the one under way, or the one that is about to begin.
        A prompt that comes behind the interrupt is not meant, however soon it comes."""
        if self._busy and self.turns.under_way:
            return self._number
        return self._number + 1 if self.waiting else None

    def interrupt(self, target: int) -> None:
        if target > self._number:
            self._unwanted = target
        elif self._busy and target == self._number:
            self.turns.interrupt()

    def stop(self) -> None:
        """The end, in order: by a signal, or because nobody understands the other side any more."""
        self._stopping = True
        if self._busy:
            if not self.stays and self.wrong is None:
                self.turns.leaves()
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
        self._busy, self._number = True, self._number + 1
        self.turns.begin(unwanted=self._unwanted == self._number)
        try:
            await self.states.running()
            await turn
        finally:
            self._busy = False

    async def _prompted(self, prompt: Prompt) -> None:
        if prompt.composed or prompt.text.strip() != "/clear":
            await self.turns.prompted(prompt)
            return
        try:
            parts = self._host.prepare(options_for_next(self.parts.options))
        except StartError as error:  # this one goes on
            await self.turns.answered(prompt, f"No new conversation can begin: {error}")
        else:
            await self._clear(parts)

    async def _clear(self, parts: Parts) -> None:
        """A new conversation, under a new id; what the program has set up stays. The old one stays on the disk."""
        assert self.first is not None
        before, carried = self.world.about.session_id, take_along(self.world, self.parts)
        await self.world.close()
        await self.turns.show_loose()
        if self._journal is not None:
            self._journal.close()
        del self.world, self.turns, self.frames
        self._host.left()
        self.parts = parts
        self.changes = changes_of(self.parts, may_bypass=self.changes.may_bypass)
        self._begin(self.first, self._opened(), carried.ledger)
        self.turns.begin(unwanted=False)  # this turn goes on in the new conversation
        await self.world.open()
        await carry_over(carried, self.world, self.parts)
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


def changes_of(parts: Parts, *, may_bypass: bool) -> Changes:
    options = parts.options
    keeper = Keeper(parts.cwd, parts.environment, Asked(options.settings, options.setting_sources))
    return Changes(
        parts.gate,
        parts.kit.place,
        may_bypass=may_bypass,
        auto_disabled=parts.settings.permissions.auto_disabled,
        keeper=keeper,
        tell=options.tell,
    )
