"""`Agent` and `ask`: an agent in a few lines. `mainspring` exports what is public here; see docs/library.md."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.library.agent_tool import AgentTool as AgentTool
    from mainspring.library.agent_tool import make_agent_tool as make_agent_tool
    from mainspring.library.background_loop import run_blocking as run_blocking
    from mainspring.library.hooks import HookCall as HookCall
    from mainspring.library.hooks import check_reply as check_reply
    from mainspring.library.hooks import name_hooks as name_hooks
    from mainspring.library.output import OutputCheck as OutputCheck
    from mainspring.library.output import OutputType as OutputType

# Loaded on first use: most agents have no hooks, no typed output and no agents as tools.
MODULES = {
    "AgentTool": "agent_tool",
    "HookCall": "hooks",
    "OutputCheck": "output",
    "OutputType": "output",
    "check_reply": "hooks",
    "make_agent_tool": "agent_tool",
    "name_hooks": "hooks",
    "run_blocking": "background_loop",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
