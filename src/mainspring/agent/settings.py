"""Settings for a run: read once, what is wrong with them told once."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.agent.options import SessionOptions, StartError
from mainspring.settings.load import SettingsRequest, load_settings
from mainspring.settings.values import ProblemKind, Settings, SettingsError, SettingsProblem, WrongOptionError

MOST_TOLD = 10  # problems; 'mainspring config' has them all
WAY_OUT = ". 'mainspring trust' trusts it"  # told once, after all files that need it


def settings_of(
    options: SessionOptions, cwd: str, environment: Mapping[str, str], *, shows_refused: bool = False
) -> Settings:
    """`shows_refused`: for showing them; with such settings nothing may be started."""
    asked = asked_by(options, consented=options.driven, shows_refused=shows_refused)
    try:
        return load_settings(cwd, environment, asked)
    except WrongOptionError as error:
        raise options.error(error.option, error.reason) from None
    except SettingsError as error:
        raise StartError(str(error)) from None


def asked_by(options: SessionOptions, *, consented: bool = False, shows_refused: bool = False) -> SettingsRequest:
    return SettingsRequest(
        options.settings,
        options.setting_sources,
        consented=consented,
        shows_refused=shows_refused,
        spell=options.spell,
    )


def list_broken_rules(settings: Settings) -> list[SettingsProblem]:
    """Rules that cannot be read. Most can, as one sees from their brackets: then nothing is loaded for this."""
    given = settings.permissions
    texts = [entry.text.strip() for entry in (*given.deny, *given.ask, *given.allow)]
    if all(looks_right(text) for text in texts):
        return []
    from mainspring.agent.broken_rules import broken_rules

    return [problem for problem, _ in broken_rules(settings)]


def looks_right(rule: str) -> bool:
    name, bracket, rest = rule.partition("(")
    return bool(name) and not {" ", ")"} & {*name} and rest.endswith(")") is bool(bracket)


def report_settings_problems(settings: Settings, options: SessionOptions) -> None:
    problems = [*settings.problems, *list_broken_rules(settings)]
    for problem in problems[:MOST_TOLD]:
        options.tell(str(problem).removesuffix(WAY_OUT))
    if len(problems) > MOST_TOLD:
        options.tell(f"and {len(problems) - MOST_TOLD} more: see 'mainspring config'")
    if any(problem.kind is ProblemKind.UNTRUSTED for problem in problems):
        options.tell("'mainspring trust' lets this folder's settings take effect")
