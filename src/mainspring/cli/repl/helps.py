"""What helps typing in a session: what can be completed, what was typed before, what is pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from mainspring.agent.own_words import TERMINAL, names_at, words_at
from mainspring.agent.said import list_other_commands
from mainspring.cli.repl.adapters import PromptCompleter, PromptHistory
from mainspring.cli.repl.completing import Choice, Known, Word
from mainspring.cli.repl.files_index import FilesIndex
from mainspring.cli.repl.history import Past
from mainspring.cli.repl.pasted import Pastes
from mainspring.cli.talk import Talk
from mainspring.engine.shared import EnginePolicy
from mainspring.settings.home import home_folder, users_folder

MOST_SESSIONS = 50
SOON = 0.3  # seconds that somebody who types a '@' waits, in a thread, for the first look


class Helps(NamedTuple):
    completer: PromptCompleter
    history: PromptHistory
    pastes: Pastes
    files: FilesIndex


def helps_for(talk: Talk) -> Helps:
    cwd, environment = talk.config.cwd, talk.config.environment
    home = users_folder(environment)
    index = FilesIndex(talk.world.kit.place)
    known = Known(
        words=lambda: words_of(talk),
        paths=lambda: index.paths(SOON),
        may_read=Readable(talk),
        behind={"model": lambda: models(talk), "resume": lambda: sessions(talk)},
        cwd=cwd,
        home=home,
    )
    pastes = Pastes(cwd, home)
    past = Past(home_folder(environment), cwd)
    return Helps(PromptCompleter(known), PromptHistory(past, pastes.expand), pastes, index)


class Readable:
    """Whether the rules of now let a file be read. They are put together once for as long as they are the same."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._rules: EnginePolicy | None = None
        self._may_read: Callable[[str], bool] = bool

    def __call__(self, path: str) -> bool:
        rules = self._talk.world.session.shared.policy
        if rules is not self._rules:
            self._rules, self._may_read = rules, self._talk.config.gate.readable(self._talk.config.cwd, rules)
        return self._may_read(path)


def words_of(talk: Talk) -> Iterable[Word]:
    own = names_at(TERMINAL)
    return (*words_at(TERMINAL), *list_other_commands(talk.world.around, own), *talk.world.servers.words())


def models(talk: Talk) -> Iterable[Choice]:
    from mainspring.cli.models_command import known_models

    known = known_models(talk.config.settings)
    return [Choice("default", "the one that the session began with"), *[Choice(model.name) for model in known]]


def sessions(talk: Talk) -> Iterable[Choice]:
    from mainspring.agent.sessions import new_place
    from mainspring.sessions.listing import list_sessions_in

    place = new_place(talk.config.environment, talk.config.cwd, ())
    if place.home is None:
        return ()
    own = talk.world.about.session_id
    return [
        Choice(one.session_id, one.title)
        for one in list_sessions_in(place.folder, MOST_SESSIONS)
        if one.session_id != own
    ]
