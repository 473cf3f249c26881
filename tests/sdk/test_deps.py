"""`deps`: the program's own object reaches its tools, hooks and approvals, and leaves the process nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring import ToolContext, open_run, tool
from mainspring.sdk import (
    AgentDefinition,
    HookContext,
    HookMatcher,
    PermissionResultAllow,
    ToolPermissionContext,
)
from mainspring.simulator.replies import Say
from mainspring.testing import Scripted, says
from mainspring.testing import call as tool_call
from mainspring.testing.world import FakeToolContext
from sdk.stage import Stage, call, outcomes, play, texts

MARK = "held-only-in-memory"


class Database:
    """Whoever copies it, stores it or sends it fails, or leaves the mark behind."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self, name: str) -> str:
        self.asked.append(name)
        return f"{name}: 42"

    def __repr__(self) -> str:
        return MARK

    def __reduce__(self) -> Any:
        raise TypeError("it must not be copied")


@tool
async def find_user(name: str, context: ToolContext[Database]) -> str:
    """Find a user."""
    return context.deps.find(name)


@tool
def find_in_thread(name: str, context: ToolContext[Database] | None = None) -> str:
    """Find a user."""
    return context.deps.find(name) if context is not None else "nobody"


def test_the_context_is_no_part_of_the_schema() -> None:
    assert find_user.spec.schema == {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert find_in_thread.spec.schema == find_user.spec.schema


def test_a_tool_with_deps_is_tested_as_a_function() -> None:
    found = asyncio.run(find_user("Ada", FakeToolContext("/", deps=Database())))
    assert (found, find_in_thread("Ada")) == ("Ada: 42", "nobody")


@pytest.mark.parametrize("name", ["find_user", "find_in_thread"])
def test_open_run_gives_deps_to_its_tools(name: str) -> None:
    db = Database()

    async def main() -> str:
        model = Scripted([says(tool_call(name, name="Ada")), says("Done.")])
        async with open_run("Who is Ada?", provider=model, tools=[find_user, find_in_thread], deps=db) as run:
            async for _ in run:
                pass
        return run.result.text

    assert asyncio.run(main()) == "Done."
    assert db.asked == ["Ada"]


def test_without_deps_there_is_none() -> None:
    seen: list[object] = []

    @tool
    async def look(context: ToolContext) -> None:
        seen.append(context.deps)

    async def main() -> None:
        async with open_run("go", provider=Scripted([says(tool_call("look")), says("Done.")]), tools=[look]) as run:
            async for _ in run:
                pass

    asyncio.run(main())
    assert seen == [None]


def test_tools_hooks_and_approvals_of_a_session_get_the_very_object(tmp_path: Path) -> None:
    db, seen = Database(), dict[str, object]()

    async def before(input: Any, id: str | None, context: HookContext) -> dict[str, Any]:
        seen["hook"] = context["deps"]
        return {}

    async def allow(name: str, input: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow:
        seen["approval"] = context.deps
        return PermissionResultAllow()

    async def main(stage: Stage) -> None:
        told = await stage.ask(
            tools=[find_user, "Write"],
            hooks={"PreToolUse": [HookMatcher(hooks=[before])]},
            can_use_tool=allow,
            deps=db,
        )
        assert outcomes(told)[0].content == "Ada: 42"
        assert texts(told) == ["Done."]
        assert MARK not in repr(stage.options(deps=db))
        assert all(MARK not in str(request.body) for request in stage.server.requests)

    write = call("Write", file_path="new.txt", content="x")
    play(main, tmp_path, Say.of(call("find_user", name="Ada"), write), Say.of("Done."))
    assert seen == {"hook": db, "approval": db}
    assert db.asked == ["Ada"]
    files = [file for file in (tmp_path / "home").rglob("*") if file.is_file()]
    assert any(file.suffix == ".jsonl" for file in files)
    assert [file for file in files if MARK.encode() in file.read_bytes()] == []


def test_tools_of_a_subagent_get_it_too(tmp_path: Path) -> None:
    db = Database()

    async def main(stage: Stage) -> None:
        kind = AgentDefinition("Finds users.", "Find.", tools=["find_user"])
        told = await stage.ask(tools=[find_user, "Agent"], agents={"finder": kind}, deps=db)
        assert texts(told)[-1] == "Done."

    send = call("Agent", description="find", prompt="Find Ada.", subagent_type="finder")
    play(main, tmp_path, Say.of(send), Say.of(call("find_user", name="Ada")), Say.of("Found."), Say.of("Done."))
    assert db.asked == ["Ada"]
