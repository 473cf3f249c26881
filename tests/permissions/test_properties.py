"""One property for each rule of the shell checker, with a generator of its own (security V3)."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from mainspring.permissions.shell.readonly import TABLE
from permissions.deciding import CWD, HOME, bash
from permissions.shell_lines import Lines

RANK = {"allow": 0, "ask": 1, "deny": 2}
ALLOWED = ("npm test", "npm run x", "npm 'a b' \"$c\"", "echo hi", "ls -la", "git status")
OTHER = ("rm x", "curl y", "sudo npm test", "$x", "FOO=1 npm test", "npm test > out", "cat /etc/passwd")
RULES = ("Bash(npm:*)",)
SEEDS = st.integers(0, 10_000_000)

FRAMES = (
    "{} && {}",
    "{} || {}",
    "{}; {}",
    "{} | {}",
    "{} |& {}",
    "{} & {}",
    "{}\n{}",
    "( {}; {})",
    "{{ {}; {}; }}",
    "if {}; then {}; fi",
    "while {}; do {}; break; done",
    "for f in a b; do {}; {}; done",
    "case a in a) {};; *) {};; esac",
    "f() {{ {}; }}; {}",
    'echo $({}) "$({})"',
    "echo <({}) >({})",
    "! {} && {}",
    "echo <<E\n$({})\nE\n{}",
)


@given(
    st.sampled_from(ALLOWED),
    st.integers(0, 30),
    st.sampled_from("\0\x01\x07\x08\x0b\x1b\r\x7f\x85\u061c\u200e\u202a\u202e\u2066\u2069\u2028\ud800\udfff"),
)
def test_s1_a_character_that_hides_something_is_never_allowed(line: str, at: int, character: str) -> None:
    assert bash(line[:at] + character + line[at:], allow=RULES) == "ask"


@given(
    st.lists(st.sampled_from(ALLOWED + OTHER), min_size=2, max_size=2),
    st.lists(st.sampled_from(FRAMES), min_size=1, max_size=3),
    st.sampled_from(ALLOWED),
)
def test_s2_a_line_is_allowed_if_and_only_if_all_of_its_commands_are(
    parts: list[str], frames: list[str], extra: str
) -> None:
    line, clean = frames[0].format(*parts), all(part in ALLOWED for part in parts)
    assert (bash(line, allow=RULES) == "allow") is clean
    for frame in frames[1:]:  # one in another: some such forms are asked, as `$((a; b))` is
        line = frame.format(line, extra) if "<<E" not in line else f"{line}\n{extra}"
        assert clean or bash(line, allow=RULES) == "ask"


def _spelled(word: str, how: int) -> str:
    match how % 6:
        case 0:
            return word
        case 1:
            return f"'{word}'"
        case 2:
            return f'"{word}"'
        case 3:
            return "".join(f"\\{character}" for character in word)
        case 4:
            return "$'" + "".join(f"\\x{ord(character):02x}" for character in word) + "'"
        case _:
            return f"{word[:1]}''{word[1:]}"


@given(st.lists(st.integers(0, 5), min_size=3, max_size=3), st.sampled_from([" ", "  ", "\t", " \\\n "]))
def test_s3_quoting_changes_nothing(how: list[int], blank: str) -> None:
    line = blank.join(_spelled(word, one) for word, one in zip(("npm", "run", "build"), how, strict=True))
    assert bash(line, allow=["Bash(npm run build)"]) == "allow"
    assert bash(line, allow=["Bash(npm run:*)"]) == "allow"
    assert bash(line, allow=["Bash(npm runx:*)", "Bash(npm run buildx)"]) == "ask"
    assert bash(line, allow=["Bash"], deny=["Bash(npm run:*)"]) == "deny"


@given(
    SEEDS,
    st.sampled_from(["Bash(alpha:*)", "Bash(beta a:*)", "Bash(* x)", "Read(out)", "Edit(out)", "Bash(gamma)", "Bash"]),
    st.sampled_from(["default", "acceptEdits", "bypassPermissions", "auto", "plan"]),
)
def test_s4_a_further_rule_against_it_never_gives_more_rights(seed: int, rule: str, mode: str) -> None:
    line = Lines(seed).line()
    for allow in (["Bash"], ["Bash(alpha:*)", "Bash(beta:*)"]):
        before = RANK[bash(line, allow=allow, mode=mode)]
        asked, denied = (
            RANK[bash(line, allow=allow, ask=[rule], mode=mode)],
            RANK[bash(line, allow=allow, deny=[rule], mode=mode)],
        )
        assert before <= asked
        assert before <= denied
        assert (asked == 0) == (denied == 0) or rule == "Read(out)"  # what must not be read must not be written
        assert RANK[bash(line, allow=allow, deny=[rule], mode=mode, hook="allow")] == denied or denied < 2


THROUGH = (
    "timeout 5",
    "timeout -k 1 5s",
    "time",
    "time -p",
    "nice",
    "nice -n 3",
    "nohup",
    "stdbuf -oL",
    "command",
    "CI=1 timeout 5",
)
NOT_THROUGH = (
    "env",
    "sudo",
    "sudo -u x",
    "xargs",
    "setsid",
    "ionice -c 3",
    "exec",
    "doas",
    "strace -f",
    "chroot /x",
    "FOO=1 timeout 5",
    "busybox",
    "unshare -r",
)


@given(st.lists(st.sampled_from(THROUGH + NOT_THROUGH), min_size=1, max_size=5))
def test_s5_chains_of_wrappers(wrappers: list[str]) -> None:
    assume(all("=" not in one for one in wrappers[1:]))
    line = " ".join([*wrappers, "npm test"])
    assume(not any(one.startswith("time ") or one == "time" for one in wrappers[1:]))
    wanted = "allow" if all(one in THROUGH for one in wrappers) else "ask"
    assert bash(line, allow=RULES) == wanted
    assert bash(line, allow=["Bash"], deny=["Bash(npm:*)"]) == "deny"
    fed = any(one == "xargs" for one in wrappers)  # then there are words from elsewhere behind it
    assert bash(line, allow=["Bash"], deny=["Bash(npm test)"]) == ("ask" if fed else "deny")
    assert bash(line, allow=["Bash"], deny=["Bash(npx:*)"]) == "allow"


@given(
    st.sampled_from(
        [
            "env",
            "sudo",
            "xargs",
            "xargs -n1",
            "setsid",
            "bash -c",
            "sh -c",
            "eval",
            "watch",
            "git -c x=y",
            "git -C /x",
            "find . -exec",
            "nsenter -t 1",
        ]
    ),
    st.sampled_from(["rm", "ls", "status", "'rm x'"]),
)
def test_s6_no_prefix_for_the_runner_covers_what_it_runs(runner: str, inner: str) -> None:
    words = runner.split()
    for length in range(1, len(words) + 1):
        assert bash(f"{runner} {inner} x", allow=[f"Bash({' '.join(words[:length])}:*)"]) == "ask"


@given(
    st.sampled_from([">", ">>", ">|", "&>", "&>>", ">&", "2>", "1>>", "<>"]),
    st.lists(st.sampled_from(["a", "b", "..", "."]), min_size=1, max_size=4),
    st.booleans(),
)
def test_s7_a_redirect_needs_the_rights_of_a_write(operator: str, parts: list[str], rooted: bool) -> None:
    path = ("/" if rooted else "") + "/".join(parts) + "/file"
    inside = not rooted and _stays(parts)
    line = f"npm test {operator} {path}"
    odd = operator == "<>"  # the second reader does not know it
    assert bash(line, allow=RULES) == "ask"
    assert bash(line, allow=[*RULES, "Edit(//**)"]) == ("ask" if odd else "allow")
    assert bash(line, allow=RULES, mode="acceptEdits") == ("allow" if inside and not odd else "ask")
    assert bash(line, allow=["Bash"]) == ("allow" if inside else "ask")
    assert bash(line, allow=["Bash"], deny=["Edit(//**/file)"]) == "deny"
    assert bash(f"npm test {operator} /dev/null", allow=RULES) == ("ask" if odd else "allow")


def _stays(parts: list[str]) -> bool:
    depth = 0
    for part in parts:
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0:
            return False
    return True


@given(
    st.sampled_from(sorted(name for name, row in TABLE.items() if row.flags or row.values or row.longs)),
    st.from_regex(r"--?[a-zA-Z0-9][a-zA-Z0-9-]{0,8}", fullmatch=True),
)
def test_s8_an_option_that_is_not_in_the_table_is_asked(program: str, option: str) -> None:
    row = TABLE[program]
    assume(row.operands != "data" or row.flags or row.values)
    known = (
        option in row.longs | row.long_values
        if option.startswith("--")
        else set(option[1:]) <= set(row.flags) or (row.number and option[1:].isdigit())
    )
    assume(not known and not any(letter in row.values for letter in option[1:]))
    assert bash(f"{program} {option}") == "ask"
    assert bash(f"{program} {option} x") == "ask"


@given(
    st.sampled_from(
        [
            "/",
            "//",
            "/usr",
            "/etc/",
            HOME,
            "~",
            "~/",
            CWD,
            ".",
            "./",
            "..",
            "../..",
            "*",
            "/*",
            "~/*",
            '"$x"/*',
            "$x/",
            f"{CWD}/.",
            f"{HOME}/../home",
        ]
    ),
    st.sampled_from(["rm", "rmdir", "/bin/rm", "sudo rm", "'rm'", "command rm"]),
    st.sampled_from(["", "-rf", "-r -f --", "-v"]),
    st.sampled_from(["", "a ", "a b "]),
)
def test_s9_critical_removals_however_they_are_written(target: str, program: str, options: str, before: str) -> None:
    line = f"{program} {options} {before}{target}"
    for rights in (
        {"allow": ["Bash"]},
        {"mode": "bypassPermissions"},
        {"allow": ["Bash(rm:*)", "Bash(rmdir:*)"], "mode": "acceptEdits"},
    ):
        assert bash(line, **rights) == "ask", line
