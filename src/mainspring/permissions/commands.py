"""Matches Bash rules against one simple command: exact, `prefix:*`, `prefix *`, `*` anywhere (security S3).

Words are compared after quote removal, joined by a character that no word can contain: a rule's blank never matches a
blank inside a word. A command with unknown parts is matched twice: whether it is covered whatever they turn out to be,
and whether it could be.

The module also finds the folders in which a line's commands may run: `cd` and its relatives.
"""

from __future__ import annotations

import posixpath
import re
from functools import lru_cache
from typing import Literal, NamedTuple

from mainspring.core.value import Value
from mainspring.permissions.files import FileRules
from mainspring.permissions.rules import BLANKS, glob_matches
from mainspring.permissions.shell.analyze import CommandAnalysis, base_name, option_values
from mainspring.permissions.shell.tokenizer import SEPARATOR
from mainspring.permissions.shell.values import UNKNOWN, Assignment, ShellWord

Match = Literal["yes", "maybe", "no"]

_STAR = "\x1e"  # a wildcard, while a rule is parsed; a rule cannot contain control characters
_OPERATORS = re.compile(r"[;|&\n<>]")
# Equivalent long options: these are the same everywhere.
_LONG = {"--recursive": "r", "--force": "f", "--verbose": "v", "--interactive": "i", "--quiet": "q"}


class CommandPattern(NamedTuple):
    parts: tuple[str, ...]  # texts with a wildcard between each two
    prefix: bool  # the one part, then nothing or further words
    words: int  # the number of complete words that precede the first wildcard
    whole_line: str  # the rule's text if it has shell operators, else ""
    name: str = ""  # the base name of the command, or its beginning
    open_name: bool = False  # the name has a wildcard
    first: str = ""  # the first word as written, or its beginning
    line_start: str = ""  # the beginning of lines that `whole_line` may match

    @property
    def is_exact(self) -> bool:
        return not self.prefix and len(self.parts) == 1


@lru_cache(maxsize=4_096)
def parse_command_pattern(specifier: str) -> CommandPattern:
    found = _pattern(specifier)
    first, separator, _ = found.parts[0].partition(SEPARATOR)
    return found._replace(
        name=base_name(first),
        open_name=not separator and len(found.parts) > 1,
        first=first,
        line_start="".join(found.whole_line.partition("*")[0].split()[:1]),
    )


def _pattern(specifier: str) -> CommandPattern:
    text = specifier.strip(BLANKS)
    whole_line = text if _OPERATORS.search(text) else ""
    colon = text.endswith(":*")
    words = _rule_words(text[:-2] if colon else text)
    if colon or (len(words) > 1 and words[-1] == _STAR and not any(_STAR in word for word in words[:-1])):
        words = words if colon else words[:-1]
        head = SEPARATOR.join(words)
        if _STAR not in head:
            return CommandPattern((head,), prefix=True, words=len(words), whole_line=whole_line)
        words = [*words, _STAR]  # `git * main:*`: both wildcards count
    joined = SEPARATOR.join(words)
    before = joined.partition(_STAR)[0]
    whole_words = len(words) if _STAR not in joined else before.count(SEPARATOR)
    return CommandPattern(tuple(joined.split(_STAR)), prefix=False, words=whole_words, whole_line=whole_line)


def _rule_words(text: str) -> list[str]:
    """The words of a rule without their quotes, wildcards marked. Invalid quoting is kept as it is."""
    words: list[str] = []
    current: list[str] | None = None
    index = 0
    while index < len(text):
        character = text[index]
        if character in BLANKS:
            if current is not None:
                words.append("".join(current))
                current = None
            index += 1
            continue
        current = [] if current is None else current
        if character == "\\" and index + 1 < len(text):
            current.append(text[index + 1])
            index += 2
        elif character in "'\"":
            close = text.find(character, index + 1)
            if close < 0:
                return [word.replace("*", _STAR) for word in re.split(f"[{BLANKS}]+", text)]
            current.append(text[index + 1 : close])
            index = close + 1
        else:
            current.append(_STAR if character == "*" else character)
            index += 1
    if current is not None:
        words.append("".join(current))
    return words


