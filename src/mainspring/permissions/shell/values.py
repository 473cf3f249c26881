"""What is known of a command line after reading it: commands, words, redirects. Frozen values."""

from __future__ import annotations

from mainspring.core.value import Value

UNKNOWN = "\0"  # stands in a word for text that only the shell will know; NUL itself never reaches a word (security S1)


class ShellWord(Value):
    """A word after quote removal."""

    text: str  # with UNKNOWN where an expansion or a glob stands
    start: int
    many: bool = False  # may become no word at all, or several: an unquoted expansion, a glob, a brace list
    glob: bool = False  # the unknown part is made of unquoted glob characters only
    tilde: bool = False  # begins with an unquoted `~` or `~/`
    bare: bool = False  # written without any quoting: only such a word can be a reserved word
    names: tuple[str, ...] = ()  # the variables in it; "(" stands for the output of a command

    @property
    def exact(self) -> bool:
        """One static string."""
        return self.bare or (UNKNOWN not in self.text and not self.many)


class Redirect(Value):
    op: str
    target: ShellWord  # for a here-document: its text


class Assignment(Value):
    name: str
    value: ShellWord | None  # None: a list, `a=(1 2)`


class SimpleCommand(Value):
    """One simple command. Without words it only assigns or redirects."""

    words: tuple[ShellWord, ...]
    assigns: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()


class ShellScript(Value):
    commands: tuple[SimpleCommand, ...]
    redirects: tuple[Redirect, ...] = ()  # of groups, loops and conditions
    functions: tuple[tuple[str, int], ...] = ()  # those that are there for certain, and from where on
    counts: tuple[str, ...] = ()  # variables that arithmetic evaluates, and that are not set to numbers here
    unclear: str = ""  # why not all of it could be read; "" when all of it was

    @property
    def all_redirects(self) -> tuple[Redirect, ...]:
        return (*self.redirects, *[redirect for command in self.commands for redirect in command.redirects])


class UnclearError(Exception):
    """Here the reader would have to guess. The message says what stands in the way."""
