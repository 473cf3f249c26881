"""The model's text as Markdown: rich's renderer, with these differences.

- A list or a heading looks the same alone or with the text that follows it: blocks are printed as they are settled.
- Nothing disappears: tags are text, an image is its description, a link shows its address. References are not resolved,
  since their definitions come after the text is printed.
- Colours are the terminal's own sixteen, without a background: readable on dark and on light.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from io import StringIO
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_block import table
from markdown_it.token import Token
from pygments.token import (  # type: ignore[import-untyped]  # it brings no types
    Comment,
    Generic,
    Keyword,
    Name,
    Number,
    Operator,
    String,
)
from rich import box, markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from mainspring.cli.tui.layout import NARROWEST, TAB, THEME, cuts_of, strip_blank_lines, text_of, wrap_text

INDENT = 2  # columns before code and before continuation lines: it reads as code without colours
PLAIN = frozenset(("bash", "sh", "shell", "zsh", "console", "text"))  # 'text': no language given
LEAST_COLUMN = 6  # of a table: with less for each, print the rows as lists

COLOURS = ANSISyntaxTheme(
    {
        Comment: Style(dim=True, italic=True),
        Keyword: Style(color="magenta"),
        Operator.Word: Style(color="magenta"),
        Name.Builtin: Style(color="cyan"),
        Name.Function: Style(color="blue"),
        Name.Class: Style(color="blue", bold=True),
        Name.Decorator: Style(color="cyan"),
        Name.Tag: Style(color="magenta"),
        Name.Attribute: Style(color="cyan"),
        String: Style(color="green"),
        Number: Style(color="cyan"),
        Generic.Deleted: Style(color="red"),
        Generic.Inserted: Style(color="green"),
        Generic.Heading: Style(bold=True),
        Generic.Subheading: Style(color="cyan"),
    }
)


class MarkdownHeading(markdown.Heading):
    LEVEL_ALIGN: ClassVar = {}  # no heading is centred


class MarkdownCode(markdown.CodeBlock):
    hasty = False

    @classmethod
    def create(cls, markdown: markdown.Markdown, token: Token) -> MarkdownCode:
        made = cls(token.info.partition(" ")[0] or "text", "")
        made.hasty = isinstance(markdown, MarkdownText) and markdown.hasty
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's own code layout takes five times as long, and pads each line with spaces."""
        code = self.text.plain.rstrip().expandtabs(TAB)
        if self.hasty:
            lines = [line_of_code(self.lexer_name, line).copy() for line in code.split("\n")]
        else:
            lines = list(highlight_code(self.lexer_name, code).split("\n", allow_blank=True))
        by = min(INDENT, max(0, options.max_width - NARROWEST))
        for line in lines:
            for row in wrap_hanging(line, options.max_width - by):
                made = Text.assemble(" " * by, row)
                made.no_wrap, made.end = True, "\n"
                yield made


