"""What stays when another session takes the place of the one before it in this process: `/clear`, `/resume`, `/rewind`,
`/trust` and a reload in the terminal, `/clear` in the pipe.

One rule: money, mode, rules and folders belong to the process. What was spent counts against the limit, whichever
session spent it, and the ledger is the same object; what somebody has allowed or chosen holds until they leave.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.agent.config import ResolvedConfig
from mainspring.agent.options import SessionOptions
from mainspring.agent.session_parts import SessionParts
from mainspring.core.value import Bundle
from mainspring.engine.shared_state import EnginePolicy, Ledger
from mainspring.tools.base import Workspace


class SessionCarryOver(Bundle):
    ledger: Ledger  # for `build_session_parts`
    policy: EnginePolicy
    settings_mode: str  # as the settings and the command line had it
    folders: tuple[str, ...]  # additional ones


def take_along(world: SessionParts, config: ResolvedConfig) -> SessionCarryOver:
    """Of the session that ends."""
    shared = world.session.shared
    return SessionCarryOver(shared.ledger, shared.policy, config.mode, tuple(world.kit.place.folders))


async def carry_over(
    carried: SessionCarryOver, world: SessionParts, config: ResolvedConfig, *, reloaded: bool = False
) -> None:
    """To the session that was begun with `carried.ledger`. `reloaded`: what counts has changed, so that a mode nobody
    chose, and folders that came from settings, are those of `config`."""
    policy = carried.policy
    if reloaded and policy.mode == carried.settings_mode:
        policy = replace(policy, mode=config.mode)
    if not reloaded:
        set_folders(config, world.kit.place, carried.folders)
    if policy != world.session.shared.policy:
        await world.session.change(policy)


def set_folders(config: ResolvedConfig, place: Workspace, folders: tuple[str, ...]) -> None:
    place.folders = folders
    config.gate.set_folders((place.root, *folders))


def options_for_next(options: SessionOptions, session_id: str | None = None) -> SessionOptions:
    """The same, but for what they say of an earlier session. `session_id`: the one to resume."""
    return options.replace(
        resume=session_id,
        continue_conversation=False,
        fork_session=False,
        resume_session_at=None,
        resume_drops_turn=None,
        session_id=None,
    )
