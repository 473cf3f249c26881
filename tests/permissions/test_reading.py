"""What the reader makes of single lines: the words, or why it does not say."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.permissions.commands import parse_command_pattern
from mainspring.permissions.shell import parse
from mainspring.permissions.shell.analyze import MOST_NESTED, analyze_command
from mainspring.permissions.shell.grammar import ScriptReader
from mainspring.permissions.shell.parse import parse_shell_script
from mainspring.permissions.shell.values import UNKNOWN, ShellScript
from permissions.deciding import bash
from permissions.shell_lines import Lines

WORDS = [
    (r"a $'x\ty\'z\\'", [["a", "x\ty'z\\"]]),
    (r"a $'\a\b\e\f\n\r\v\"\?'", [["a", '\a\b\x1b\f\n\r\v"?']]),
    (r"a $'\101\x42\u0043\U00000044'", [["a", "ABCD"]]),
    ("a ${x} ${#x} ${x:-y} ${x:1:2} ${x%.*} ${x//a/b} ${x^^} ${x[0]}", [["a", *[UNKNOWN] * 8]]),
    ('a "${x[@]}" "$@" ${1} $* $!', [["a", *[UNKNOWN] * 5]]),
    ("a=1 b= c=(x y) d", [["d"]]),
    ("a=b; c", [[], ["c"]]),
    ("x[0]=1 y+=2 z", [["z"]]),
    ("for f; do a; done", [[], ["a"]]),
    ("for f in a b\ndo c\ndone", [[], ["c"]]),
    ("for ((i=0; i<3; i++))\ndo a; done", [["a"]]),
    ("for ((;;)); do a; done", [["a"]]),
    ("case x in (a) b;; c) ;; esac", [["b"]]),
    ("case x in a) b;& c) d;;& e) f\nesac", [["b"], ["d"], ["f"]]),
    ("[[ ( a == b || $c != d ) && e < f && g > h ]]", []),
    ("[[ $x =~ ^(a|b)$ ]] && c", [["c"]]),
    ("[[ $x =~ 'a b' || $x =~ a\"b\" ]] && c", [["c"]]),
    ("[[ $x =~ a\\ b ]] && c", [["c"]]),
    ("[[ 5 -gt 3 && y -lt 5 ]] && c", [["c"]]),
    ("((1+2)); a", [["a"]]),
    ("a 2>&1 >b 3<>c <&4 &>d", [["a"]]),
    ("a 2&>b", [["a", "2"]]),
    ("{ a; } 2>b", [["a"]]),
    ("a <<-E\n\tx\n\tE\nb", [["a"], ["b"]]),
    ("a <<\\E\n$(x)\nE\nb", [["a"], ["b"]]),
    ("a <<E\n\\$x $y ${z}\nE", [["a"]]),
    ("a ~ ~/b c~ x=~/y", [["a", "~", "~/b", "c~", f"x={UNKNOWN}/y"]]),
    ("a ~b/c", [["a", f"{UNKNOWN}/c"]]),
    ("a [b] [!c]d x[ab]", [["a", UNKNOWN, f"{UNKNOWN}d", f"x{UNKNOWN}"]]),
    ("a=[x]* b", [["b"]]),
    ("a {b} {} x{y}z {a,b} {1..3} a@{1}..b", [["a", "{b}", "{}", "x{y}z", UNKNOWN, UNKNOWN, "a@{1}..b"]]),
    ("a $ b$ \"$\" '$' $%", [["a", "$", "b$", "$", "$", "$%"]]),
    ('a "\\x \\" \\$ \\` \\\\"', [["a", '\\x " $ ` \\']]),
    ("a <(b) >(c) d<(e)", [["b"], ["c"], ["e"], ["a", UNKNOWN, UNKNOWN, f"d{UNKNOWN}"]]),
    ("a # b\n#c\nd", [["a"], ["d"]]),
    ("", []),
    ("  \n # x", []),
    ("f () (a)", [["a"]]),
    ("function g()\n{ a; }", [["a"]]),
    ("time -p a", [["time", "-p", "a"]]),
    ("x=5 y=$((x+1)); for i in 1 2 {3..5}; do ((z=i)); a $((i+y)); done", [[], [], ["a", UNKNOWN]]),
]


@pytest.mark.parametrize(("line", "words"), WORDS)
def test_words(line: str, words: list[list[str]]) -> None:
    script = ScriptReader(line).script()
    assert script.unclear == ""
    assert [[word.text for word in command.words] for command in script.commands] == words


UNCLEAR = [
    ("a ${x[$(b)]}", "expansion"),
    ("a $[1]", "$["),
    ('a "$[1]"', "$["),
    ('a $"b"', '$"'),
    ("a $'b", "without an end"),
    ("a $'\\0'", "escape"),
    ("a $'\\xff'", "escape"),
    ("a $'\\ud800'", "escape"),
    ("a $'\\x'", "escape"),
    ("a $'\\x1f'", "separator"),
    ("a $((b[1]))", "arithmetic"),
    ("a $((1)2))", "arithmetic"),
    ("a $((1", "arithmetic"),
    ("a $((b c))", "arithmetic"),
    ("a `b", "backtick"),
    ("a 'b", "quote"),
    ('a "b', "quote"),
    ('a "b\\', "backslash"),
    ("a b\\", "backslash"),
    ('a "$\\\n(b)"', "backslash"),
    ("a b\\\nc", "backslash"),
    ("a [$x]", "character class"),
    ("a[1|b]", "bracket"),
    ("a {x}>b", "descriptor"),
    ("a 2<(b)", "descriptor"),
    ("a <<E", "here-document"),
    ("a <<E\nb", "here-document"),
    ("a <<E $(b)\nE", "between"),
    ("a $(b <<E)", "here-document"),
    ("a $(b <<E\nx\nE\nc)", "one substitution"),
    ("a <<'E F'\nE F", "end mark"),
    ("a <<E\n`b`\nE", "backtick"),
    ("( a", "no `)`"),
    ("{ a", "no `}`"),
    ("()", "empty"),
    ("if a; b", "no `"),
    ("while a; do b", "no `"),
    ("for 1 in a; do b; done", "loop"),
    ("for ((a b)); do c; done", "arithmetic"),
    ("for ((a", "three parts"),
    ("for x in a; { b; }", "no `do`"),
    ("case x of", "no `in`"),
    ("case x in a b) c;; esac", "without `)`"),
    ("[[ a -eq b+1 ]]", "neither"),
    ("[[ -v $x ]]", "variable"),
    ("[[ -v a[1 ]]", ""),
    ("[[ a", "unexpected"),
    ("then() { a; }", "function"),
    ("f() a", "body"),
    ("f() 5", "body"),
    ("a;; b", "unexpected"),
    ("a ) b", "unexpected"),
    ("a (b)", "unexpected"),
    ("then a", "then"),
    ("time { a; }", "time"),
    ("a=(b", "without `)`"),
    ("a=([0]=b)", "keys"),
    ("a=b(c)", "("),
    ("x=y; echo $((x))", "arithmetic on 'x'"),
    ("for x; do echo $((x)); done", "arithmetic on 'x'"),
    ("a ${x:=b}; echo $((x))", "arithmetic on 'x'"),
    ("read x; echo $((x))", "arithmetic on 'x'"),
    ("x=$y; [[ $x -eq 1 ]]", "arithmetic on 'x'"),
    ("$x", "computed"),
    ("é\u00a0x", "outside quotes"),
    ("( a " * 20, "unexpected"),
    ("( " * 60 + "a" + ")" * 60, "levels"),
    ("a | | b", "unexpected"),
    ("a |", "missing"),
    ("> ", "unexpected"),
]


@pytest.mark.parametrize(("line", "why"), UNCLEAR)
def test_what_is_not_read(line: str, why: str) -> None:
    found = ScriptReader(line).script().unclear
    assert found
    assert why in found


def test_the_second_reader_objects_where_it_sees_something_else() -> None:
    assert parse.find_reader_difference("a; b", parse_shell_script("a; b")) == ""
    assert "different" in parse.find_reader_difference("a; b", ShellScript(parse_shell_script("a").commands))
    assert "error" in parse.find_reader_difference("a )", parse_shell_script("a"))
    assert parse.find_reader_difference("é; b 日本 && c", parse_shell_script("é; b 日本 && c")) == ""
    assert "finds ERROR" not in parse.find_reader_difference("a", parse_shell_script("a"))


def test_the_second_reader_knows_a_fixed_set_of_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "KNOWN", parse.KNOWN - {"pipeline"})
    assert parse.find_reader_difference("a | b", parse_shell_script("a")) == "the second reader finds pipeline"


def test_many_nested_strings_are_searched_instead_of_read() -> None:
    line = " ; ".join(f"sh -c 'a{number} b'" for number in range(MOST_NESTED + 5))
    sight = analyze_command(line)
    assert any("nested" in why for why in sight.opaque)
    assert len(sight.unread) == 6
    assert bash(line + "; sh -c 'rm x'", allow=["Bash"], deny=["Bash(rm:*)"]) == "deny"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("trap", []),
        ("trap - EXIT", []),
        ("trap -- 'x y' EXIT", ["x y"]),
        ("eval ''", []),
        ("tar -Ix y", ["x"]),
        ("env - rm x", ["rm x"]),
        ("env A=1 -x rm y", ["rm y"]),
        ("timeout $x rm y", ["rm y"]),
        ("bash -- x", []),
        ("bash -c", []),
        ("node --inspect x.js", []),
        ("find . -exec a \\; -exec b +", ["a", "b"]),
        ("git -$x push", []),
        ("chroot $x rm y", ["rm y"]),
        ("timeout -- $x rm y", ["rm y"]),
        ("bash - x", []),
    ],
)
def test_what_is_looked_through(line: str, found: list[str]) -> None:
    seen = {" ".join(word.text for word in one.words) for one in analyze_command(line).commands}
    assert set(found) <= seen


@pytest.mark.parametrize(
    ("given", "command", "wanted"),
    [
        ({"allow": ["Bash(git * main:*)"]}, "git x main y", "allow"),
        ({"allow": ["Bash(git * main:*)"]}, "git x", "ask"),
        ({"allow": ["Bash(npm 'x)"]}, 'npm "\'x"', "allow"),
        ({"allow": ["Bash(npm  x )"]}, "npm x", "allow"),
        ({"allow": ["Bash(cargo * y)"]}, "cargo $x y", "ask"),
        ({"allow": ["Bash(cargo * y)"]}, 'cargo "$x" y', "allow"),
        ({"allow": ["Bash(watch -x ls:*)"]}, "watch -x ls y", "ask"),
        ({"allow": ["Bash(sudo --bogus ls:*)"]}, "sudo --bogus ls y", "ask"),
        ({"allow": ["Bash(sudo find:*)"]}, "sudo find . -delete", "ask"),
        ({"allow": ["Bash(git:*)"]}, "git -$x push", "ask"),
        ({"allow": ["Bash(ls 'x)"]}, "ls 'x", "allow"),
        ({"deny": ["Read(x)"], "allow": ["Bash"]}, "npm y > $z", "ask"),
        ({"deny": ["Read(x)"], "allow": ["Bash"]}, "cargo $y", "ask"),
        ({"deny": ["Edit(x)"], "allow": ["Bash"]}, "cargo $y", "allow"),
        ({"deny": ["Bash(rm:*)"], "allow": ["Bash"]}, "npm install $y", "allow"),
        ({"deny": ["Bash(rm:*)"], "allow": ["Bash"]}, "npm $y", "ask"),
        ({"deny": ["Bash(rm:*)"], "allow": ["Bash"]}, "kubectl -n x exec y -- rm z", "ask"),
        ({"deny": ["Edit(d)"], "allow": ["Bash"]}, "cp -t d x", "deny"),
        ({"deny": ["Edit(d)"], "allow": ["Bash"]}, "cp --target-directory=d x", "deny"),
        ({"deny": ["Bash(rm* x)"], "allow": ["Bash"]}, "ls 'y; rmdir x", "deny"),
        ({"deny": ["Bash(rm* x)"], "allow": ["Bash"]}, "ls 'y; rmdir z", "ask"),
        ({"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, "sed -f x y", "ask"),
        ({"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, "sed -- p y", "allow"),
        ({"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, "awk -F: -- '{print}' y", "allow"),
        ({"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, "awk -F , --", "allow"),
        ({"deny": ["Bash(curl:*)"], "allow": ["Bash"]}, "python3 -u x.py", "allow"),
        ({"allow": ["Bash(find . -name x -delete)"]}, "timeout 5 find . -name x -delete", "allow"),
        ({"allow": ["Bash"]}, "rm -rf $x/a/*", "ask"),
        ({}, "cat -- x", "allow"),
        ({}, "cat -", "allow"),
        ({}, "git log -- x", "allow"),
        ({}, "git log - x", "allow"),
        ({}, "npm < $x", "ask"),
        ({"allow": ["Bash"]}, "npm < $x", "allow"),
        ({"allow": ["Bash"]}, "npm < /etc/hosts", "allow"),
        ({"allow": ["Bash"]}, "rm -rf $x/.. ", "ask"),
        ({"allow": ["Bash"]}, "rm -rf {a,$b}", "ask"),
        ({"allow": ["Bash"]}, "rm ''", "allow"),
        ({"allow": ["Bash"]}, "; ".join(f"cd a{n}" for n in range(20)) + "; npm > x", "ask"),
        ({"allow": ["Bash"]}, "cd a\0; git x", "allow"),
        ({"allow": ["Bash"]}, "cd " + "a" * 5_000 + "; git x", "ask"),
        ({"deny": ["Read(" + "a" * 3_000 + "/" + "b" * 900 + "/x/**)"], "allow": ["Bash"]}, "cat x", "allow"),
        ({"deny": ["WebFetch"], "allow": ["Bash"]}, "npm x", "allow"),
        ({}, "$x", "ask"),
    ],
)
def test_corners(given: dict[str, list[str]], command: str, wanted: str) -> None:
    assert bash(command, **given) == wanted


@given(st.integers(0, 1_000_000))
def test_no_line_breaks_the_reader(seed: int) -> None:
    analyze_command(Lines(seed).line())


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    analyze_command(text)
    parse_command_pattern(text)


@given(st.lists(st.text("ab '\"\\$`*?~#!;&|<>(){}[]=\n\té", min_size=1, max_size=8), min_size=1, max_size=4))
def test_s3_quoted_words_are_read_back(words: list[str]) -> None:
    line = "x " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    script = parse_shell_script(line)
    assert script.unclear == ""
    assert [word.text for word in script.commands[0].words] == ["x", *words]


@given(
    st.lists(
        st.text(re.sub(r"[^ -~]", "", "abc '\"\\$`*?~#!;&|<>(){}[]="), min_size=1, max_size=8), min_size=1, max_size=4
    )
)
def test_s3_and_so_are_words_in_double_quotes_and_escaped_ones(words: list[str]) -> None:
    double = "x " + " ".join('"' + re.sub(r'([$`"\\])', r"\\\1", word) + '"' for word in words)
    escaped = "x " + " ".join(re.sub(r"(.)", r"\\\1", word) for word in words)
    for line in (double, escaped):
        script = ScriptReader(line).script()
        assert script.unclear == ""
        assert [word.text for word in script.commands[0].words] == ["x", *words]


def test_the_second_reader_is_imported_at_the_first_line_that_needs_it() -> None:
    code = (
        "import sys\n"
        "from mainspring.permissions.shell.parse import parse_shell_script\n"
        "parse_shell_script('npm test')\n"
        "assert 'tree_sitter' not in sys.modules\n"
        "parse_shell_script('npm test $x')\n"
        "assert 'tree_sitter' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
