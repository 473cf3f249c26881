"""What stays when another session takes the place of the one before it in this process: `/clear`, `/resume`, `/rewind`,
`/trust` and a reload in the terminal, `/clear` in the pipe.

One rule: money, mode, rules and folders belong to the process. What was spent counts against the limit, whichever
session spent it, and the ledger is the same object; what somebody has allowed or chosen holds until they leave.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.agent.options import SessionOptions
from mainspring.agent.parts import Parts
from mainspring.agent.world import World
from mainspring.core.value import Bundle
from mainspring.engine.ledger import Ledger
from mainspring.engine.shared import Policy
from mainspring.tools.base import Place


class CarriedOver(Bundle):
    ledger: Ledger  # for `begin`
    policy: Policy
    settings_mode: str  # as the settings and the command line had it
    folders: tuple[str, ...]  # additional ones


def take_along(world: World, parts: Parts) -> CarriedOver:
    """Of the session that ends."""
    shared = world.session.shared
    return CarriedOver(shared.ledger, shared.policy, parts.mode, tuple(world.kit.place.folders))


async def carry_over(carried: CarriedOver, world: World, parts: Parts, *, reloaded: bool = False) -> None:
    """To the session that was begun with `carried.ledger`. `reloaded`: what counts has changed, so that a mode nobody
    chose, and folders that came from settings, are those of `parts`."""
    policy = carried.policy
    if reloaded and policy.mode == carried.settings_mode:
        policy = replace(policy, mode=parts.mode)
    if not reloaded:
        set_folders(parts, world.kit.place, carried.folders)
    if policy != world.session.shared.policy:
        await world.session.change(policy)


def set_folders(parts: Parts, place: Place, folders: tuple[str, ...]) -> None:
    place.folders = folders
    parts.gate.set_folders((place.root, *folders))


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
