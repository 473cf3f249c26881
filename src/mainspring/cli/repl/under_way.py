"""The calls and agents that run now, and the questions that they wait for."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from rich.text import Text

from mainspring.cli.repl.calls import Agent, Running, of_agent
from mainspring.cli.repl.page import clipped
from mainspring.core.updates import (
    AgentStarted,
    AgentUpdate,
    Answered,
    Asked,
    CallDone,
    CallProgress,
    CallStarted,
    Update,
)

Seen = CallStarted | CallProgress | Asked | Answered | AgentStarted | AgentUpdate


class UnderWay:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._running: dict[str, Running] = {}
        self._questions: dict[str, str] = {}  # and the calls that wait for them
        self._agents: dict[str, Agent] = {}

    def see(self, update: Seen) -> None:
        match update:
            case CallStarted():
                self._running[update.call.id] = Running(update.call, update.line, self._now())
            case CallProgress():
                if running := self._running.get(update.call_id):
                    running.says(update.text)
            case Asked():
                self._questions[update.id] = update.call_id
            case Answered():
                self._questions.pop(update.id, None)
            case AgentStarted():
                self._agents[update.agent_id] = agent = Agent(update, self._now())
                if running := self._running.get(update.call_id):
                    running.agent = agent
            case AgentUpdate():
                if found := self._agents.get(update.agent_id):
                    of(found, update.update)
            case _:
                assert_never(update)

    def done(self, call_id: str) -> Running | None:
        self._questions = {asked: call for asked, call in self._questions.items() if call != call_id}
        return self._running.pop(call_id, None)

    def agent_done(self, agent_id: str) -> Agent | None:
        return self._agents.pop(agent_id, None)

    def end(self) -> None:
        """Of the turn. Agents in the background go on."""
        self._running.clear()
        self._questions.clear()
        self._agents = {name: agent for name, agent in self._agents.items() if agent.background}

    # --- what is drawn ---

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
        drawn += [of_agent(agent, now, width) for agent in agents[: height - len(drawn)]]
        if sum([len(lines) for lines in drawn]) > height:
            drawn = [lines[:1] for lines in drawn]
        lines = [line for lines in drawn for line in lines]
        more = len(self._running) + len(agents) - len(drawn)
        if more > 0:
            lines[-1] = clipped(Text(f"… and {more + 1} more", "detail"), width)
        return lines


def of(agent: Agent, update: Update) -> None:
    """Whose calls these are, and what it calls; what it reports is the outcome of its own call."""
    match update:
        case CallStarted():
            agent.calls_one(update.call, update.line)
        case CallDone() if update.denied:
            agent.was_denied(update.result.text)
        case _:
            pass
