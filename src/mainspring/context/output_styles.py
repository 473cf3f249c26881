"""Output styles: texts that change how the model works and answers, and replace parts of our system prompt.

Every style replaces our instructions for brief answers. A style of the user or the project also replaces those for
coding, unless its frontmatter has `keep-coding-instructions: true`. Its text is at the end of the system prompt. A
project's styles follow the rules for its skills (security T1).
"""

from __future__ import annotations

from mainspring.context.frontmatter import split_frontmatter
from mainspring.context.skills import MarkdownLibrary, describe_entry, list_folder, shorten_body
from mainspring.core.errors import ToolError, UsageError
from mainspring.core.value import Value

DEFAULT = "default"
SORT = "output-styles"  # the name of the directory
SUFFIX = ".md"
LONGEST_NAME = 64
TRUE = ("true", "yes", "on")

PROACTIVE = """\
Act on your own judgement. When the next step is clear, take it instead of proposing it: find out what you can by \
looking, decide small questions yourself, and go on until the work is done and checked. Ask only where a decision is \
the user's to make and a wrong one would be hard to undo. At the end say what you decided for the user, and why."""

CONCISE = """\
Answer in as few words as carry the answer: a result, a path, a number, a short sentence. No introduction, no summary \
of what the user just saw, no offers. Explain only what was asked for, and what would surprise the user."""

EXPLANATORY = """\
Help the user understand the code while you do the work. Before and after you write code, explain the choices that \
matter here: why this way, how it fits what is there, what the alternative would cost. Set such a remark apart:

★ Insight
- two or three points about this code base or this change, not about programming in general
★

Remarks may make your answers longer than usual. They go into the conversation, never into the code."""

LEARNING = """\
Help the user learn by doing the work together. Explain as you go: after a piece of work, set a short remark apart, \
headed "★ Insight", with two or three points about this code base.

Where a decision is worth thinking about (an algorithm, error handling, a data structure, the wording of something \
users see), leave 2 to 10 lines to the user instead of writing them yourself:
- First prepare the place: write the code around it, and put exactly one comment `TODO(human)` where the lines belong.
- Then ask, headed "● Learn by Doing", with the context (what exists, why it matters), the task (the function or file, \
and what the lines must do) and guidance (the trade-offs to weigh). Then stop and wait for the user.
- When the user has written them, say one thing that their choice brings with it. No praise, no repetition.

Do not hand over boilerplate or what has only one right answer."""


class OutputStyle(Value):
    name: str
    about: str
    path: str = ""  # empty: built in
    keeps_coding: bool = False  # the instructions for coding stay
    project: bool = False
    text: str = ""  # of a built-in style


BUILT_IN = {
    style.name: style
    for style in (
        OutputStyle(DEFAULT, "Completes the work and answers briefly", keeps_coding=True),
        OutputStyle("Proactive", "Acts without asking where it can", keeps_coding=True, text=PROACTIVE),
        OutputStyle("Concise", "Answers in as few words as possible", keeps_coding=True, text=CONCISE),
        OutputStyle(
            "Explanatory", "Explains its choices and the code base while it works", keeps_coding=True, text=EXPLANATORY
        ),
        OutputStyle("Learning", "Leaves small pieces of code to you, and explains", keeps_coding=True, text=LEARNING),
    )
}


class OutputStyles(MarkdownLibrary[OutputStyle]):
    """The styles of the user and the project."""

    noun = "output style"
    fields = frozenset({"name", "description", "keep-coding-instructions"})

    def files(self, folder: str, *, project: bool) -> list[str]:  # noqa: ARG002  # links are looked at with the file
        return [f"{folder}/{name}" for name in list_folder(folder) if name.endswith(SUFFIX)]

    def describe(self, path: str, folder: str, text: str, *, project: bool) -> OutputStyle:  # noqa: ARG002
        head = split_frontmatter(text)
        fields = head.fields
        name = (fields.get("name") or path.rpartition("/")[2].removesuffix(SUFFIX)).strip()
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise UsageError(f"its name must have 1 to {LONGEST_NAME} characters, and none that control a terminal")
        keeps = fields.get("keep-coding-instructions", "").strip().lower() in TRUE
        return OutputStyle(name, describe_entry(fields, head.body), path, keeps_coding=keeps, project=project)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*BUILT_IN, *self.by_name]))

    def find(self, name: str) -> OutputStyle:
        """With its text. A style in a file replaces a built-in one of the same name. Raises `UsageError`."""
        style = self.by_name.get(name)
        if style is None:
            if name in BUILT_IN:
                return BUILT_IN[name]
            raise UsageError(f"unknown output style '{name}'. Available: {', '.join(self.names)}")
        try:
            return OutputStyle(
                style.name, style.about, style.path, style.keeps_coding, style.project,
                shorten_body(self.body(style), style.path),
            )  # fmt: skip
        except ToolError as error:
            raise UsageError(str(error)) from None
