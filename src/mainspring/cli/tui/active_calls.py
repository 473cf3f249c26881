"""The calls and agents that run now, and the questions that they wait for."""

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

MOST_GONE = 50  # agents whose reports are awaited: as many as may be away

Seen = CallStarted | CallProgress | QuestionAsked | QuestionAnswered | AgentStarted | AgentUpdate


class ActiveCalls:
    def __init__(self, now: Callable[[], float], root: str = "") -> None:
        self._now, self._root = now, root
        self._running: dict[str, ActiveCall] = {}
        self._questions: dict[str, str] = {}  # and the calls, or the agents, that wait for them
        self._agents: dict[str, SubagentLine] = {}
        self._gone: dict[str, CallTitle] = {}  # agents that are done, until their reports are here

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
        """What it calls and asks; what it reports is the outcome of its own call."""
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

    def take_reported(self, agent_id: str) -> CallTitle:
        """Who that was. It is done: of one that ended between two runs nobody has heard."""
        agent, title = self._agents.pop(agent_id, None), self._gone.pop(agent_id, None)
        return agent.title if agent is not None else title or CallTitle("Agent", "")

    def end(self) -> list[ActiveCall]:
        """Of the turn. Agents in the background go on. What it returns has not come to its end."""
        left = list(self._running.values())
        self._running.clear()
        self._questions.clear()
        self._agents = {name: agent for name, agent in self._agents.items() if agent.background}
        return left

    def is_out_of_sight(self) -> None:
        """The run is over: what agents do until the next one, nobody hears."""
        for agent in self._agents.values():
            agent.is_out_of_sight()

    def _ask_no_more(self, owner: str) -> None:
        self._questions = {asked: whose for asked, whose in self._questions.items() if whose != owner}

    # --- what is drawn ---

    @property
    def asks(self) -> bool:
        return bool(self._questions)

    @property
    def words(self) -> str:
        """For the line that says what is done; empty: nothing runs."""
        if self._questions:
            return "Waiting for your answer"
        names = [running.title.name for running in self._running.values()]
        return f"Running {names[0]}" if len(names) == 1 else f"Running {len(names)} calls" if names else ""

    def draw(self, width: int, height: int) -> list[Text]:
        """If there is no room for all of it, their titles, and how many there are."""
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