# --- does a rule match -----------------------------------------------------------------------------------------


def pattern_covers(rule: CommandPattern, words: tuple[ShellWord, ...]) -> bool:
    """For allow rules: by the written name, and whatever the unknown parts are."""
    if not words[0].text.startswith(rule.first):
        return False  # the usual case
    if not rule.prefix and any(word.many for word in words):
        return False  # they may vanish, and the blanks around them with them
    return _matches(rule, SEPARATOR.join([word.text for word in words]))


def match_command(rule: CommandPattern, words: tuple[ShellWord, ...]) -> Match:
    """For deny and ask rules: by the base name too."""
    if not words[0].exact:
        return "maybe" if _may_be_named(rule, words[0]) else "no"
    name = words[0].text
    short = base_name(name)
    if short != rule.name and not (rule.open_name and (short.startswith(rule.name) or name.startswith(rule.parts[0]))):
        return "no"  # the usual case
    result: Match = "no"
    further = words[1:]
    tail = "".join([SEPARATOR + word.text for word in further])
    for head in {name, short}:
        text = head + tail
        for one in _spellings(rule):
            if _matches(one, text):
                return "yes"
            if UNKNOWN in text and _may_match(one, text, further):
                result = "maybe"
    return "maybe" if result == "no" and _in_other_words(rule, further) else result


def _may_be_named(rule: CommandPattern, word: ShellWord) -> bool:
    """Whether a computed name may be the rule's. Of one word the end after the last slash may be known."""
    end = base_name(word.text)
    if word.many or UNKNOWN in end or rule.open_name:
        return True
    return end == rule.name


def _in_other_words(rule: CommandPattern, further: tuple[ShellWord, ...]) -> bool:
    """Whether all words of a rule occur, though with options before, between or in another form: `rm -fr` for `rm -rf`,
    `npm -w x publish` for `npm publish`. It is not known which options have values, so such a match is asked.
    """
    head, *others = rule.parts
    if others:
        return False
    if rule.name == "git" and further and further[0].text.startswith("-"):
        return False  # the options before the subcommand are known, and were skipped
    wanted = head.split(SEPARATOR)[1:]
    plain = [word for word in wanted if not word.startswith("-")]
    left = len(plain)
    after_option = False
    for word in further:
        if word.text.startswith("-"):
            after_option = True
            continue
        if left and word.text == plain[len(plain) - left]:
            left -= 1
        elif not after_option and (left or rule.is_exact):
            return False
        after_option = False
    options = [word for word in wanted if word.startswith("-")]
    return bool(wanted) and not left and _has_options(options, [word.text for word in further])


def _has_options(wanted: list[str], given: list[str]) -> bool:
    letters = {letter for text in given for letter in _letters(text)}
    for option in wanted:
        spelled = _letters(option)
        if option in given or (spelled and letters.issuperset(spelled)):
            continue
        if not any(len(text) > 3 and text.startswith("--") and option.startswith(text) for text in given):
            return False
    return True


def _letters(text: str) -> str:
    """The short options in a word. `-R` is `-r` where both exist."""
    if text.startswith("--"):
        return next((letter for name, letter in _LONG.items() if len(text) > 3 and name.startswith(text)), "")
    return text[1:].lower() if text.startswith("-") and text[1:].isalpha() else ""


def assignment_word(assign: Assignment) -> ShellWord:
    """`NAME=value` before a command, as a word: for rules that name it."""
    value = assign.value
    return ShellWord(f"{assign.name}={UNKNOWN if value is None else value.text}", -1)


def _spellings(rule: CommandPattern) -> list[CommandPattern]:
    """`/bin/rm` in a rule is also `rm`."""
    head, *others = rule.parts
    first = head.partition(SEPARATOR)[0]
    if "/" not in first or (others and SEPARATOR not in head):
        return [rule]
    return [rule, rule._replace(parts=(base_name(first) + head[len(first) :], *others))]


def _matches(rule: CommandPattern, text: str) -> bool:
    if rule.prefix:
        head = rule.parts[0]
        return text.startswith(head) and (len(text) == len(head) or text[len(head)] == SEPARATOR)
    return glob_matches(rule.parts, text)


