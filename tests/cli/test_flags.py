"""One table of flags: what the parser takes, what the help lists, what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mainspring.agent.options import SessionOptions, StartError
from mainspring.cli.flags import (
    BY_NAME,
    FLAGS,
    WIDTH,
    Arguments,
    Flag,
    FlagValueKind,
    flags_table,
    help_text,
    parse_arguments,
    split_list,
)

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import flags_page

# Every flag of stream-json 1.2, with a value where it takes one.
DRIVEN = {
    "--output-format": "stream-json", "--verbose": None, "--input-format": "stream-json", "--system-prompt": "",
    "--system-prompt-file": "x", "--append-system-prompt": "x", "--tools": "", "--allowedTools": "Read",
    "--disallowedTools": "Bash(rm:*)", "--max-turns": "3", "--max-budget-usd": "0.5", "--task-budget": "1000",
    "--model": "opus", "--fallback-model": "a,b", "--betas": "a,b", "--permission-prompt-tool": "stdio",
    "--permission-mode": "plan", "--continue": None, "--resume": "x",
    "--session-id": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "--fork-session": None,
    "--resume-session-at": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed",
    "--resume-drops-turn": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "--session-mirror": None, "--settings": "{}",
    "--add-dir": "x", "--mcp-config": "{}", "--strict-mcp-config": None, "--include-partial-messages": None,
    "--include-hook-events": None, "--setting-sources": "", "--plugin-dir": "x", "--thinking": "adaptive",
    "--max-thinking-tokens": "0", "--thinking-display": "omitted", "--effort": "xhigh", "--json-schema": "{}",
    "--replay-user-messages": None, "--debug-to-stderr": None,
}  # fmt: skip


@pytest.mark.parametrize("name", DRIVEN)
def test_every_flag_of_the_wire_is_accepted_in_both_forms(name: str) -> None:
    value = DRIVEN[name]
    if value is None:
        assert parse_arguments([name]).given == (name,)
    else:
        apart, joined = parse_arguments([name, value]), parse_arguments([f"{name}={value}"])
        assert vars(apart) == vars(joined) != vars(Arguments(given=(name,)))
        assert vars(apart.session) == vars(joined.session)
        assert apart.given == (name,)


def test_the_table_and_the_options_are_one() -> None:
    fields = {flag.field for flag in FLAGS}
    own, options = set(Arguments.__annotations__), set(SessionOptions.__annotations__)
    assert own & options == set()
    others = {"words", "given", "values", "pick_session"}  # the last: "--resume" without a value
    others |= {"cwd", "driven", "ignored", "in_process", "lists_commands", "own_tools", "sessions_home"}
    others |= {"checkpoints", "notice", "remark", "spell"}
    others |= {"bare", "deps", "max_output", "persist", "sampling", "tracing"}  # of programs
    others |= {"host_hooks", "skills", "exclude_dynamic_sections", "forward_subagent_text"}  # of `initialize`
    assert fields | others == own | options
    assert len(BY_NAME) == sum(1 + len(flag.also) for flag in FLAGS)


def test_a_value_may_look_like_a_flag_or_be_empty() -> None:
    """As a driving SDK hands them over: one argument each, whatever is in it."""
    options = parse_arguments(["--system-prompt", "- be brief", "--append-system-prompt", "", "-p", "--", "--loud"])
    assert (options.session.system_prompt, options.session.append_system_prompt) == ("- be brief", "")
    assert (options.print, options.words) == (True, ("--loud",))


def test_lists_add_up_and_the_last_of_the_others_counts() -> None:
    options = parse_arguments(
        ["--allowedTools=Read,Edit", "--allowed-tools", "Bash(git log, -1) Write", "--model=a", "--model=b"]
    ).session
    assert options.allowed_tools == ("Read", "Edit", "Bash(git log, -1)", "Write")
    assert options.model == "b"
    assert parse_arguments(["--add-dir", "a,b", "--add-dir", "c"]).session.add_dirs == ("a,b", "c")


def test_no_tools_is_not_the_same_as_not_saying() -> None:
    assert parse_arguments(["--tools", ""]).session.tools == ()
    assert parse_arguments([]).session.tools is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("a, b  c,", ("a", "b", "c")),
        ("Bash(a (b), c),Read", ("Bash(a (b), c)", "Read")),
        ("a) b", ("a)", "b")),
        ("Bash(a, b", ("Bash(a, b",)),
    ],
)
def test_lists_are_split_outside_of_parentheses(text: str, parts: tuple[str, ...]) -> None:
    assert split_list(text) == parts


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--loud"], "unknown flag '--loud'"),
        (["--loud=1"], "unknown flag '--loud'"),
        (["-x"], "unknown flag '-x'"),
        (["--max-turn", "3"], "unknown flag '--max-turn'"),
        (["--max-turns"], "'--max-turns' needs a value: '--max-turns N'"),
        (["--max-turns", "x"], "'--max-turns' must be a whole number of at least 1, not 'x'"),
        (["--max-turns", "0"], "'--max-turns' must be a whole number of at least 1, not '0'"),
        (["--max-turns=-1"], "'--max-turns' must be a whole number of at least 1, not '-1'"),
        (["--max-turns", "9" * 5000], "'--max-turns' must be a whole number of at least 1, not '9"),
        (["--max-turns", "\u0663"], "'--max-turns' must be a whole number"),
        (["--max-budget-usd", "nan"], "'--max-budget-usd' must be an amount in dollars such as 0.50, not 'nan'"),
        (["--max-budget-usd", "-1"], "'--max-budget-usd' must be an amount in dollars such as 0.50, not '-1'"),
        (["--effort", "nonsense"], "'--effort' must be one of low, medium, high, xhigh, max, not 'nonsense'"),
        (["--session-id", "abc"], "'--session-id abc': Must be a valid UUID, such as "),
        (["--session-id", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4beg"], "Must be a valid UUID"),
        (["--verbose=yes"], "'--verbose' takes no value: leave out '=yes'"),
        (["--output-format", "xml"], "'--output-format' must be one of text, json, stream-json, not 'xml'"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(arguments: list[str], words: str) -> None:
    with pytest.raises(StartError) as told:
        parse_arguments(arguments)
    assert str(told.value).startswith(words) or words in str(told.value)


def test_a_session_id_is_in_lower_case() -> None:
    assert (
        parse_arguments(["--session-id", "1B9D6BCD-BBFD-4B2D-9B5D-AB8DFBBD4BED"]).session.session_id
        == DRIVEN["--session-id"]
    )


# --- the help and the page --------------------------------------------------------------------------


def test_the_help_lists_every_flag_and_says_which_are_not_honoured() -> None:
    text = help_text()
    now, _, later = text.partition("Accepted, but without effect yet")
    for flag in FLAGS:
        assert re.search(rf"^  (-\w, )?{flag.name}\b", later if flag.later else now, re.MULTILINE), flag.name
    assert max(map(len, text.splitlines())) <= WIDTH
    assert text.isascii()


def test_the_help_warns_of_what_is_missing() -> None:
    assert "With -p nobody can approve" in help_text()
    assert "Where bubblewrap is installed" in help_text()


def test_the_page_has_the_table_as_it_is() -> None:
    page = flags_page.PAGE.read_text(encoding="utf-8")
    assert flags_table() in page, "run 'make docs'"
    stale = page.replace("| `--verbose` |", "| `--loud` |")
    assert stale != page
    assert flags_page.page(stale) == page, "only the table is written"


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_every_flag_has_words_and_choices_where_it_must(flag: Flag) -> None:
    assert flag.help
    assert bool(flag.choices) == (flag.takes == FlagValueKind.CHOICE)


def test_resume_without_a_value_picks() -> None:
    for words, picks, resumed in (
        (["--resume"], True, None),
        (["-r", "--plain"], True, None),
        (["-r", "abc"], False, "abc"),
        (["--resume=", "--plain"], False, ""),
    ):
        arguments = parse_arguments(words)
        assert (arguments.pick_session, arguments.session.resume) == (picks, resumed), words
