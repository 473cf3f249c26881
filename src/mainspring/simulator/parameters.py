"""Rules about the parameters beside the conversation: model, limits, sampling, effort, budgets, betas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mainspring.simulator.manners import listed_model
from mainspring.simulator.request import CheckedRequest

Broken = Iterator[tuple[str, str]]  # where, and the words

TASK_BUDGETS = "task-budgets-2026-03-13"
THINKING_BINDING = "thinking-binding-controls-2026-08-01"
CONTEXT_MANAGEMENT = "context-management-2025-06-27"
LEAST_TASK_BUDGET = 20_000  # tokens, as documented


def model_named(request: CheckedRequest) -> Broken:
    if not request.model.strip():
        yield "model", "String should have at least 1 character"


def max_tokens(request: CheckedRequest) -> Broken:
    asked = request.body.get("max_tokens")
    if asked is None:
        return
    listed = listed_model(request.model)
    if asked < 1:
        yield "max_tokens", "Input should be greater than or equal to 1"
    elif listed is not None and asked > listed.max_output:
        most = f"the maximum allowed number of output tokens for {request.model}"
        yield "max_tokens", f"{asked} > {listed.max_output}, which is {most}"


def sampling_range(request: CheckedRequest) -> Broken:
    for name, least, most in (("temperature", 0, 1), ("top_p", 0, 1), ("top_k", 0, 1_000_000)):
        value = request.body.get(name)
        if value is not None and not least <= value <= most:
            yield name, f"Input should be between {least} and {most}"


def sampling_model(request: CheckedRequest) -> Broken:
    if request.manner is None or request.manner.sampling:
        return
    for name in ("temperature", "top_p", "top_k"):
        value = request.body.get(name)
        if value is not None and (name == "top_k" or value != 1):
            yield name, f"`{name}` may only be set to its default for this model"


def sampling_thinking(request: CheckedRequest) -> Broken:
    """With a budget for thinking: temperature 1, top_p from 0.95, no top_k."""
    if request.thinking != "enabled":
        return
    if request.body.get("temperature", 1) != 1:
        yield "temperature", "`temperature` may only be set to 1 when thinking is enabled."
    if request.body.get("top_p", 1) < 0.95:
        yield "top_p", "`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled."
    if "top_k" in request.body:
        yield "top_k", "`top_k` must be unset when thinking is enabled."


def stop_sequences(request: CheckedRequest) -> Broken:
    for number, text in enumerate(request.body.get("stop_sequences", ())):
        if not text.strip():
            yield f"stop_sequences.{number}", "each stop sequence must contain non-whitespace"


def effort_model(request: CheckedRequest) -> Broken:
    if request.effort is None or request.manner is None or request.effort in request.manner.efforts:
        return
    if request.manner.efforts:
        yield "output_config.effort", f"effort '{request.effort}' is not supported by this model."
    else:
        yield "output_config.effort", "This model does not support the effort parameter."


def task_budget(request: CheckedRequest) -> Broken:
    budget = request.output.get("task_budget")
    if not budget:
        return
    total, remaining = budget["total"], budget.get("remaining")
    if total < LEAST_TASK_BUDGET:
        yield "output_config.task_budget.total", f"Input should be greater than or equal to {LEAST_TASK_BUDGET}"
    if remaining is not None and not 0 <= remaining <= total:
        yield "output_config.task_budget.remaining", "Input should be between 0 and `total`"


def task_budget_model(request: CheckedRequest) -> Broken:
    listed = listed_model(request.model)
    if request.output.get("task_budget") and listed is not None and not listed.adaptive_thinking:
        yield "output_config.task_budget", "task budgets are not supported on this model."


def context_edits(request: CheckedRequest) -> Broken:
    managed: dict[str, Any] = request.body.get("context_management") or {}
    edits: list[dict[str, Any]] = managed.get("edits", [])
    for number, edit in enumerate(edits):
        for name, least in (("trigger", 1), ("keep", 0), ("clear_at_least", 0)):
            if isinstance(edit.get(name), dict) and edit[name]["value"] < least:
                path = f"context_management.edits.{number}.{edit['type']}.{name}.value"
                yield path, f"Input should be greater than or equal to {least}"


def betas_asked(request: CheckedRequest) -> Broken:
    """What is in beta is an unknown field until its header is there."""
    if request.output.get("task_budget") and TASK_BUDGETS not in request.betas:
        yield "output_config.task_budget", f"Extra inputs are not permitted (it needs the beta '{TASK_BUDGETS}')"
    config = request.body.get("thinking")
    if config and "block_binding" in config and THINKING_BINDING not in request.betas:
        yield "thinking.block_binding", f"Extra inputs are not permitted (it needs the beta '{THINKING_BINDING}')"
    if request.body.get("context_management") and CONTEXT_MANAGEMENT not in request.betas:
        yield "context_management", f"Extra inputs are not permitted (it needs the beta '{CONTEXT_MANAGEMENT}')"
