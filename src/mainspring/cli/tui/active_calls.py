"""The tool calls and subagents that are running, and the questions they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from rich.text import Text

from mainspring.cli.tui.call_view import ActiveCall, CallTitle, SubagentLine, render_subagent_line
from mainspring.cli.tui.layout import clip_text
from mainspring.core.updates import (
    AgentStarted,
    AgentUpdate,
    CallDone,
    CallProgress,
    CallStarted,
    QuestionAnswered,
    QuestionAsked,
)

MOST_GONE = 50  # subagents whose reports are pending: as many as can run in the background

Seen = CallStarted | CallProgress | QuestionAsked | QuestionAnswered | AgentStarted | AgentUpdate


class ActiveCalls:
    def __init__(self, now: Callable[[], float], root: str = "") -> None:
        self._now, self._root = now, root
        self._running: dict[str, ActiveCall] = {}
        self._questions: dict[str, str] = {}  # question id -> id of the call or subagent that waits for the answer
        self._agents: dict[str, SubagentLine] = {}
        self._gone: dict[str, CallTitle] = {}  # finished subagents, until their reports arrive

    def see(self, update: Seen) -> None:
        match update:
            case CallStarted():
                self._running[update.call.id] = ActiveCall(update.call, update.line, self._now(), self._root)
            case CallProgress():
                if running := self._running.get(update.call_id):
                    running.says(update.text)
            case QuestionAsked():
                self._questions[update.id] = update.call_id
            case QuestionAnswered():
                self._questions.pop(update.id, None)
            case AgentStarted():
                self._agents[update.agent_id] = agent = SubagentLine(update, self._now())
                if running := self._running.get(update.call_id):
                    running.agent = agent
            case AgentUpdate():
                self._of_agent(update)
            case _:
                assert_never(update)

    def _of_agent(self, about: AgentUpdate) -> None:
        """Track the calls and questions of a subagent. Its report is the result of its own call."""
        agent = self._agents.get(about.agent_id)
        match about.update:
            case CallStarted() as started if agent:
                agent.calls_one(started.call, started.line, self._root)
            case CallDone() as done if agent and done.denied:
                agent.was_denied(done.result.text)
            case QuestionAsked() as asked:
                self._questions[asked.id] = about.agent_id
            case QuestionAnswered() as answered:
                self._questions.pop(answered.id, None)
            case _:
                pass

    def done(self, call_id: str) -> ActiveCall | None:
        self._ask_no_more(call_id)
        return self._running.pop(call_id, None)

    def agent_done(self, agent_id: str) -> SubagentLine | None:
        self._ask_no_more(agent_id)
        agent = self._agents.pop(agent_id, None)
        if agent is not None and agent.background:
            self._gone[agent_id] = agent.title
            while len(self._gone) > MOST_GONE:
                del self._gone[next(iter(self._gone))]
        return agent

    def agent_moved(self, agent_id: str) -> None:
        if (agent := self._agents.get(agent_id)) is not None:
            agent.background = True

    def take_reported(self, agent_id: str) -> CallTitle:
        """Return the title of the subagent that reported, and drop it: one that ended between two runs sent no
        `AgentDone`."""
        agent, title = self._agents.pop(agent_id, None), self._gone.pop(agent_id, None)
        return agent.title if agent is not None else title or CallTitle("Agent", "")

    def end(self) -> list[ActiveCall]:
        """End the turn and return the calls that did not finish. Background subagents keep running."""
        left = list(self._running.values())
        self._running.clear()
        self._questions.clear()
        self._agents = {name: agent for name, agent in self._agents.items() if agent.background}
        return left

    def is_out_of_sight(self) -> None:
        """The run is over: calls that subagents make before the next run are not shown."""
        for agent in self._agents.values():
            agent.is_out_of_sight()

    def _ask_no_more(self, owner: str) -> None:
        self._questions = {asked: whose for asked, whose in self._questions.items() if whose != owner}

    # --- drawing ---

    @property
    def asks(self) -> bool:
        return bool(self._questions)

    @property
    def words(self) -> str:
        """Text for the progress line; empty if nothing is running."""
        if self._questions:
            return "Waiting for your answer"
        names = [running.title.name for running in self._running.values()]
        return f"Running {names[0]}" if len(names) == 1 else f"Running {len(names)} calls" if names else ""

    def draw(self, width: int, height: int) -> list[Text]:
        """If the calls do not fit, draw their titles only, and count the rest."""
        if height < 1:
            return []
        now = self._now()
        agents = [agent for agent in self._agents.values() if agent.background]
        drawn = [running.draw(now, width) for running in list(self._running.values())[:height]]
        drawn += [render_subagent_line(agent, now, width) for agent in agents[: height - len(drawn)]]
        if sum([len(lines) for lines in drawn]) > height:
            drawn = [lines[:1] for lines in drawn]
        lines = [line for lines in drawn for line in lines]
        more = len(self._running) + len(agents) - len(drawn)
        if more > 0:
            lines[-1] = clip_text(Text(f"… and {more + 1} more", "detail"), width)
        return lines
