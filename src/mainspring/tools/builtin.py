"""The built-in tools of one session.

`catalog.py` holds what the model sees of them, so that a start need not load them: each tool is loaded at its first
call, and the process support with the first tool that starts a program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mainspring import processes, secrets, tools
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Bundle
from mainspring.providers.base import ToolSpec
from mainspring.tools.base import Tool, ToolHandle, Workspace
from mainspring.tools.catalog import SPECS

if TYPE_CHECKING:
    from mainspring.processes.children import Around, AroundWaiting, Children
    from mainspring.tools.agent import Send
    from mainspring.tools.background import BackgroundCommand, BackgroundCommands
    from mainspring.tools.shell import WallsOf
    from mainspring.web.page import Ask
    from mainspring.web.search import CallService, Search

# Tools that need nothing of a session: their module, and their name in it.
PLACES = {
    "Read": ("read", "READ"),
    "Write": ("write", "WRITE"),
    "Edit": ("edit", "EDIT"),
    "NotebookEdit": ("notebook", "NOTEBOOK_EDIT"),
    "Glob": ("glob", "GLOB"),
    "Grep": ("grep", "GREP"),
    "Sleep": ("background", "SLEEP"),
    "AskUserQuestion": ("question", "ASK_USER_QUESTION"),
}
FOR_PEOPLE = frozenset({"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"})  # useless where the user cannot be asked
OnlyReads = Callable[[str], bool]  # whether a shell command is known to change nothing


def _never(_: str) -> bool:
    return False


async def _nobody(_: str) -> None:
    raise ToolError("The mode cannot be changed here.")


def _no_skills(name: str, _: str) -> str:
    raise ToolError(f"There is no skill '{name}': no skills are installed.")


class ToolLinks(Bundle):
    """What tools need of the session that they belong to."""

    mode: Callable[[], str] = lambda: "default"  # the current permission mode,
    change_mode: Callable[[str], Awaitable[None]] = _nobody  # and a function that sets another
    past: Callable[[], tuple[str, ...] | None] = lambda: None  # the command that searches this session's file
    agent_types: str = ""  # as the model sees them; empty: the built-in types alone,
    send_agent: Send | None = None  # and a function that starts one
    task_changed: Callable[[BackgroundCommand], object] = lambda _: None  # for background commands that start or end
    load_skill: Callable[[str, str], str] = _no_skills
    names_host: Callable[[str], bool] = _never  # whether a rule names a host, so that it may be a local address
    ask_small: Ask | None = None  # a small model that reads pages
    search_command: str = ""  # the user's web search command; else
    search_service: CallService | None = None  # the model's service searches,
    denied_domains: Callable[[], tuple[tuple[str, ...], ...]] = tuple  # without pages of these domains


NO_LINKS = ToolLinks()


class BuiltinTools:
    def __init__(  # noqa: PLR0913  # keywords, most of them
        self,
        place: Workspace,
        env: Mapping[str, str] | Callable[[], Mapping[str, str]],
        *,
        links: ToolLinks = NO_LINKS,
        adopt: bool = False,
        only_reads: OnlyReads = _never,
        around: Around | None = None,
        around_waiting: AroundWaiting | None = None,
        walls: WallsOf | None = None,
        notes: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple,
    ) -> None:
        """`env` is the whole environment of programs, or a function that makes it when the first one starts. `adopt`:
        this process is ours alone, so it may become the parent of orphaned children, and hide from them
        (`processes/own_process.py`). `around` is the sandbox, `around_waiting` the same for a shell that waits for its
        command, `walls` says what each command may reach, `notes` which of its notes are new."""
        self.place = place
        self._env = env
        self._adopt = adopt
        self._only_reads = only_reads
        self._around, self._around_waiting, self._walls, self._notes = around, around_waiting, walls, notes
        self._children: Children | None = None
        self._background: BackgroundCommands | None = None
        self._made: dict[str, Tool] = {}  # related tools are made together
        self._links = links

    def offers(self, names: Iterable[str]) -> list[ToolHandle]:
        """Return the tools in our order, whatever the order of the names: the same tools make the same request."""
        wanted = set(names)
        if unknown := wanted - SPECS.keys():
            raise UsageError(f"there is no tool '{min(unknown)}'; available: {', '.join(SPECS)}")
        return [ToolHandle(self._spec(name), self._loader(name), built_in=True) for name in SPECS if name in wanted]

    def _spec(self, name: str) -> ToolSpec:
        if name == "Agent" and self._links.agent_types:
            return self.tool(name).spec
        return ToolSpec(name, *SPECS[name])

    def _loader(self, name: str) -> Callable[[], Tool]:
        return lambda: self.tool(name)

    def tool(self, name: str) -> Tool:
        if name in PLACES:
            module, constant = PLACES[name]
            found: Tool = getattr(import_module(f"mainspring.tools.{module}"), constant)
            return found
        if name not in self._made:
            self._made |= {tool.name: tool for tool in self._together(name)}
        return self._made[name]

    def _together(self, name: str) -> tuple[Tool, ...]:
        if name.startswith("Task"):
            return tools.task_tools(tools.SessionTasks())
        if name.endswith("PlanMode"):
            return tools.plan_tools(self._links.mode, self._links.change_mode)
        if name == "Agent":
            return (self._agent(),)
        if name == "Recall":
            return (tools.recall_tool(self._links.past),)
        if name == "Skill":
            return (tools.skill_tool(self._links.load_skill),)
        if name.startswith("Web"):
            return (self._of_the_web(name),)
        return (self._of_shells(name),)

    def _agent(self) -> Tool:
        return tools.agent_tool(
            self._links.agent_types or tools.KINDS, lambda: self._links.send_agent or tools.refuse_subagent
        )

    def _of_shells(self, name: str) -> Tool:
        match name:
            case "BashOutput":
                return tools.output_tool(self.background, self.children)
            case "KillShell":
                return tools.kill_tool(self.background)
            case _:
                from mainspring.tools.shell import no_walls

                walls = self._walls or no_walls
                return tools.bash_tool(
                    self.children, self.background, self.env, read_only=self._reads, walls=walls, notes=self._notes
                )

    def _of_the_web(self, name: str) -> Tool:
        if name == "WebSearch":
            return tools.web_search_tool(self._search(), self._denies_result)
        from mainspring.web.fetch import WebFetcher
        from mainspring.web.page import PageReader, make_converter

        reader = PageReader(
            WebFetcher(known=secrets.list_secrets(), environ=self.place.environ), make_converter(self.children)
        )
        return tools.web_fetch_tool(reader, self._links.names_host, self._links.ask_small)

    def _search(self) -> Search | None:
        if self._links.search_command:
            from mainspring.web.search import search_by_command

            return search_by_command(self._links.search_command, self.children, lambda: self.env)
        if self._links.search_service is None:
            return None
        from mainspring.web.search import search_by_service

        return search_by_service(self._links.search_service, lambda: map(".".join, self._links.denied_domains()))

    def _denies_result(self, host: str) -> bool:
        from mainspring.permissions.hosts import domain_matches

        return any(domain_matches(pattern, host) for pattern in self._links.denied_domains())

    def _reads(self, given: Any) -> bool:
        return self._only_reads(given.command)

    # --- programs ---

    @property
    def env(self) -> Mapping[str, str]:
        if callable(self._env):
            self._env = self._env()
        return self._env

    @property
    def children(self) -> processes.Children:
        if self._children is None:
            self._children = processes.Children(
                adopt=self._adopt, hide=self._adopt, around=self._around, around_waiting=self._around_waiting
            )
        return self._children

    @property
    def works_in_background(self) -> bool:
        return self._background is not None and bool(self._background.running)

    @property
    def background(self) -> tools.BackgroundCommands:
        if self._background is None:
            self._background = tools.BackgroundCommands(self.children, changed=self._links.task_changed)
        return self._background

    @property
    def has_background(self) -> bool:
        """Whether a shell command was run, so that there may be background commands."""
        return self._background is not None

    async def stop(self, id: str) -> None:
        """End a background command, if it still runs."""
        if self._background is not None:
            for running in self._background.running:
                if running.id == id:
                    await self._background.stop(running)

    def kill(self) -> None:
        """End all programs now. Safe from any thread and from a signal handler."""
        if self._children is not None:
            self._children.kill()

    async def close(self) -> None:
        """End all programs, gracefully."""
        if self._background is not None:
            await self._background.close()
        if self._children is not None:
            await self._children.close()
