"""Permissions and other questions of a call, put to the program that drives us (stream-json 5.1).

A tool that asks the user something of its own (`AskUserQuestion`, `ExitPlanMode`) is asked about in the same way: who
allows it answers it, and the answers come back in its input.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from mainspring.core.errors import ToolError
from mainspring.core.messages import ToolCall
from mainspring.driven.changes import Changes
from mainspring.driven.incoming import table
from mainspring.driven.outgoing import States
from mainspring.driven.questions import SHUT, CallbackError, Questions
from mainspring.engine.deps import Question
from mainspring.hooks.facts import as_updates
from mainspring.tools.approval import Approval, as_text

# What of a question is told, and under which name.
TOLD = {
    "description": "description",
    "decision_reason": "decision_reason",
    "agent_id": "agent_id",
    "blocked_path": "blocked_path",
}


class Consent:
    def __init__(self, questions: Questions, states: States, changes: Changes) -> None:
        self._questions, self._states, self._changes = questions, states, changes
        self.shown: Callable[[], Awaitable[None]] = at_once  # all that came before is on the pipe
        self.interrupt: Callable[[], object] = _nothing  # the run under way, after a no that ends it
        self._calls: dict[str, ToolCall] = {}  # under way
        self._answers: dict[str, dict[str, str]] = {}  # of a call with several questions

    def begins(self, call: ToolCall) -> None:
        self._calls[call.id] = call

    def ends(self, call_id: str) -> None:
        self._calls.pop(call_id, None)
        self._answers.pop(call_id, None)

    async def answer(self, question: Question) -> str:
        about = table(question.about)
        if "tool_name" in about:
            return as_text(await self._permission(about))
        await self.shown()  # from then on its call is known
        call = self._calls.get(question.call_id)
        if call is None:
            raise ToolError("Nobody can be asked: the call is not known any more.")
        if call.name == "AskUserQuestion":
            return await self._answered(call, question.text)
        said = approval_of(await self._asked({"tool_name": call.name, "input": call.input, "tool_use_id": call.id}))
        await self._heed(said)
        return "yes" if said.behavior == "allow" else said.message or "no"

    async def _permission(self, about: dict[str, Any]) -> Approval:
        request = {key: about[key] for key in ("tool_name", "input", "tool_use_id")}
        request |= {"display_name": about["tool_name"]}
        request |= {name: about[key] for key, name in TOLD.items() if about.get(key)}
        request["permission_suggestions"] = as_updates(about)
        said = approval_of(await self._asked(request))
        await self._heed(said)
        if said.interrupt:
            self.interrupt()
        return Approval(said.behavior, said.updated_input, said.message)

    async def _heed(self, said: Answered) -> None:
        if said.behavior == "allow":
            await self._changes.make(said.permissions)

    async def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """What is no answer is a no: nobody has said yes."""
        await self.shown()
        try:
            await self._states.asks()
            return await self._questions.ask("can_use_tool", **request)
        except CallbackError as error:
            return {"behavior": "deny", "message": f"The permission callback failed: {error}"}
        except ConnectionError:
            return {"behavior": "deny", "message": f"Nobody can be asked: {SHUT}."}
        finally:
            await self._states.answered()

    async def _answered(self, call: ToolCall, text: str) -> str:
        """The whole call is put once; its questions are then answered one by one, as the tool asks them."""
        if call.id not in self._answers:
            said = approval_of(await self._asked({"tool_name": call.name, "input": call.input, "tool_use_id": call.id}))
            await self._heed(said)
            if said.behavior != "allow":
                raise ToolError(said.message or "The user does not want to answer.")
            given = table(table(said.updated_input).get("answers"))
            self._answers[call.id] = {str(asked): str(answer) for asked, answer in given.items()}
        answers = self._answers[call.id]
        return answers.get(max([asked for asked in answers if asked in text], key=len, default=""), "")


class Answered:
    """An answer of the program, as far as it is one."""

    def __init__(self, said: dict[str, Any]) -> None:
        allowed = said.get("behavior") == "allow"
        odd = said.get("behavior") not in ("allow", "deny")
        message = said.get("message")
        self.behavior: Literal["allow", "deny"] = "allow" if allowed else "deny"
        self.message = message if isinstance(message, str) else ""
        if odd:
            self.message = f"The permission callback answered neither 'allow' nor 'deny', but '{said.get('behavior')}'."
        self.updated_input = table(said.get("updatedInput")) if isinstance(said.get("updatedInput"), dict) else None
        self.interrupt = not allowed and said.get("interrupt") is True
        self.permissions = said.get("updatedPermissions")


def approval_of(said: dict[str, Any]) -> Answered:
    return Answered(said)


async def at_once() -> None:
    pass


def _nothing() -> None:
    pass
