"""The tools `Agent` and `Skill`.

`Agent` runs a subagent on a part of the work, in a conversation of its own (N-17); only its final report comes back.
This module holds what the model sees of it. `engine/subagents.py` knows the agent types and starts them.

`Skill` returns the text of a skill when the model asks for it (N-22). The agent session knows where skills are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from mainspring.core.errors import ToolError
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer

ABOUT = """\
Have an agent do a part of the work in a conversation of its own; you get its report. For long searches and side work; \
look up a name or file that you know yourself. It sees nothing of this conversation: say all it needs, and what to \
report. Several at once: several calls in one reply. The user does not see its report; check what it claims. Kinds:
"""
# The built-in agent types, as in `context/agent_types.py`. They are in the catalog, so that a start need not search for
# custom types where there are none.
KINDS = """\
- general-purpose: work of many steps, with all tools.
- Explore: answers questions about code, and changes nothing. Say how thorough it shall be."""


class AgentInput(Input, frozen=True):
    description: Annotated[str, "The task in three to five words."]
    prompt: Annotated[str, "The whole task."]
    subagent_type: Annotated[str, "The kind."] = "general-purpose"
    model: Annotated[str, "If not the usual one."] = ""
    run_in_background: Annotated[bool, "Return at once; its report comes later."] = False


Send = Callable[[AgentInput, ToolContext], Awaitable[ToolAnswer]]  # raises `ToolError` with a message for the model


async def refuse_subagent(given: AgentInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # as all of them
    raise ToolError("Agents are not available here.")


def summarize_agent_input(given: AgentInput) -> str:
    return f"Agent ({given.subagent_type}): {given.description}"


def agent_tool(kinds: str, send: Callable[[], Send]) -> Tool:
    """`kinds` lists the agent types with their descriptions. Starting an agent needs no permission: each of its own
    calls does."""

    async def run(given: AgentInput, calling: ToolContext) -> ToolAnswer:
        if not given.prompt.strip():
            raise ToolError("'prompt' is empty: describe the agent's task.")
        return await send()(given, calling)

    return Tool(
        name="Agent",
        about=ABOUT + kinds,
        input=AgentInput,
        run=run,
        read_only=True,
        repeatable=False,
        summary=summarize_agent_input,
    )


LoadSkill = Callable[[str, str], str]  # name and arguments to text, or a `ToolError`


class SkillInput(Input, frozen=True):
    skill: Annotated[str, "Its name, as listed."]
    args: Annotated[str, "What it is to be applied to, if anything."] = ""


def summarize_skill_input(given: SkillInput) -> str:
    return f"Skill {given.skill}"


def skill_tool(load: LoadSkill) -> Tool:
    async def run(given: SkillInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # every tool gets it
        return make_answer(load(given.skill, given.args), {"commandName": given.skill, "success": True})

    return Tool(
        name="Skill",
        about="Load a skill: instructions for a kind of task, written by the user. Do it before you begin with a task "
        "that fits the description of one; then follow what it says.",
        input=SkillInput,
        run=run,
        read_only=True,
        summary=summarize_skill_input,
    )
