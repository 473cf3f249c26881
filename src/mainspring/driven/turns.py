"""One turn of a driven session: from a prompt, or from a report of an agent, to its result (stream-json 6 and 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from mainspring.assembly.said import stands_for
from mainspring.assembly.world import World
from mainspring.core.errors import MainspringError
from mainspring.core.messages import Text, User
from mainspring.core.updates import AgentUpdate, CallDone, CallStarted, Result, Update
from mainspring.driven.consent import Consent, at_once
from mainspring.driven.facts import context_words
from mainspring.driven.frames import Frames
from mainspring.driven.hook_frames import HookFrames
from mainspring.driven.incoming import Prompt
from mainspring.driven.outgoing import Out
from mainspring.engine.prompts import Blocked
from mainspring.engine.run import Run
from mainspring.tools.background import Running

T = TypeVar("T")
WOKEN = {"kind": "task-notification"}


class Turns:
    def __init__(self, world: World, frames: Frames, out: Out, consent: Consent) -> None:
        self._world, self._frames, self._out, self._consent = world, frames, out, consent
        self.failed = False  # the last one
        self.before_result: Callable[[], Awaitable[None]] = at_once
        self.loose = asyncio.Event()  # an agent in the background has something to show, between turns
        self._loose: list[dict[str, Any]] = []
        self._run: Run | None = None
        self._waiting: asyncio.Future[Any] | None = None  # for servers, or for what hooks say about a prompt
        self.under_way = False  # until its result is made, though that may not have been told yet
        self._unwanted = False  # the turn under way
        self._writing = False
        self._caught_up: list[asyncio.Future[None]] = []
        self._hooks = HookFrames(frames.system, out.put, self.shown)
        world.kit.of_shells = self._of_shell
        self._follow()

    # --- from outside ---

    def begin(self, *, unwanted: bool) -> None:
        """A turn, before anything of it is done. `unwanted`: it was interrupted while it waited."""
        self.under_way, self._unwanted = True, unwanted

    def interrupt(self) -> None:
        """The turn under way, wherever it is; nothing, if there is none."""
        if not self.under_way:
            return
        self._unwanted = True
        if self._run is not None:
            self._run.interrupt()
        elif self._waiting is not None:
            self._waiting.cancel()

    def interrupt_soon(self) -> None:
        """When what is being said now has been heard."""
        asyncio.get_running_loop().call_soon(self.interrupt)

    async def shown(self) -> None:
        """Return when all that has happened so far is on the pipe."""
        if self._run is None or not (self._run.unread or self._writing):
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._caught_up.append(waiting)
        await waiting

    def watch_hooks(self) -> None:
        """Whoever drives us wants to hear when a hook is asked, and what it answered."""
        self._hooks.watch(self._world.hands.hooks)

    async def show_loose(self) -> None:
        self.loose.clear()
        frames, self._loose = self._loose, []
        await self._out.put(*frames)

    # --- a turn ---

    async def prompted(self, prompt: Prompt) -> None:
        world, deps = self._world, self._world.session.deps
        said = User(prompt.content, id=prompt.id or deps.new_id(), at=deps.now())
        await self._open(said, as_blocks=prompt.as_blocks)
        if self._unwanted:
            await self._end(self._frames.interrupted())
            return
        if not prompt.composed and prompt.text.strip() == "/context":
            await self._end(self._frames.refused(context_words(self._world)))
            return
        meant, wish = self._meant(prompt, said)
        heard = await self._heard(meant, "" if prompt.composed else None)
        if heard is None or self._unwanted:
            await self._end(self._frames.interrupted())
        elif isinstance(heard, Blocked):
            await self._end(self._frames.refused(heard.reason))
        else:
            await self._to_the_end(world.run(wish, heard, deltas=True), prompt.origin)

    async def answered(self, prompt: Prompt, words: str) -> None:
        """It was for ourselves: there is no turn of the model."""
        deps = self._world.session.deps
        await self._open(User(prompt.content, id=prompt.id or deps.new_id(), at=deps.now()), as_blocks=prompt.as_blocks)
        await self._end(self._frames.refused(words))

    async def cleared(self, before: str) -> None:
        """The conversation with this id was left, and an empty one begins."""
        await self._out.put(self._frames.reset(before))
        await self._open(None)
        await self._end(self._frames.refused(""))

    async def woken(self) -> None:
        """An agent in the background has reported."""
        await self._open(None)
        if self._unwanted:
            await self._end(self._frames.interrupted())
        else:
            await self._to_the_end(self._world.go_on(deltas=True), WOKEN)

    async def _open(self, said: User | None, *, as_blocks: bool = False) -> None:
        await self._unless_interrupted(self._world.settle())  # so that `init` can tell of servers and their tools
        policy = self._world.session.shared.policy
        self._frames.standing(policy.mode, policy.model)
        await self._out.put(*self._frames.opening(said, as_blocks=as_blocks))
        await self._hooks.open()

    def _meant(self, prompt: Prompt, said: User) -> tuple[User, str]:
        """What goes to the model, and what is looked at for wishes to ourselves. A skill or a command stands for its
        text; a word with a slash that nobody knows is a word."""
        if prompt.composed:
            return said, ""
        body = stands_for(prompt.text, self._world)
        if body is None:
            return said, prompt.text
        rest = tuple([part for part in said.content if not isinstance(part, Text)])
        return replace(said, content=(Text(body), *rest)), ""

    async def _heard(self, said: User, words: str | None) -> tuple[User, ...] | Blocked | None:
        """None: it was interrupted while hooks had their say. `words`: in which files may be named; None: in all."""
        return await self._unless_interrupted(self._world.prompts.said(said, words))

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        self._waiting = asyncio.ensure_future(work)
        if self._unwanted:
            self._waiting.cancel()
        try:
            await asyncio.wait({self._waiting})
            return None if self._waiting.cancelled() else self._waiting.result()
        finally:
            self._waiting.cancel()
            self._waiting = None

    async def _to_the_end(self, run: Run, origin: dict[str, Any] | None) -> None:
        self._frames.origin = origin
        async with run:
            self._run = run
            try:
                async for update in run:
                    self._writing = True
                    await self._show(update)
                    self._writing = False
                    if not run.unread:
                        self._wake()
                    await self._out.room()
            except BrokenPipeError:
                raise
            except (MainspringError, OSError) as error:  # the journal failed, or we did: nothing may go on (law 3)
                await self._end(self._frames.broke_off(f"the run broke off: {error}"))
            finally:
                self._run, self._writing = None, False
                self._wake()
        self._follow()

    async def _show(self, update: Update) -> None:
        self._note(update)
        await self.show_loose()
        await self._hooks.show()
        frames = self._frames.of(update)
        if isinstance(update, Result):
            self._world.agents.took(update.turns)
            await self._end(frames)
        else:
            await self._out.put(*frames)

    async def _end(self, frames: list[dict[str, Any]]) -> None:
        await self.show_loose()
        await self._hooks.close()
        await self.before_result()
        self._unwanted = self.under_way = False
        self.failed = any(frame.get("is_error") is True for frame in frames)
        await self._out.put(*frames)

    def _note(self, update: Update) -> None:
        """Which calls are under way: those of agents, too."""
        inner = update.update if isinstance(update, AgentUpdate) else update
        if isinstance(inner, CallStarted):
            self._consent.begins(inner.call)
        elif isinstance(inner, CallDone):
            self._consent.ends(inner.result.call_id)

    def _wake(self) -> None:
        waiting, self._caught_up = self._caught_up, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    # --- between turns ---

    def _follow(self) -> None:
        self._world.session.shared.follow(self._between)

    def _between(self, update: Update) -> None:
        self._note(update)
        self._add(self._frames.of(update))

    def leaves(self) -> None:
        """Somebody ends this process: told before the result of the turn that it ends."""
        self._add([self._frames.system("worker_shutting_down", {"reason": "signal"})])

    def say(self, words: str) -> None:
        """What a hook has for the person."""
        self._add([self._frames.system("informational", {"content": words, "level": "info"})])

    def _of_shell(self, shell: Running) -> None:
        """A command in the background has begun, or is over."""
        self._add(self._frames.of_shell(shell))

    def _add(self, frames: list[dict[str, Any]]) -> None:
        """They come out with the next update, or at once if there is no turn."""
        self._loose += frames
        self.loose.set()
