"""`Agent`: has another agent do a part of the work, in a conversation of its own (N-17).

Only what it reports at its end comes back. Who makes the session knows which kinds there are and how one is sent out
(`engine/subagents.py`); this is what the model sees of it.

`Skill`: the text of a skill, when the model asks for it (N-22). Whoever makes the session knows where skills are.
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
# Ours, as `context/agent_types.py` has them: in the catalog, so that a start need not look for others where there are
# none.
KINDS = """\
- general-purpose: work of many steps, with all tools.
- Explore: answers questions about code, and changes nothing. Say how thorough it shall be."""


class AgentInput(Input, frozen=True):
    description: Annotated[str, "The task in three to five words."]
    prompt: Annotated[str, "The whole task."]
    subagent_type: Annotated[str, "The kind."] = "general-purpose"
    model: Annotated[str, "If not the usual one."] = ""
    run_in_background: Annotated[bool, "Return at once; its report comes later."] = False


Send = Callable[[AgentInput, ToolContext], Awaitable[ToolAnswer]]  # raises `ToolError` for what the model should hear


async def refuse_subagent(given: AgentInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG001  # as all of them
    raise ToolError("No agents can be sent out here.")


def summarize_agent_input(given: AgentInput) -> str:
    return f"Agent ({given.subagent_type}): {given.description}"


def agent_tool(kinds: str, send: Callable[[], Send]) -> Tool:
    """`kinds` lists them with their descriptions. To send one out needs no permission: each of its own calls does."""

    async def run(given: AgentInput, calling: ToolContext) -> ToolAnswer:
        if not given.prompt.strip():
            raise ToolError("'prompt' is empty: say what the agent shall do.")
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


LoadSkill = Callable[[str, str], str]  # name and arguments: its text, or a `ToolError`


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
