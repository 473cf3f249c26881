"""Makes shell lines from a seed: what people write, what hides commands, and both with small injuries."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

PROGRAMS = ("alpha", "beta", "gamma", "delta")
INJURIES = [
    *"'\"\\`$(){}[]<>|&;#!*?~=^%,: \t\n",
    "$(",
    "`",
    "${",
    "$'",
    '$"',
    "<<",
    "<(",
    "\\\n",
    "&&",
    "||",
    ";;",
    "$((",
    "))",
    "]]",
    "[[",
]


class Lines:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def line(self) -> str:
        text = self.statements(3)
        while self.random.random() < 0.3:
            at = self.random.randrange(len(text) + 1)
            if self.random.random() < 0.3:
                text = text[:at] + text[at + 1 :]
            else:
                text = text[:at] + self.random.choice(INJURIES) + text[at:]
        return text

    def pick(self, *makers: Callable[[], str]) -> str:
        return self.random.choice(makers)()

    def statements(self, depth: int) -> str:
        separators = ["; ", " && ", " || ", " | ", " |& ", "\n", " & ", ";", "&&", "|", " &&\n", " |\n"]
        parts = [self.statement(depth)]
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            parts += [self.random.choice(separators), self.statement(depth)]
        return "".join(parts)

    def statement(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.6:
            return self.simple(depth)

        def inner() -> str:
            return self.statements(depth - 1)

        return self.pick(
            lambda: f"({inner()})",
            lambda: f"{{ {inner()}; }}",
            lambda: f"if {self.simple(0)}; then {inner()}; fi",
            lambda: f"if fails; then {inner()}\nelse {inner()}; fi",
            lambda: f"for v in {self.word(0)} {self.word(0)}; do {inner()}; done",
            lambda: f"while {inner()}; do break; done",
            lambda: f"until true; do {inner()}; done",
            lambda: f"case {self.word(0)} in a|b) {inner()};; *) {inner()} ;; esac",
            lambda: (
                f"f{depth}() {{ {inner()}; }}; f{depth}"
            ),  # named by its depth: one that called itself would not end
            lambda: f"! {self.simple(depth - 1)}",
            lambda: f"[[ {self.word(0)} == a* ]] && {inner()}",
            lambda: f"[ {self.word(0)} = b ] || {inner()}",
            lambda: f"(( 1 + {self.random.randrange(9)} )) && {inner()}",
            lambda: f"{self.simple(0)} <<E\n{self.body(depth - 1)}\nE\n{self.simple(0)}",
            lambda: f"{self.simple(0)} <<'E'\n{self.body(0)} `beta` $(beta)\nE\n",
            lambda: f"{self.wrapped(depth)}",
            lambda: f"time {self.simple(0)}",
            lambda: f"coproc {self.simple(0)}",
            lambda: f"trap '{self.random.choice(PROGRAMS)} t' EXIT; {inner()}",
            lambda: f"eval '{self.random.choice(PROGRAMS)} e; beta'",
            lambda: f"bash -c '{self.random.choice(PROGRAMS)} \"in bash\" c'",
            lambda: f'sh -c "{self.random.choice(PROGRAMS)} d" x y',
        )

    def wrapped(self, depth: int) -> str:
        simple = self.simple(depth - 1)
        return self.pick(
            lambda: f"env {simple}",
            lambda: f"env -i PATH=/bin A=1 {simple}",
            lambda: f"nice -n 5 {simple}",
            lambda: f"timeout 1 {simple}",
            lambda: f"nohup {simple}",
            lambda: f"command {simple}",
            lambda: f"exec {simple}",
            lambda: f"echo x y | xargs {self.random.choice(PROGRAMS)} z",
            lambda: f"echo x | xargs -n1 -I {{}} {self.random.choice(PROGRAMS)} {{}}",
            lambda: f"find . -maxdepth 0 -exec {self.random.choice(PROGRAMS)} {{}} \\;",
        )

    def simple(self, depth: int) -> str:
        parts = [self.name()]
        parts += [self.word(depth) for _ in range(self.random.choice([0, 1, 1, 2, 3]))]
        if self.random.random() < 0.15:
            parts.insert(0, f"V={self.word(depth)}")
        if self.random.random() < 0.15:
            parts.append(
                self.random.choice([">out", "2>&1", "> /dev/null", "<in", "&>out", ">>out", "<<< text", "2>out"])
            )
        return self.random.choice([" ", " ", " ", "  ", "\t", " \\\n"]).join(parts)

    def name(self) -> str:
        name = self.random.choice(PROGRAMS)
        if self.random.random() < 0.7:
            return name
        cut = self.random.randrange(1, len(name))
        head, tail = name[:cut], name[cut:]
        return self.random.choice(
            [
                f"{head}''{tail}",
                f'{head}""{tail}',
                f"{head}\\{tail}",
                f"'{name}'",
                f'"{name}"',
                f"$'{head}\\x{ord(tail[0]):x}{tail[1:]}'",
                f"/bin/{name}",
                f"\\{name}",
                f'"{head}"{tail}',
                f"{head}$@{tail}",
                f"{head}${{z}}{tail}",
                f"{head}\\\n{tail}",
                f"/bin/{head}?{tail[1:]}",
                f"$'\\{ord(head[0]):03o}{name[1:]}'",
                f"{{{name},x}}",
                f"$(echo {name})",
                f"`echo {name}`",
                f'{head}"$(true)"{tail}',
            ]
        )

    def word(self, depth: int) -> str:
        if depth > 0 and self.random.random() < 0.15:
            inner = self.statements(depth - 1)
            return self.random.choice(
                [f"$({inner})", f'"$({inner})"', f"`{inner}`", f'"x `{inner}`"', f"<({inner})", f"a$({inner})b"]
            )
        return self.random.choice(
            [
                "a",
                "-x",
                "--long=b",
                "a/b.c",
                "'single; beta'",
                '"double && gamma"',
                "a\\ b",
                "\\;",
                "$v",
                '"$v"',
                "${v}",
                '"${v:-d}"',
                "${#v}",
                "$((1+2))",
                "*",
                "a?",
                "[ab]",
                "{a,b}",
                "x{1..2}",
                "~",
                "~/x",
                "a=b",
                "#no",
                "a#b",
                "'#'",
                "!",
                "a!b",
                "{",
                "}",
                "{}",
                "if",
                "then",
                "$",
                '"$"',
                "'",
                "''",
                '""',
                "$'a\\tb'",
                "$'it\\'s'",
                '"a\\"b"',
                '"\\$v"',
                "a\\\nb",
                '"a\\\nb"',
                "é",
                "'日本'",
                "@",
                "a:b",
                "%s",
                "^x",
                "$?",
                "$#",
                '"$@"',
                "a$",
                "[",
                "]",
                "a]",
                "a[1]",
                "--",
                "-",
                ".",
                "..",
                "a,b",
                "'a\nb'",
                '"a\'b"',
                "'a\"b'",
                "$1",
                "a\\'b",
                "stash@{0}",
                "'$(beta)'",
                "'`beta`'",
                '"\\`beta\\`"',
            ]
        )

    def body(self, depth: int) -> str:
        return " ".join(
            self.random.choice(
                [
                    "text",
                    "$v",
                    "'quoted'",
                    '"',
                    "a;b",
                    f"$({self.statements(depth)})" if depth > 0 else "x",
                    "\\$x",
                    "#",
                    "`x`",
                ]
            )
            for _ in range(self.random.randrange(4))
        )
