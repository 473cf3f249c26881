"""Settings for a run: read once, what is wrong with them told once."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from mainspring.cli.flags import Options, StartError
from mainspring.settings.load import Asked, load
from mainspring.settings.values import ProblemKind, Settings, SettingsError

MOST_TOLD = 10  # problems; 'mainspring config' has them all
WAY_OUT = ". 'mainspring trust' trusts it"  # told once, after all files that need it


def settings_of(options: Options, cwd: str, environment: Mapping[str, str]) -> Settings:
    sources = options.setting_sources if "--setting-sources" in options.given else None
    try:
        return load(cwd, environment, Asked(options.settings, sources or () if sources is not None else None))
    except SettingsError as error:
        raise StartError(str(error)) from None


def tell(settings: Settings) -> None:
    """On standard error, so that the answer stays alone on standard output."""
    problems = settings.problems
    for problem in problems[:MOST_TOLD]:
        print(f"mainspring: {str(problem).removesuffix(WAY_OUT)}", file=sys.stderr)
    if len(problems) > MOST_TOLD:
        print(f"mainspring: and {len(problems) - MOST_TOLD} more: see 'mainspring config'", file=sys.stderr)
    if any(problem.kind is ProblemKind.UNTRUSTED for problem in problems):
        print("mainspring: 'mainspring trust' lets this folder's settings take effect", file=sys.stderr)