def wrap_hanging(line: Text, width: int) -> list[Text]:
    """Indent continuation lines slightly more than the line itself."""
    cuts = cuts_of(line.plain, width)
    if not cuts:
        return [line]
    first, rest = line.divide(cuts[:1])
    indent = len(line.plain) - len(line.plain.lstrip(" "))
    by = min(indent + INDENT, width // 2, max(0, width - NARROWEST))
    return [first, *[Text.assemble(" " * by, row) for row in wrap_text(rest, width - by)]]


@lru_cache(maxsize=256)  # a few screens
def line_of_code(language: str, line: str) -> Text:
    return highlight_code(language, line)


def highlight_code(language: str, code: str) -> Text:
    made = make_syntax(language).highlight(code)
    made.rstrip()
    if language.lower() in PLAIN:
        made.stylize_before("code.plain")
    return made


@lru_cache(maxsize=32)  # finding the lexer of a language takes a millisecond
def make_syntax(language: str) -> Syntax:
    return Syntax("", language, theme=COLOURS)


class MarkdownList(markdown.ListElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = 1 if self.list_start is None else self.list_start
        for number, item in enumerate(self.items, first):
            mark = "- " if self.list_type == "bullet_list_open" else f"{number}. "
            yield from render_with_mark(item.elements, mark, mark_style(console, item), console, options)


def mark_style(console: Console, item: markdown.ListItem) -> Style:
    return console.get_style("markdown.item.number") + item.style


class MarkdownQuote(markdown.BlockQuote):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = console.get_style("frame")
        for line in render_indented(self.elements, 2, console, options, self.style):
            yield Segment("│ ", style)
            yield from line
            yield Segment.line()


class MarkdownRule(markdown.HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("─" * min(options.max_width, 20), style="frame")


class MarkdownTable(markdown.TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        if len(heads) * LEAST_COLUMN > options.max_width:
            yield from render_table_as_list(heads, rows)
            return
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, border_style="frame", header_style="bold")
        for head in heads:
            drawn.add_column(head, overflow="fold")
        for row in rows:
            drawn.add_row(*row)
        yield drawn


def render_table_as_list(heads: list[Text], rows: list[list[Text]]) -> Iterable[Text]:
    """For tables with more columns than the terminal has room for."""
    if not rows:
        yield Text(" · ").join(heads)
    for row in rows:
        for head, cell in zip(heads, row, strict=False):
            yield Text.assemble(Text.assemble(head, ": ", style="bold"), cell)
        yield Text()


def render_with_mark(
    inner: object, mark: str, style: Style, console: Console, options: ConsoleOptions
) -> Iterable[Segment]:
    for at, line in enumerate(render_indented(inner, len(mark), console, options, Style.null())):
        yield Segment(" " * len(mark) if at else mark, style)
        yield from line
        yield Segment.line()


def render_indented(
    inner: object, by: int, console: Console, options: ConsoleOptions, style: Style
) -> list[list[Segment]]:
    narrower = options.update(width=max(NARROWEST, options.max_width - by))
    return console.render_lines(inner, narrower, style=style, pad=False)  # type: ignore[arg-type]


class MarkdownText(markdown.Markdown):
    elements: ClassVar = {
        **markdown.Markdown.elements,
        "heading_open": MarkdownHeading,
        "fence": MarkdownCode,
        "code_block": MarkdownCode,
        "bullet_list_open": MarkdownList,
        "ordered_list_open": MarkdownList,
        "blockquote_open": MarkdownQuote,
        "hr": MarkdownRule,
        "table_open": MarkdownTable,
    }

    def __init__(self, text: str, number: int = 0, *, hasty: bool = False) -> None:
        """`number`: of the first item, if the text continues a numbered list. `hasty`: the text is drawn repeatedly as
        it grows, so each line of code is highlighted alone and once; multi-line constructs get their colours when the
        block is settled."""
        self.hasty = hasty
        # Do not call rich's constructor: it makes a parser for each text, which takes longer than parsing.
        self.markup, self.style, self.justify = text, "none", None
        self.code_theme = self.inline_code_theme = ""
        self.inline_code_lexer = None
        self.hyperlinks = True  # there are none: `flatten_links` converts them to text
        self.parsed = make_parser().parse(text)
        for token in self.parsed:
            if token.children:
                token.children = list(flatten_links(token.children))
        first = self.parsed[0] if self.parsed else None
        if number and first is not None and first.type == "ordered_list_open":
            first.attrs["start"] = number


@cache
def make_parser() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("strikethrough")
    made.disable(["reference", "html_block", "html_inline"])
    # Last, as on GitHub: an item or a heading with a bar in it is not a table, whatever line follows.
    made.block.ruler.before("lheading", "late_table", table, {"alt": ["paragraph", "reference"]})
    return made


def flatten_links(tokens: list[Token]) -> Iterable[Token]:
    """Convert links and images to text, and append the address if it differs."""
    begun: list[tuple[str, list[str]]] = []  # open links: the address, and the text so far
    for token in tokens:
        if token.type == "link_open":
            begun.append((str(token.attrs.get("href", "")), []))
            continue
        if token.type == "link_close":
            address, words = begun.pop()
            if address.removeprefix("mailto:") != "".join(words):
                yield Token("text", "", 0, content=f" ({address})")
            continue
        word = image_to_text(token) if token.type == "image" else token
        if begun:
            begun[-1][1].append(word.content)
        yield word


def image_to_text(token: Token) -> Token:
    return Token("text", "", 0, content=f"{token.content} ({token.attrs.get('src', '')})".lstrip())


# --- lines ----------------------------------------------------------------------------------------------------------


@cache
def make_console() -> Console:
    """For layout only: nothing is written to it."""
    return Console(
        file=StringIO(), force_terminal=True, color_system="standard", theme=THEME, width=80, height=25,
        legacy_windows=False, _environ={},
    )  # fmt: skip


def lines_of(prose: MarkdownText, width: int, *, goes_on: bool = False) -> list[Text]:
    """`goes_on`: the text continues a code block, so blank lines at its beginning are kept."""
    options = make_console().options.update(width=max(NARROWEST, width))
    lines = [text_of(line) for line in make_console().render_lines(prose, options, pad=False)]
    return strip_blank_lines(lines, beginning=not goes_on)
