"""A program with tools, for the type checkers: each comment that ignores an error is one that they must find. mypy
reads it with `make check`, which also refuses a comment that ignores nothing; pyright by `test_typed_program.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from datetime import date
from typing import Annotated, Any, assert_type

from pydantic import BaseModel, Field

from mainspring import Options, ToolContext, ToolError, open_run, tool
from mainspring.sdk import SdkMcpTool, ToolPermissionContext, create_sdk_mcp_server
from mainspring.sdk import tool as sdk_tool
from mainspring.testing import Scripted
from mainspring.testing.world import FakeToolContext
from mainspring.tools.custom import FunctionTool


class Database:
    def find(self, name: str) -> int:
        return len(name)


class Guest(BaseModel):
    name: str
    stars: Annotated[int, Field(ge=1, le=5)] = 1


@tool
async def find_user(name: str, context: ToolContext[Database]) -> int:
    """Find a user."""
    if not name:
        raise ToolError("Give a name.")
    found = context.deps.find(name)
    assert_type(found, int)
    context.deps.find(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    context.deps.lose(name)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return found


@tool(name="book-table", description="Book a table.", read_only=False, timeout=5, retries=2)
def book(guests: list[Guest], day: date) -> Guest:
    return guests[0]


@tool
def look(context: ToolContext) -> str:
    context.deps.find("x")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    return context.cwd


@sdk_tool("add", "Adds two numbers.", {"a": float, "b": float})
async def add(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": []}


def check_forms(day: date) -> None:
    """Each form keeps the signature of its function."""
    assert_type(book([Guest(name="Ada")], day), Guest)
    whole: Callable[[list[Guest], date], Guest] = book
    later: Callable[[str, ToolContext[Database]], Coroutine[Any, Any, int]] = find_user
    assert_type(add, SdkMcpTool[Any])
    bound: FunctionTool[..., int] = tool(functools.partial(Database().find, "x"))
    method: FunctionTool[[str], int] = tool(Database().find)
    create_sdk_mcp_server("sums", tools=[add])
    book(day, [])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    book([], when=day)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    method(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tool(read_onyl=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    tool(retries="2")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    print(whole, later, bound)


async def check_deps() -> None:
    found = await find_user("Ada", FakeToolContext("/", deps=Database()))
    assert_type(found, int)
    Options(tools=[find_user, book, "Read"], deps=Database())
    async with open_run("Who is Ada?", provider=Scripted([]), tools=[find_user], deps=Database()) as run:
        print(run.result.text)


def check_narrower(context: ToolContext[Database], asked: ToolPermissionContext) -> None:
    """A context with an object is a context."""
    any_context: ToolContext = context
    other: ToolContext[str] = context  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    print(any_context, other, asked.deps)
