"""The exceptions of the library, with the partial answer.

MainspringError
  UsageError              a wrong option, a missing key: nothing was sent
  AgentError              a run ended without an answer; has the reason, the cause and the partial answer
    OutputError           the model gave no valid output, in all its attempts
    BudgetExceeded        the money limit
    MaxTurnsExceeded      the turn limit
    ModelError            the model or its service failed
    Interrupted           the run was interrupted
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mainspring.core.errors import MainspringError
from mainspring.core.reasons import Cause, Subtype, Terminal

if TYPE_CHECKING:
    from mainspring.library.answer import Answer


class AgentError(MainspringError):
    """A run ended without an answer.

    Example:
        try:
            answer = await agent.run("What is 2 + 3?")
        except AgentError as error:
            print(error, error.cause, error.answer.text if error.answer else "")
    """

    def __init__(
        self,
        message: str,
        *,
        reason: Terminal | None = None,
        cause: Cause | None = None,
        answer: Answer[Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason  # the terminal reason; None: the run did not begin, or the engine failed
        self.cause = cause
        self.answer = answer  # the partial answer: text so far, messages, usage and cost; its output is None


class OutputError(AgentError):
    """The model gave no valid output, in all its attempts.

    Example:
        try:
            answer = await ask("Weather in Bonn?", output=Weather)
        except OutputError as error:
            print(error)
    """


class BudgetExceeded(AgentError):  # noqa: N818  # as programs call it
    """The next call to the model could cost more than is left of `max_budget_usd`.

    Example:
        try:
            answer = await ask("What is 2 + 3?", max_budget_usd=0.000001)
        except BudgetExceeded as error:
            print(error)
    """


class MaxTurnsExceeded(AgentError):  # noqa: N818
    """The run used all its turns.

    Example:
        try:
            answer = await ask("What is 2 + 3?", tools=[add], max_turns=1)
        except MaxTurnsExceeded as error:
            print(error)
    """


class ModelError(AgentError):
    """The model or its service failed, and no recovery was left.

    Example:
        try:
            answer = await ask("What is 2 + 3?")
        except ModelError as error:
            print(error, error.cause)
    """


class Interrupted(AgentError):  # noqa: N818
    """The run was interrupted.

    Example:
        async with agent.session() as chat:
            try:
                await chat.run("Tell me a story.")
            except Interrupted as error:
                print(error)
    """


KINDS: dict[Cause, type[AgentError]] = {
    Cause.BUDGET_USD: BudgetExceeded,
    Cause.LIMIT: MaxTurnsExceeded,
    Cause.STRUCTURED_OUTPUT: OutputError,
    Cause.HARD: Interrupted,
    Cause.SUBMIT: Interrupted,
    Cause.TIMEOUT: Interrupted,
    Cause.PARENT: Interrupted,
}


def make_error(answer: Answer[Any], *, needs_output: bool) -> AgentError | None:
    """The error for this end of a run; None: it is an answer."""
    result = answer.result
    missing = needs_output and result.output is None
    if result.subtype is Subtype.SUCCESS and not missing:
        return None
    kind = OutputError if result.subtype is Subtype.SUCCESS else KINDS.get(result.cause, ModelError)
    return kind(describe_end(answer), reason=result.terminal, cause=result.cause, answer=answer)


def describe_end(answer: Answer[Any]) -> str:
    result = answer.result
    if result.detail:
        return result.detail
    match result.cause:
        case Cause.LIMIT:
            turns = f"{result.turns} turn{'s' if result.turns != 1 else ''}"
            return f"no answer after {turns}: raise 'max_turns', or ask for less"
        case Cause.STRUCTURED_OUTPUT:
            return "the model gave no valid output in 5 attempts: simplify 'output', or use another model"
        case Cause.EMPTY_ANSWER:
            return "the model's answer is empty"
        case Cause.NO_PROGRESS:
            return "the model repeated the same call without progress"
        case Cause.HARD | Cause.SUBMIT | Cause.TIMEOUT | Cause.PARENT:
            return "the run was interrupted"
        case _:
            return f"the run ended without an answer: {result.cause}"
