"""Print mode in stream-json: frames, all of them or only the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mainspring.agent.session import AgentSession
from mainspring.agent.updates import AnyUpdate
from mainspring.messages_api import Object
from mainspring.stream_json.outgoing import encode_line
from mainspring.stream_json.render import Renderer

Write = Callable[[bytes], Awaitable[None]]


def make_json_output(session: AgentSession, output_format: str, write: Write) -> StreamJsonOutput | JsonOutput:
    if output_format != "stream-json":
        return JsonOutput(session, write)
    if session.config.options.include_hook_events:
        session.watch_hooks()
    return StreamJsonOutput(session, write)


class StreamJsonOutput:
    """All frames, as they come."""

    def __init__(self, session: AgentSession, write: Write) -> None:
        self._renderer, self._write = Renderer(session), write
        self.failed = False

    async def show(self, update: AnyUpdate) -> None:
        for frame in self._renderer.render(update):
            self.failed = bool(frame.get("is_error"))
            await self._take(frame)

    async def finish(self) -> None:
        pass

    async def _take(self, frame: Object) -> None:
        await self._write(encode_line(frame))


class JsonOutput(StreamJsonOutput):
    """The result alone, and one only. Where subagents in the background report, several runs come of one prompt: the
    result is the last one's, and its figures are those of all."""

    def __init__(self, session: AgentSession, write: Write) -> None:
        super().__init__(session, write)
        self._session, self._now = session, session.world.session.deps.now
        self._began = self._now()
        self._results: list[Object] = []  # that are not told yet

    async def finish(self) -> None:
        """The last one was held back for another, and none came."""
        if self._results:
            results, self._results = self._results, []
            await self._write(encode_line(combine_run_results(results, self._now() - self._began)))

    async def _take(self, frame: Object) -> None:
        if frame["type"] == "result":
            self._results.append(frame)
            if self.failed or not self._session.has_more:
                await self.finish()


def combine_run_results(results: list[Object], took: int) -> Object:
    """What several runs of one process came to. Cost, rows by model and time with the API add up by themselves."""
    last = results[-1]
    if len(results) == 1:
        return last
    return last | {
        "duration_ms": took,
        "num_turns": sum([one["num_turns"] for one in results]),
        "usage": add_usage([one["usage"] for one in results]),
        "permission_denials": [denial for one in results for denial in one["permission_denials"]],
        **({"estimated": True} if any("estimated" in one for one in results) else {}),
    }


def add_usage(parts: list[Object]) -> Object:
    """Figures by name, and such figures within them; whatever else is said of one is said of the sum."""
    sums: Object = {}
    for part in parts:
        for name, value in part.items():
            if isinstance(value, dict):
                sums[name] = add_usage([sums.get(name, {}), value])
            else:
                sums[name] = value if isinstance(value, bool) else sums.get(name, 0) + value
    return sums
