"""`mainspring config get|set|unset|list`: one setting at a time, in the files of the user, the project or you alone.

Values are checked by the table of settings before anything is written. Errors name the value, the reason and what to
do.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, cast

from mainspring import settings as settings_package
from mainspring.agent.config import asked_by, settings_of
from mainspring.agent.options import SessionOptions, StartError
from mainspring.cli.subcommands import Namespace
from mainspring.core.errors import MainspringError
from mainspring.permissions.rules import RuleError, parse_rule
from mainspring.secrets.redaction import is_secret, redact
from mainspring.settings.keys import KEYS, MergeRule
from mainspring.settings.persist import PersistReport, SettingsWriter
from mainspring.settings.single_value import SettingName, find_setting, parse_value, read_single_value, shorten
from mainspring.settings.values import Settings, SettingsSource
from mainspring.text import describe_error, strip_control_characters

HIDDEN = "…"
BEHAVIORS = ("allow", "ask", "deny")


def change_config(args: Namespace) -> int:
    try:
        if args.action == "list":
            return print_settings(args)
        setting = find_setting(args.key)
        if args.action == "get":
            return print_setting(args, setting)
        report = write_setting(args, setting)
    except (MainspringError, OSError) as error:
        failed = StartError(describe_error(error))
        failed.help = "mainspring config --help"
        raise failed from None
    for file in report.files:
        verb = "Removed" if args.action == "unset" else "Saved"
        print(strip_control_characters(f"{verb} '{setting.spelled}' in '{file}'."))
    for words in report.words:
        print(f"mainspring: {strip_control_characters(redact(words))}", file=sys.stderr)
    if args.action == "unset" and not report.files:
        print(f"'{setting.spelled}' is not set in the {args.scope} settings.")
    return 0


def write_setting(args: Namespace, setting: SettingName) -> PersistReport:
    writer = SettingsWriter(here(), os.environ, asked_by(args.session))
    source = SettingsSource(args.scope)
    if args.action == "unset":
        change = settings_package.ValueChange(setting.keys, unset=True)
    else:
        change = settings_package.ValueChange(setting.keys, value_of(setting, args.value))
    return writer.write(source, change)


def here() -> str:
    return os.getcwd()  # noqa: PTH109  # pathlib takes 8 ms to load


def value_of(setting: SettingName, words: list[str]) -> object:
    """Several words are a list, and so is one if the setting is a list and the word is not."""
    is_list = setting.key.merge is MergeRule.ADD and setting.key.name != "hooks"
    if len(words) > 1 or (is_list and not words[0].lstrip().startswith("[")):
        if not is_list:
            raise StartError(f"'{setting.spelled}' takes one value, not {len(words)}: put quotes around it")
        value: object = [*words]
    else:
        value = parse_value(setting, words[0])
    check_rules(setting, value)
    return value


def check_rules(setting: SettingName, value: object) -> None:
    """A rule that does not parse would cause a warning at every start, and may be meant to restrict."""
    behavior = setting.key.name.removeprefix("permissions.")
    if behavior not in BEHAVIORS:
        return
    for rule in cast("list[object]", value) if isinstance(value, list) else [value]:
        try:
            parse_rule(str(rule), cast("Any", behavior))
        except RuleError as error:
            raise StartError(f"'{shorten(str(rule))}' is not a rule: {error}") from None


# --- printing -------------------------------------------------------------------------------------------------


def print_setting(args: Namespace, setting: SettingName) -> int:
    value: object
    if args.scope is not None:
        writer = SettingsWriter(here(), os.environ)
        found = read_single_value(writer.places, SettingsSource(args.scope), setting)
        if found is None:
            return 1
        value = hide_secrets(setting.spelled, found.value)
    else:
        shown = effective_values(settings_here(args.session), setting.spelled)
        if not shown:
            return 1
        value = shown[0] if len(shown) == 1 and setting.key.merge is not MergeRule.ADD else shown
    if args.json or not isinstance(value, (str, list)):
        print(json.dumps(value, indent=2))
    else:
        lines = cast("list[object]", value) if isinstance(value, list) else [value]
        print("\n".join([strip_control_characters(str(line)) for line in lines]))
    return 0


def settings_here(options: SessionOptions) -> Settings:
    return settings_of(options, here(), os.environ, shows_refused=True)


def effective_values(settings: Settings, name: str) -> list[str]:
    """As people read them: the values of variables are not shown."""
    return [value.shown for value in settings.effective if value.name == name]


def print_settings(args: Namespace) -> int:
    if args.scope is None:
        found: object = [
            {"name": value.name, "value": value.shown, "source": str(value.origin.source), "place": value.origin.place}
            for value in settings_here(args.session).effective
        ]
        print(json.dumps(found, indent=2))
        return 0
    places = SettingsWriter(here(), os.environ).places
    values: dict[str, object] = {}
    for key in KEYS:
        said = read_single_value(places, SettingsSource(args.scope), SettingName(key))
        if said is not None:
            values[key.name] = hide_secrets(key.name, said.value)
    if args.json:
        print(json.dumps(values, indent=2))
    else:
        width = max(map(len, values), default=0)
        rows = [f"{name:<{width}}  {show_value(value)}" for name, value in values.items()]
        print(strip_control_characters("\n".join(rows)) or f"No {args.scope} settings.")
    return 0


def show_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def hide_secrets(name: str, value: object) -> object:
    """Values of variables and headers, and whatever looks like a secret."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        hides = name.rpartition(".")[2] in ("env", "headers")
        return {key: HIDDEN if hides else hide_secrets(key, one) for key, one in table.items()}
    if isinstance(value, list):
        return [hide_secrets(name, one) for one in cast("list[object]", value)]
    if isinstance(value, str) and (name.startswith("env.") or is_secret(name)):
        return HIDDEN
    return redact(value) if isinstance(value, str) else value
