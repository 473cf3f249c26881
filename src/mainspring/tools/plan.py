"""`EnterPlanMode` and `ExitPlanMode`: plan first, let the user approve the plan, then make changes.

`permissions/` decides what plan mode forbids. This module only enters the mode and, with the user's approval, returns
to the previous one. The tools exist only in sessions where the user can be asked.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from msgspec import Meta

from mainspring.core.errors import ToolError
from mainspring.core.updates import Rendering
from mainspring.tools.base import Input, Tool, ToolAnswer, ToolContext, make_answer

PLAN, DEFAULT = "plan", "default"
LONGEST = 50_000  # characters of a plan: longer than a user would read
YES = frozenset({"y", "yes", "ok", "allow", "approve", "approved", "go ahead"})
NO = frozenset({"", "n", "no", "deny"})  # denials without feedback
HOW_TO_ANSWER = "? 'yes', or say what should be different."
NOT_APPROVED = "The user did not approve the plan and stopped the run. The mode is still 'plan'."

Mode = Callable[[], str]
Change = Callable[[str], Awaitable[None]]


class EnterPlanModeInput(Input, frozen=True):
    pass


class ExitPlanModeInput(Input, frozen=True):
    plan: Annotated[str, Meta(min_length=1, max_length=LONGEST), "The whole plan, in Markdown: the user reads this."]


class PlanMode:
    """One per session: it remembers the previous mode."""

    def __init__(self, mode: Mode, change: Change) -> None:
        self._mode, self._change = mode, change
        self._before = DEFAULT  # the previous mode is unknown if the session began in plan mode

    async def enter(self, given: EnterPlanModeInput, calling: ToolContext) -> ToolAnswer:  # noqa: ARG002  # every tool gets it
        now = self._mode()
        if now == PLAN:
            raise ToolError("The mode is already 'plan': explore, then call ExitPlanMode with the plan.")
        await self._change(PLAN)
        self._before = now
        return make_answer(ENTERED, {"mode": PLAN}, Rendering("Plan mode"))

    async def leave(self, given: ExitPlanModeInput, calling: ToolContext) -> ToolAnswer:
        if self._mode() != PLAN:
            raise ToolError("The mode is not 'plan', so there is no plan to approve: go on with the work.")
        if not given.plan.strip():
            raise ToolError("The plan is empty. The user was not asked: write the plan and call ExitPlanMode again.")
        back = self._before
        said = (await calling.ask(format_plan_question(given.plan, back))).strip()
        if not is_approved(said):
            facts = {"plan": given.plan, "approved": False, "said": said}
            return make_answer(format_plan_refusal(said), facts, Rendering("The plan was not approved", said))
        if self._mode() == PLAN:  # otherwise the user has chosen another mode meanwhile, which stays
            await self._change(back)
        self._before = DEFAULT  # only once: the next time sets it again
        facts = {"plan": given.plan, "approved": True, "mode": self._mode()}
        return make_answer(
            f"The user approved the plan. The mode is now '{self._mode()}': carry it out.", facts, APPROVED
        )


def format_plan_question(plan: str, back: str) -> str:
    """With the mode after an approval: it may allow much more."""
    return f"{plan.strip()}\n\nCarry out this plan, in mode '{back}'{HOW_TO_ANSWER}"


def asks_for_approval(text: str) -> bool:
    return text.endswith(HOW_TO_ANSWER)


def is_approved(said: str) -> bool:
    return said.strip().rstrip(".!").lower() in YES


def format_plan_refusal(said: str) -> str:
    words = "" if said.lower() in NO else f"\nThey said: {said}"
    return f"The user did not approve the plan: stay in mode 'plan', revise it, then call ExitPlanMode again.{words}"


ENTERED = (
    "The mode is now 'plan': nothing may be changed until the user approves a plan. Explore with tools that only read, "
    "ask what you must know, then call ExitPlanMode with the plan."
)
APPROVED = Rendering("The plan was approved")


def plan_tools(mode: Mode, change: Change) -> tuple[Tool, ...]:
    """`mode` returns the current permission mode, `change` sets another."""
    plan = PlanMode(mode, change)
    return (
        Tool(
            name="EnterPlanMode",
            about=(
                "Begin with a plan: until the user approves one, nothing can be changed. For work with several ways to "
                "do it, or with many files; not for small or clear tasks."
            ),
            input=EnterPlanModeInput,
            run=plan.enter,
            repeatable=True,
            summary=lambda _: "Enter plan mode",
        ),
        Tool(
            name="ExitPlanMode",
            about=(
                "In plan mode only: show the finished plan to the user and ask for approval. Not for answers that need "
                "no changes to files."
            ),
            input=ExitPlanModeInput,
            run=plan.leave,
            repeatable=True,  # the user is asked again
            summary=lambda _: "Show the plan",
        ),
    )
