"""`Skill`: the text of a skill, when the model asks for it (N-22). Whoever makes the session knows where skills are."""

from collections.abc import Callable
from typing import Annotated

from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer

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