def _may_match(rule: CommandPattern, text: str, words: tuple[ShellWord, ...]) -> bool:
    """Whether some value of the unknown parts makes it match. Errs on the side of yes."""
    before, _, after = text.partition(UNKNOWN)
    after = after.rpartition(UNKNOWN)[2]
    if any(word.many for word in words):  # it may vanish, and its blank with it
        before, after = before.rstrip(SEPARATOR), after.lstrip(SEPARATOR)
    head, tail = rule.parts[0], rule.parts[-1]
    if rule.prefix or len(rule.parts) > 1:
        starts = head.startswith(before) or before.startswith(head)
        return starts and (rule.prefix or tail.endswith(after) or after.endswith(tail))
    return head.startswith(before) and head.endswith(after) and len(head) >= len(before) + len(after)


def line_matches(rule: CommandPattern, line: str) -> bool:
    """For deny and ask rules with operators in them, such as `curl * | sh`: against the whole line."""
    if not rule.whole_line or not line.lstrip().startswith(rule.line_start):
        return False  # the usual case
    text = " ".join(line.split())
    start = rule.whole_line.removesuffix(":*")
    parts = [" ".join(part.split()) for part in start.split("*")]
    return glob_matches(parts, text) or (
        start != rule.whole_line and glob_matches([*parts[:-1], parts[-1] + " ", ""], text)
    )


CHDIR = {"env": frozenset({"-C", "--chdir"}), "sudo": frozenset({"-D", "--chdir"})}
_MOVERS = frozenset({*CHDIR, "cd", "pushd", "popd"})
MOST_FOLDERS = 16  # with more, the folder of the line is not known


class WorkingDirectories(Value):
    cwds: tuple[str, ...]  # the working folder, and the targets of each `cd`
    moves: bool  # there is a `cd` to another folder
    known: bool
    inside: bool  # all of those are in the working folders
    lost: bool  # it may be in a folder that is not among `cwds`
    full: bool  # there are more: it is asked, since a limit must not hide one of them (security S10)


def find_working_directories(sight: CommandAnalysis, files: FileRules) -> WorkingDirectories:
    """The folders in which the commands of the line may run."""
    cwds = [files.cwd]
    moves, known, lost = False, True, False
    pushed = 0  # folders that a `popd` may return to, all of them among `cwds`
    for seen in sight.commands:
        first = seen.words[0]
        if base_name(first.text) not in _MOVERS:
            continue  # the usual case
        chdir = CHDIR.get(base_name(first.text))
        if chdir is not None and len(cwds) <= MOST_FOLDERS:
            for text, word in option_values(chdir, seen.words[:MOST_FOLDERS]):
                moves = True
                known = known and word.exact
                lost = lost or not word.exact
                cwds.append(posixpath.normpath(posixpath.join(files.cwd, text.replace(UNKNOWN, "x"))))
        if not first.exact or first.text not in ("cd", "pushd", "popd"):
            continue
        operands = [word for word in seen.words[1:] if word.text not in ("-L", "-e", "--", "-n")]
        if (
            first.text == "popd"
            or len(operands) != 1
            or not operands[0].exact
            or operands[0].text.startswith(("-", "+"))
        ):
            moves, known = True, False
            back = first.text == "popd" and not operands and pushed > 0
            pushed -= back
            lost = lost or not back
            continue
        pushed += first.text == "pushd"
        target = operands[0]
        text = files.policy.home + target.text[1:] if target.tilde else target.text
        for old in tuple(cwds):
            new = posixpath.normpath(posixpath.join(old, text))
            if new not in cwds:
                cwds.append(new)
                moves = True
        if len(cwds) > MOST_FOLDERS:  # each may double them
            break
    full = len(cwds) > MOST_FOLDERS
    known = known and not full
    del cwds[MOST_FOLDERS:]
    inside = all(files.is_inside(place) for place in cwds[1:])
    return WorkingDirectories(tuple(cwds), moves=moves, known=known, inside=known and inside, lost=lost, full=full)
