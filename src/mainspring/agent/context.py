"""The model context of a session: memory files, skills, system prompt, output style, side calls and compaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mainspring import context, engine, settings
from mainspring.agent.model import Environment
from mainspring.context import attachments as surroundings_of
from mainspring.context.memory import MemoryLocations
from mainspring.context.prompt import IDENTITY, PromptStyle, system_prompt
from mainspring.context.sources import ContextSourceOptions, ContextSources
from mainspring.core.config import Config
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.messages import Block, user
from mainspring.core.models import MODELS, Model, model_named
from mainspring.core.value import Bundle
from mainspring.engine.model_context import ModelContext, ModelContextConfig, size_of
from mainspring.engine.session_deps import new_id
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.providers.base import Provider, ToolSpec, WebSearchSpec
from mainspring.sessions.paths import folder_of
from mainspring.settings.load import TRUSTED, home_folder
from mainspring.settings.values import FeatureSettings, ModelRules
from mainspring.tools.base import Workspace
from mainspring.tools.toolset import Toolset

if TYPE_CHECKING:
    from mainspring.agent.config import ResolvedConfig
    from mainspring.core.updates import Retrying
    from mainspring.processes.children import Children
    from mainspring.web.page import Ask
    from mainspring.web.search import CallService

HAIKU = "claude-haiku-"
SMALL = ("ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL")


def make_excluder(patterns: tuple[str, ...], home: str) -> Callable[[str], bool] | None:
    if not patterns:
        return None
    from mainspring.context.memory import make_excluder

    return make_excluder(patterns, home)


def read_context_sources(
    config: ResolvedConfig, place: Workspace, children: Callable[[], Children], *, tells_place: bool
) -> ContextSources:
    """Reads the memory files, and warns once about skipped ones. `tells_place`: describe the workspace in the first
    prompt, not in the system prompt."""
    options = config.options

    def may_read(path: str) -> bool:
        return config.gate.readable(place.root, EnginePolicy())(path)  # called for links and includes only

    home = home_folder(config.environment)
    where = MemoryLocations(
        place.root,
        user=place.home,
        home=home,
        trusted=is_trusted_folder(home, place.root),
        driven=options.driven,
        sources=options.setting_sources,
        may_read=may_read,
        skill_states=config.settings.skill_states,
        skills=options.skills,
        plugins=tuple([(plugin.name, *place) for plugin in config.plugins for place in plugin.texts]),
        excluded=make_excluder(config.settings.memory_excludes, place.home),
    )
    found = ContextSources(
        ContextSourceOptions(
            where,
            notes="" if options.bare else get_notes_folder(home, place.root),
            environ=config.environment,
            read=lambda: place.read,
            children=children,
            tell=options.tell,
            nonce=place.nonce,
            told_cwd=place.root if tells_place else "",
            bare=options.bare,
        )
    )
    for problem in found.problems:
        found.tell(problem)
    return found


def get_notes_folder(home: str | None, cwd: str) -> str:
    return f"{folder_of(home, cwd)}/memory" if home else ""


def is_trusted_folder(home: str | None, folder: str) -> bool:
    """Loads nothing if the user has never trusted a directory."""
    if home is None or not os.path.lexists(f"{home}/{TRUSTED}"):
        return False
    return settings.is_trusted(home, folder)


def build_system_text(
    own: tuple[str, ...],
    found: ContextSources,
    tools: Iterable[str],
    *,
    attended: bool,
    style: PromptStyle | None = None,
) -> tuple[str, ...]:
    """`own`: the result of `config.read_system_prompt_options`."""
    memory = found.memory
    place = "" if found.tells_place else surroundings_of.describe_workspace(memory.where.cwd, git=memory.project.git)
    return complete_system_prompt(own, tools, place, attended=attended, style=style)


def takes_style(own: tuple[str, ...]) -> bool:
    """A custom system prompt already says how the model answers, so it takes no style. An empty one does."""
    return own[0] in ("", IDENTITY)


def complete_system_prompt(
    own: tuple[str, ...], tools: Iterable[str], place: str, *, attended: bool, style: PromptStyle | None = None
) -> tuple[str, ...]:
    """Its blocks, the most stable one first."""
    instead, after = own
    if not instead:
        blocks = system_prompt(tools, place, attended=attended, style=style)
    else:
        blocks = (instead, style.block) if style is not None else (instead,)
    return (*blocks, after) if after else blocks


def find_output_style(wanted: str | None, own: tuple[str, ...], found: ContextSources) -> PromptStyle | None:
    """The output style in force; None: the default. Warns about one that does not exist or cannot be read."""
    if not wanted or wanted == "default" or not takes_style(own):
        return None
    styles = context.OutputStyles(found.memory.places("output-styles"))
    try:
        style = styles.find(wanted)
    except UsageError as error:
        found.tell(f"'outputStyle' is not used: {error}")
        for problem in styles.problems:
            found.tell(problem)
        return None
    for problem in styles.news():
        if style.path and style.path in problem:  # problems of unused styles do not matter now
            found.tell(problem)
    return PromptStyle(style.name, style.text, style.keeps_coding)


def list_output_styles(found: ContextSources) -> tuple[str, ...]:
    return context.OutputStyles(found.memory.places("output-styles")).names


class SideModel(Bundle):
    """The provider and ledger of side calls, such as summaries."""

    provider: Provider
    config: Config
    ledger: Ledger
    environment: Environment
    features: FeatureSettings = FeatureSettings()
    model_rules: ModelRules = ModelRules()
    show: Callable[[Retrying], object] | None = None  # receives the waits of summaries


def new_model_context(  # noqa: PLR0913  # keywords, the last ones
    asked: SideModel,
    found: ContextSources,
    hands: Toolset,
    system: Callable[[], tuple[str, ...]],
    *,
    takes_notes: bool = False,
    suggest: Callable[[str], object] | None = None,
    summarizes_tools: bool = False,
) -> ModelContext:
    """`system` returns the current system prompt: MCP servers add to it. `takes_notes`: take notes after a turn, with
    the small model; `suggest` receives a suggestion for the next prompt then. `summarizes_tools`: describe each batch
    of tool calls in one line."""
    where = found.memory.where

    def specs() -> tuple[ToolSpec, ...]:
        return hands.specs

    def side_questions() -> engine.SideCalls:
        config = asked.config
        small = small_model(config.model, asked.environment, asked.model_rules)
        return engine.SideCalls(
            asked.provider,
            config,
            small=small,
            ledger=lambda: asked.ledger,
            system=system(),
            tools=specs,
            show=asked.show,
        )

    def limits() -> context.LayerLimits:
        on = asked.features
        clears = on.microcompact and not on.server_clearing  # only one of the two, or results are cleared twice
        return context.LayerLimits(snip=on.snip, clear=clears, collapse=on.collapse, elsewhere=on.server_clearing)

    def files() -> Iterable[tuple[str, str]]:
        return context.iter_recent_files(hands.place.read)

    return ModelContext(
        ModelContextConfig(
            asked.config,
            new_id,
            surroundings=found,
            ask=side_questions,
            folder=hands.place.spill,
            fixed=lambda: size_of(system(), hands.specs),
            files=files,
            hooks=hands.hooks,
            notes=get_notes_folder(where.home, where.cwd) if takes_notes else "",
            suggest=suggest,
            summarizes_tools=summarizes_tools,
            limits=limits,
        )
    )


def make_side_call(mind: Callable[[], ModelContext]) -> Ask:
    """Calls the small model, for tools."""

    async def ask(text: str) -> str:
        side_questions = mind().ask
        assert side_questions is not None
        answer = await side_questions(context.SideCall((user(text),), ANSWER, small=True))
        if answer.failed:
            raise ToolError(f"the call to the small model failed: {answer.failed}")
        return answer.text

    return ask


def make_service_search(
    mind: Callable[[], ModelContext], model: Callable[[], Model], why_not: Callable[[str], str]
) -> CallService:
    """Calls the web search of the service of the current model, for tools. `why_not`: the reason if it has none: the
    user may have changed the model since the tool was offered."""

    async def search(prompt: str, wanted: WebSearchSpec) -> list[Block]:
        if reason := why_not(model().name):
            raise ToolError(
                f"Nothing was searched: {reason}. The user can set 'webSearch.command', a command that searches. If "
                "you know an address, use WebFetch."
            )
        side_questions = mind().ask
        assert side_questions is not None
        return await side_questions.search(prompt, wanted, model())

    return search


ANSWER = 2_000  # tokens, about a page


def small_model(main: Model, environment: Environment, rules: ModelRules = ModelRules()) -> Model:  # noqa: B008
    """The model for simple side calls. On a server that is not Anthropic's we know only the main model.
    `availableModels` does not limit it, as in Claude Code; if it is denied, the main model is used."""
    if not main.name.startswith("claude-"):
        return main
    named = next((value for name in SMALL if (value := environment.get(name, "").strip())), "")
    small = model_named(named) if named else next(model for name, model in MODELS.items() if name.startswith(HAIKU))
    if rules.denied:
        return main if settings.is_denied(small.name, rules) else small
    return small
