"""Rules about thinking: when it may be asked for, and which blocks of it may come back (K-01 to K-04)."""

from __future__ import annotations

from mainspring.simulator.manners import strip_model_date_suffix
from mainspring.simulator.parameters import Broken
from mainspring.simulator.request import CheckedRequest, RequestTurn

THOUGHTS = ("thinking", "redacted_thinking")
LEAST_BUDGET = 1_024
SIGNED = "sig:"  # our simulators sign with `sig:<model>:...`; any other signature is opaque

USE_ADAPTIVE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'


def check_thinking_mode(request: CheckedRequest) -> Broken:
    asked, manner = request.thinking, request.manner
    if asked is None or manner is None or asked in manner.thinking:
        return
    if asked == "adaptive":
        yield "", "adaptive thinking is not supported on this model"
    else:
        yield "", f'"thinking.type.{asked}" is not supported for this model. {USE_ADAPTIVE}'


def mode_effort(request: CheckedRequest) -> Broken:
    """Much effort without thinking is a contradiction on the models that say so."""
    asked, effort = request.thinking, request.effort
    if asked in ("disabled", "between_tools") and effort and request.manner and effort not in request.manner.quiet:
        state = "disabled" if asked == "disabled" else "set to between_tools"
        said = f"output_config.effort '{effort}' is not supported when thinking is {state} on this model."
        yield "", f"{said} Use effort 'high' or below, or enable thinking."


def check_thinking_budget(request: CheckedRequest) -> Broken:
    if request.thinking != "enabled":
        return
    asked, most = request.body["thinking"]["budget_tokens"], request.body.get("max_tokens")
    if asked < LEAST_BUDGET:
        yield "thinking.enabled.budget_tokens", f"Input should be greater than or equal to {LEAST_BUDGET}"
    if most is not None and asked >= most:
        yield "", "`max_tokens` must be greater than `thinking.budget_tokens`."


def check_signatures(request: CheckedRequest) -> Broken:
    for placed in request.kind("thinking"):
        if not placed.block["signature"]:
            yield placed.path, "Invalid `signature` in `thinking` block"
    for placed in request.kind("redacted_thinking"):
        if not placed.block["data"]:
            yield placed.path, "Invalid `data` in `redacted_thinking` block"


def bound_to_model(request: CheckedRequest) -> Broken:
    for placed in request.kind("thinking"):
        signed: str = placed.block["signature"]
        if signed.startswith(SIGNED) and strip_model_date_suffix(signed.split(":")[1]) != strip_model_date_suffix(
            request.model
        ):
            yield placed.path, f"Invalid `signature` in `thinking` block: it was written by '{signed.split(':')[1]}'"


def asked_for(request: CheckedRequest) -> Broken:
    """K-01. Where `thinking` is left out, most newer models think all the same."""
    if request.thinking == "disabled":
        on = False
    else:
        on = request.thinking is not None or request.manner is None or request.manner.thinks_unasked
    if on:
        return
    for placed in request.kind(*THOUGHTS):
        said = f"When thinking is disabled, an `assistant` message cannot contain `{placed.kind}`."
        yield placed.path, f"{said} To use thinking blocks, enable `thinking` in your request."


def never_last(request: CheckedRequest) -> Broken:
    """K-02."""
    if not any(kind in request.by_kind for kind in THOUGHTS):
        return
    for turn in request.turns:
        if turn.blocks and turn.blocks[-1].kind in THOUGHTS:
            said = f"The final block in an assistant message cannot be `{turn.blocks[-1].kind}`."
            yield turn.path, said


def check_thinking_leads(request: CheckedRequest) -> Broken:
    """With a budget, thinking begins the message that has any. Adaptive thinking comes between calls, too."""
    if request.thinking != "enabled":
        return
    for turn in request.turns:
        kinds = [placed.kind for placed in turn.blocks]
        if any(kind in THOUGHTS for kind in kinds) and kinds[0] not in THOUGHTS:
            said = "If an assistant message contains any thinking blocks, the first block must be"
            yield turn.blocks[0].path, f"{said} `thinking` or `redacted_thinking`. Found `{kinds[0]}`."


def opens_loop(request: CheckedRequest) -> Broken:
    """With a budget, the turn that waits for an answer to its calls began with thinking (K-03).

    A turn is all the replies since a user last spoke; without interleaved thinking only the first of them thinks.
    """
    if request.thinking != "enabled":
        return
    loop = waiting_loop(request.turns)
    replies = [turn for turn in loop if turn.role == "assistant"]
    if not any(placed.kind == "tool_use" for turn in replies for placed in turn.blocks):
        return
    first = replies[0].blocks[0]
    if first.kind not in THOUGHTS:
        said = (
            f"Expected `thinking` or `redacted_thinking`, but found `{first.kind}`. When `thinking` is enabled, a final"
        )
        why = "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and"
        yield f"{first.path}.type", f"{said} {why} `tool_result` blocks)."


def waiting_loop(turns: list[RequestTurn]) -> list[RequestTurn]:
    """The turns after the last one in which the user said something without answering a call."""
    start = 0
    for number, turn in enumerate(turns):
        if turn.role != "assistant" and all(placed.kind != "tool_result" for placed in turn.blocks):
            start = number + 1
    return turns[start:]
