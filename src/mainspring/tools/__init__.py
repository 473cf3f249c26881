"""The built-in tools: one module per tool, the `Tool` class in `base.py`, the tool pipeline in `pipeline.py`."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.tools.agent import KINDS as KINDS
    from mainspring.tools.agent import agent_tool as agent_tool
    from mainspring.tools.agent import refuse_subagent as refuse_subagent
    from mainspring.tools.agent import skill_tool as skill_tool
    from mainspring.tools.background import BackgroundCommands as BackgroundCommands
    from mainspring.tools.background import kill_tool as kill_tool
    from mainspring.tools.background import output_tool as output_tool
    from mainspring.tools.base import Approval as Approval
    from mainspring.tools.bash import bash_tool as bash_tool
    from mainspring.tools.notebook_text import Notebook as Notebook
    from mainspring.tools.plan import plan_tools as plan_tools
    from mainspring.tools.question import QuestionInput as QuestionInput
    from mainspring.tools.question import render_question as render_question
    from mainspring.tools.recall import recall_tool as recall_tool
    from mainspring.tools.schema import known_part as known_part
    from mainspring.tools.schema import schema_of as schema_of
    from mainspring.tools.schema import subschema_at as subschema_at
    from mainspring.tools.search_child import output_alone as output_alone
    from mainspring.tools.shell import SandboxExclusions as SandboxExclusions
    from mainspring.tools.shell import walls_of as walls_of
    from mainspring.tools.tasks import SessionTasks as SessionTasks
    from mainspring.tools.tasks import task_tools as task_tools
    from mainspring.tools.tool_search import search_tool as search_tool
    from mainspring.tools.tool_search import show_schemas as show_schemas
    from mainspring.tools.web import web_fetch_tool as web_fetch_tool
    from mainspring.tools.web import web_search_tool as web_search_tool

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "Approval": "base",
    "BackgroundCommands": "background",
    "KINDS": "agent",
    "Notebook": "notebook_text",
    "QuestionInput": "question",
    "SandboxExclusions": "shell",
    "SessionTasks": "tasks",
    "agent_tool": "agent",
    "bash_tool": "bash",
    "kill_tool": "background",
    "known_part": "schema",
    "output_alone": "search_child",
    "output_tool": "background",
    "plan_tools": "plan",
    "recall_tool": "recall",
    "refuse_subagent": "agent",
    "search_tool": "tool_search",
    "show_schemas": "tool_search",
    "render_question": "question",
    "schema_of": "schema",
    "skill_tool": "agent",
    "subschema_at": "schema",
    "task_tools": "tasks",
    "walls_of": "shell",
    "web_fetch_tool": "web",
    "web_search_tool": "web",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
