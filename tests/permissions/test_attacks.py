"""What attackers try and what developers type, in bulk: each table is one behaviour, `␤` stands for the end of a line,
`XXX` for a great many words.

The first half was found by trying to get something past the checker; the second half keeps it from asking too much.
"""

from __future__ import annotations

from typing import Any

import pytest

from permissions.deciding import bash


def lines(text: str) -> list[str]:
    return [line.replace("␤", "\n").replace("XXX", "x " * 200) for line in text.strip().split("\n")]


def those(decision: str, text: str, **given: Any) -> list[str]:
    return [line for line in lines(text) if bash(line, **given) == decision]


# --- not free -----------------------------------------------------------------------------------------------------

WRITES_OR_RUNS = r"""
sort -ox y
sort -uo x y
sort --outp=x y
sort --compress-prog=x y
sort -T /etc x
find . -ok rm {} \;
find -files0-from /etc/passwd
find . -newer /etc/passwd
sed -n '/x/w out' f
sed '1e rm x' f
sed 's/a/b/;w x' f
sed 's/a/b/ge' f
sed '/a/{p;e␤}' f
sed -n '1r /etc/passwd' f
sed -e p -e 'w x' f
sed -e p --expression=e f
sed -x p f
sed -ie p f
sed -n -i p f
sed --in-place p f
sed -f x f
sed -e
sed --posix p f
sed -n '1~2w x' f
sed 'a foo␤w x' f
sed ':a;e' f
sed p --debug f
awk 'BEGIN{system("rm x")}'
awk '{print > "x"}' f
awk '{print | "sh"}' f
awk '"date" | getline' f
awk 'BEGIN{print ENVIRON["A"]}'
awk 'BEGIN{ARGV[1]="/etc/passwd";ARGC=2} 1'
awk -f x f
awk '@include "x"' f
awk 1 /etc/passwd
awk
awk -v a=b
awk --version --dump-variables=x 1 f
grep -ex /etc/passwd
grep -re x /etc
grep --regexp=x /etc/passwd
grep -e x -f /etc/passwd f
grep -r x /
rg -e x /etc
rg --files /etc
rg --pre=x y
file -z x
diff -l a b
diff --from-file=/etc/passwd x
jq '$ENV' x
jq 'env' x
jq '.a | env.SECRET' x
jq 'import "a" as b; .' x
date -d x -s y
date $x
ps e
ps auxe
ps $x
git log --pretty=format:%GG
git grep -Orm x
git grep --open-files-in-pager=rm x
git grep x ../y
git config x y
git config --get x --add y z
git config --global --get x
git config -l
git status -x
git -p log
bash --version -c x
node -v x
python --version x.py
cat ~
ls ~
ls .*
cat .*/x
cat .?/x
cat */../../x
cat ./*/../../x
cat */..
head -n $x y
head -n
wait -p PATH
wait -np PATH
printf -v PATH x
read PATH
IFS=x; ls
IFS= ls
IFS=x cat f
export PATH=/x; ls
export CI=1 PATH=/x; ls
export X=1
export CI=$x
export -f f
: ${PATH:=x}
: ${IFS=x}
declare -a a='($(rm x))'
local a='($(rm x))'
"""


def test_s8_these_only_look_as_if_they_read() -> None:
    assert those("allow", WRITES_OR_RUNS) == []
    assert those("allow", WRITES_OR_RUNS, mode="plan") == []
    assert those("allow", WRITES_OR_RUNS, mode="dontAsk") == []


FUNCTIONS = r"""
rm x; rm() { :; }
(rm() { :; }); rm x
rm() { :; }; command rm x
rm() { :; }; timeout 5 rm x
false && rm() { :; }; rm x
true || rm() { :; }; rm x
if false; then rm() { :; }; fi; rm x
rm() { :; } | cat; rm x
cat | rm() { :; }; rm x
rm() { :; } & rm x
f() { rm() { :; }; }; rm x
rm() { :; }; unset -f rm; rm x
ls $(rm() { :; }); rm x
{ rm() { :; }; }; rm x
"""


def test_s2_a_function_counts_only_where_it_is_defined_for_certain() -> None:
    assert those("allow", FUNCTIONS) == []
    assert those("allow", FUNCTIONS, allow=["Bash(unset:*)"]) == []
    assert bash("rm() { :; }; rm x") == "allow"
    assert bash("f() { ls; }\n\nf && echo $(f)") == "allow"


# --- prefix rules -------------------------------------------------------------------------------------------------

GIT = r"""
git rebase -ix rm main
git rebase --exe rm main
git rebase --ex=rm main
git grep --open-files=rm x
git grep -nOrm x
git clone --upload=rm x
git clone --conf=core.sshCommand=rm x
git clone --template=x y
git clone 'ext::sh -c rm' x
git fetch --upload-pa=rm
git fetch ext::rm
git pull --upload-pack rm
git push --receive=rm
git remote add x ext::rm
git submodule add ext::rm
git init --template=x
git config alias.x '!rm'
git config core.pager rm
git config --global core.hooksPath x
git config --add core.sshCommand rm
git config -e user.name
git config --file x user.name y
git config x $y
git daemon
git shell -c rm
git hook run pre-commit
git remote-ext x rm
git for-each-repo --config=x rm
git send-email --sendmail-cmd=rm
git credential fill
git diff --output=x
git log --outp=x
git show --output x
git diff --ext-diff
git archive -o x HEAD
git archive --exec=rm
git format-patch -o /etc HEAD
git apply --unsafe-paths x
git -ccore.pager=rm log
git --exec-path=x log
git --config-env=core.pager=X log
git -p log
"""
GIT_ORDINARY = r"""
git config user.name x
git config --global user.email x@y.z
git config --get core.pager
git config --list
git config pull.rebase true
git push -u origin HEAD
git push --force-with-lease
git rebase -i main
git rebase --continue
git fetch --all --prune
git clone https://example.com/x.git
git commit -m "run; exec | output > x"
git log --oneline -5
git bisect good
git submodule update --init
git stash
git apply x.patch
git format-patch HEAD~1
git checkout -b x
git merge -s ours x
"""


def test_s6_git_options_that_run_or_write_are_not_covered_by_a_rule_for_git() -> None:
    for rule in ("Bash(git:*)", "Bash(git *)"):
        assert those("allow", GIT, allow=[rule]) == []
        assert those("ask", GIT_ORDINARY, allow=[rule]) == []
    assert bash("git diff --output=x", allow=["Bash(git diff:*)"]) == "ask"
    assert bash("git diff --output=x", allow=["Bash(git diff --output=x)"]) == "allow"


OWN_RULE = r"""
tar --to-command='rm x' -xf y
tar --to-comm='rm x' -xf y
tar -xf y --checkpoint=1 --checkpoint-action=exec='rm x'
tar -I 'rm x' -cf y z
tar cIf 'rm x' y z
tar -cI'rm x' -f y z
rsync -e 'rm x' a b:
rsync -avze 'rm x' a b:
man -P 'rm x' ls
man --pag='rm x' ls
sort --compress-program=rm y
split --filter='rm x' y
rg --pre rm x
zip x y -T -TT 'rm x'
scp -o ProxyCommand='rm x' a h:
scp -o 'ProxyCommand rm x' a h:
scp -o "$x" a h:
scp -S rm a h:
awk 'BEGIN{system("rm x")}'
awk '{print | "sh"}' x
sed '1e rm x' y
sed 's/a/b/e' y
sed -e p -e e y
make SHELL=/x all
make --eval='a:; rm x'
make -f - x
make -f/dev/stdin
make --file - x
awk -- 'BEGIN{system("rm x")}'
vim '+!rm x' y
less '+!rm x' y
sqlite3 x '.shell rm x'
psql -c '\! rm x'
mysql -e 'system rm x'
socat - EXEC:'rm x'
socat - "$x"
su -c 'rm x'
script -c 'rm x'
systemd-run rm x
pkexec rm x
"""
OWN_RULE_ORDINARY = r"""
tar -czf x.tgz src
tar xzf x.tgz -C out
tar cf x y
rsync -av a b
sort -t, -k2 -n x.csv
sort -u -o out x
scp -o StrictHostKeyChecking=no a h:
scp a h:
awk '$3 > 100 {print $1}' x
awk '/a|b/ {c++} END {print c}' x
awk '$1 == "a" || $2 == "b" { print }' x
awk -v n=3 'NR>n' x
sed -i 's/foo/bar/g' x
sed -n '/start/,/end/{p;q}' x
sed '/x/a after' x
sed ':a;N;$!ba;s/\n/ /g' x
sed -E -e 's/a/b/' -e '/c/d' x
sed -l5 -n l x
make -j4 test V=1
make -f x.mk all
vim +12 x
vim x
less x
sqlite3 x 'select 1'
psql -c 'select * from system'
socat - TCP:localhost:1
find . -name *.py
find . -path ./x -prune -o -print
"""


def test_s6_nor_are_options_and_scripts_that_run_something() -> None:
    names = {line.split()[0] for line in lines(OWN_RULE + OWN_RULE_ORDINARY) if line}
    allow = [f"Bash({name}:*)" for name in sorted(names)]
    assert those("allow", OWN_RULE, allow=allow) == []
    assert those("ask", OWN_RULE_ORDINARY, allow=allow) == []


# --- deny rules ---------------------------------------------------------------------------------------------------

EVASIONS = r"""
env --split='rm x'
env -vS 'rm x'
env -iS 'rm x'
eval -- rm x
pkexec rm x
gosu x rm y
prlimit --nofile=1 rm x
hyperfine 'rm x'
nodemon --exec 'rm x'
nodenv exec rm x
somewrapper rm x
somewrapper -- rm x
some/wrapper.sh --run 'rm x y'
wine env rm x
just -c 'rm x'
cmake -E rm x
echo rm x | xargs -t env
time {rm,x}
sudo -z $x
tar --to-comm='rm x' -xf y
tar cIf 'rm x' y z
tar --new-volume-script='rm x' -cf y z
rsync -avze 'rm x' a b:
ssh -o 'ProxyCommand rm x' h
ssh -o'LocalCommand rm x' h
scp -o 'proxycommand = rm x' a h:
split --filt='rm x' y
sort --compress-prog=rm y
man --pag='rm x' ls
git clone 'ext::rm x' y
git fetch --upload-pa='rm x'
git submodule foreach --recursive rm x
socat - EXEC:'rm x'
vim '+!rm x' y
ed <<< '!rm x'
sqlite3 y '.shell rm x'
declare -a a='($(rm x))'
make -f/dev/stdin
awk '/a|b/ {print | "rm x"}' y
awk 'BEGIN{print "a;b" > "f"}' y
find . -name *
"""


def test_s5_none_of_these_gets_past_a_deny_rule() -> None:
    ways = ({"allow": ["Bash"]}, {"mode": "bypassPermissions"}, {"allow": ["Bash"], "hook": "allow"}, {"mode": "auto"})
    for given in ways:
        assert those("allow", EVASIONS, deny=["Bash(rm:*)"], **given) == []
        assert those("allow", EVASIONS, ask=["Bash(rm*)"], **given) == []


def test_s10_wrappers_without_number_do_not_turn_a_deny_into_a_question() -> None:
    for line in ("env " * 2_400 + "rm x", "nice -n 5 " * 900 + "rm x", "env " * 200 + "sudo ls; rm x"):
        assert bash(line, allow=["Bash"], deny=["Bash(rm:*)"]) == "deny"
    assert bash("env " * 200 + "sudo ls", allow=["Bash"], deny=["Bash(sudo:*)"]) == "deny"
    assert bash("env " * 200 + "ls", allow=["Bash"], deny=["Bash(sudo:*)"]) == "ask"
    assert bash("env " * 20 + "ls", allow=["Bash"], deny=["Bash(sudo:*)"]) == "allow"


OTHER_WORDS = [
    ("Bash(rm -rf:*)", "rm -fr x", "ask"),
    ("Bash(rm -rf:*)", "rm -r -f x", "ask"),
    ("Bash(rm -rf:*)", "rm --recursive --force x", "ask"),
    ("Bash(rm -rf:*)", "rm x -rf", "ask"),
    ("Bash(rm -rf:*)", "rm -Rvf x", "ask"),
    ("Bash(rm -rf:*)", "rm -r x", "allow"),
    ("Bash(rm -rf:*)", "rm -- x", "allow"),
    ("Bash(rm -rf:*)", "tool rm x", "allow"),
    ("Bash(rm -rf:*)", "tool rm x rm -rf y", "ask"),
    ("Bash(rm -rf x)", "rm -fr x", "ask"),
    ("Bash(rm -rf x)", "rm -fr y", "allow"),
    ("Bash(rm -rf x)", "rm -fr x y", "allow"),
    ("Bash(git push --force:*)", "git push -f", "ask"),
    ("Bash(git push --force:*)", "git push origin --force", "ask"),
    ("Bash(git push --force:*)", "git push --forc", "ask"),
    ("Bash(git push --force:*)", "git push --f", "allow"),
    ("Bash(git push --force:*)", "git push origin main", "allow"),
    ("Bash(git push -f:*)", "git push --force", "ask"),
    ("Bash(git push:*)", "git --no-pager log push", "allow"),
    ("Bash(git push:*)", "git log --grep push", "allow"),
    ("Bash(docker compose down:*)", "docker compose -f x down", "ask"),
    ("Bash(docker compose down:*)", "docker compose up down", "allow"),
    ("Bash(aws s3 rm:*)", "aws s3 --profile x rm y", "ask"),
    ("Bash(npm publish:*)", "npm -w x publish", "ask"),
    ("Bash(npm publish:*)", "npm run publish", "allow"),
    ("Bash(npm publish:*)", "npm " + "-w a " * 600 + "publish", "ask"),
    ("Bash(rm -rf:*)", "tool rm " + "-a " * 600 + "-rf", "ask"),
    ("Bash(rm:*)", "docker " + "-a b " * 600 + "exec c rm", "ask"),
    ("Bash(rm:*)", "docker build -t a exec rm", "allow"),
    ("Bash(rm:*)", "docker build exec rm", "allow"),
    ("Bash(rm:*)", "docker -a b", "allow"),
    ("Bash(ls && rm:*)", "ls && rm x", "deny"),
    ("Bash(ls && rm:*)", "ls && rmdir x", "allow"),
    ("Bash(* > *)", "echo a > b", "deny"),
    ("Bash(FOO=1 npm:*)", "FOO=1 npm x", "deny"),
    ("Bash(FOO=1 npm:*)", "FOO=2 npm x", "allow"),
    ("Bash(FOO=*)", "FOO=1 npm x", "deny"),
    ("Bash(FOO=*)", "ls; npm x", "allow"),
    ("Bash(:*)", "ls", "deny"),
    ("bash(rm:*)", "ls", "ask"),
    ("bash(rm:*)", "rm x", "ask"),
    ("Bash(rm:*))", "rm x", "ask"),
    ("Bash(echo \\):*)", "rm x", "allow"),
    ("Bash(tool:*)", '"$x/tool" y', "deny"),
    ("Bash(tool:*)", '"$x/other" y', "ask"),
    ("Bash(tool:*)", 'docker run -v "$PWD:/app" image npm test', "allow"),
    ("Bash(sudo:*)", 'docker run -v "$x" image', "ask"),
    ("Bash(rm:*)", "npm run x -- rm", "allow"),
    ("Bash(rm:*)", "npm x rm", "ask"),
    ("Bash(rm:*)", "pytest rm", "allow"),
    ("Bash(rm:*)", "./gradlew remove", "allow"),
    ("Bash(rm:*)", "phpunit rm", "ask"),
    ("Bash(rm:*)", 'while IFS= read -r l; do echo "$l"; done', "allow"),
    ("Bash(rm:*)", 'tool "$x" ""', "allow"),
]


@pytest.mark.parametrize(("rule", "command", "wanted"), OTHER_WORDS)
def test_p5_a_deny_rule_holds_in_other_words(rule: str, command: str, wanted: str) -> None:
    assert bash(command, allow=["Bash"], deny=[rule]) == wanted


# --- files that rules are about -------------------------------------------------------------------------------------

READS_ENV = r"""
cat -- .env
cat -n -- .env
grep -e x -- .env
cat .e*
cat .*
cat $x
grep -r x *
cp -r * /tmp/x
grep -r x .
grep -r x
grep x -R .
rg --hidden x
rg -u x
tar czf x .
cp -r . /tmp/x
rsync -a . x
zip -r x .
diff -r . /tmp/x
xargs -a .env echo
xargs --arg-file=.env echo
curl file:///nowhere/project/.env
cat .env
cat sub/../.env
cd sub && cat ../.env
find . -name .env -exec cat {} \;
find . -name .env | xargs cat
export $(cat .env)
docker run --env-file .env x
"""
READS_OTHERS = r"""
cat *.md src/*.py
wc -l src/*/*.ts
head *
grep -rn x src
rg x
rg -n x src
cp -r src /tmp/x
tar czf x src
cat x
zip x y
diff -r a b
xargs -n1 echo
curl https://example.com/.env
"""
WRITES_ENV = r"""
curl -o.env x
curl --outp=.env x
wget -O .env x
sort -o .env x
cp /tmp/.env .
cp -t . /tmp/.env
mv /tmp/.env ./
find . -name .env -delete
find . -fprint .env
uniq x .env
xxd -r x .env
tree -o .env
zip .env x
ex .env
"""


def test_p5_what_a_rule_protects_is_not_read_in_passing() -> None:
    assert those("allow", READS_ENV, allow=["Bash"], deny=["Read(.env)"]) == []
    assert those("allow", READS_ENV, deny=["Read(.env)"]) == []
    assert those("allow", READS_ENV, mode="bypassPermissions", deny=["Read(./.env)"]) == []
    assert those("allow", READS_ENV, mode="auto", deny=["Read(./.env)"]) == []
    assert [line for line in lines(READS_OTHERS) if bash(line, allow=["Bash"], deny=["Read(.env)"]) != "allow"] == []
    assert bash("grep -r x .", allow=["Bash"], deny=["Edit(.env)"]) == "allow"
    assert bash("cat src/*.py", deny=["Read(./.env)"]) == "allow"
    assert bash("cat src/*.py", deny=["Read(./src/**)"]) == "ask"
    assert bash("cat */x.py", deny=["Read(./src/**)"], allow=["Bash"]) == "ask"
    assert bash("cat *.py", deny=["Read(*.key)"]) == "ask"


def test_p5_nor_written() -> None:
    assert those("allow", WRITES_ENV, allow=["Bash"], deny=["Edit(.env)"]) == []
    assert those("allow", WRITES_ENV, mode="auto", deny=["Edit(.env)"]) == []
    assert bash("cp a/b .", allow=["Bash"], deny=["Edit(.env)"]) == "allow"


PROTECTED = r"""
curl -o .git/hooks/pre-commit x
curl --output=.git/hooks/pre-commit x
wget -O.git/hooks/pre-commit x
sort -o .git/config x
cp /tmp/.mcp.json .
cp -t . /tmp/.npmrc
mv /tmp/.envrc ./
tar -C .git/hooks -xf x
unzip -d .git/hooks x
gcc -o .git/hooks/pre-commit x
git diff --output=.git/hooks/pre-commit
openssl x -out .git/config
find . -fprint .git/config
tee .vscode/tasks.json
sed -i s/a/b/ .git/hooks/*
chmod +x .git/hooks/$x
cp x .gi?/hooks/y
rm -rf .g*/hooks
touch .[m]*
"""


def test_f5_protected_places_are_not_written_by_options_either() -> None:
    assert those("allow", PROTECTED, allow=["Bash"]) == []
    assert those("allow", PROTECTED, mode="bypassPermissions") == []
    assert those("allow", PROTECTED, mode="auto") == []
    assert bash("ls | tee /dev/null", allow=["Bash(tee:*)"]) == "allow"
    assert bash("rm -f .coverage* *.log", allow=["Bash(rm:*)"]) == "allow"


# --- critical removals ----------------------------------------------------------------------------------------------

CRITICAL = r"""
x=/; rm -rf $x
x=/usr; rm -rf "$x"
x=$HOME; rm -rf "$x"
x=.; rm -rf ./$x
for i in / /usr; do rm -rf $i; done
for i in *; do rm -rf "$i"; done
for d in ~ /; do rm -rf $d; done
for d in XXX /; do rm -rf $d; done
f() { rm -rf "$1"; }; f /
f() { rm -rf $@; }; f a ~
rm -rf ${x:-/}
rm -rf "${x:-~}"
rm -rf ${x:=/}
rm -rf$IFS/
rm -rf${IFS}/
find / -delete
find ~ -delete
find . -delete
find -delete
find .. -type f -delete
find / -name x -delete
find "$HOME" -name x -delete
find / -exec rm -rf {} \;
find . -exec rm -rf {} +
find . -mindepth 1 -delete
xargs rm -rf
echo / | xargs -I{} rm -rf {}
"""
NOT_CRITICAL = r"""
find . -name '*.pyc' -delete
find . -name '*.pyc' -exec rm {} +
find build -delete
find /tmp/x/y -name z -delete
find . -name x
x=build; rm -rf "$x"
for f in *.log; do rm "$f"; done
for f in a b; do rm -rf "out/$f"; done
f() { rm -rf "$1"; }; f build
rm -rf "${BUILD:-build}"
while read -r f; do rm "$f"; done < list
rm -f -- -x
rm -rf $dir/build
find rm
find rm -name x
"""


def test_s9_critical_removals_in_other_words() -> None:
    rules = ({"allow": ["Bash"]}, {"allow": ["Bash(rm:*)", "Bash(find:*)"]})
    for given in ({"mode": "bypassPermissions"}, {"mode": "auto"}, *rules):
        assert those("allow", CRITICAL, **given) == []
    assert [line for line in lines(NOT_CRITICAL) if bash(line, mode="bypassPermissions") != "allow"] == []


# --- what developers type -------------------------------------------------------------------------------------------

ORDINARY = r"""
npm run test -- --watch
npm run test > /dev/null 2>&1
npm run test 2>&1 | grep -E "(error|fail)" | head -20
npm run test 2>&1 | grep -v -e foo -e bar
npm run test 2>&1 | sed -e 's/a/b/' -e 's/c/d/'
npm run test 2>&1 | awk '{print $1}' | sort | uniq -c
NODE_ENV=test npm test
timeout 60 npm test || (echo failed; exit 1)
cd packages/a && npm test
export CI=1; npm test
export NODE_ENV=test && npm test
for p in a b c; do npm test -- $p; done
for i in {1..3}; do npm test && break; done
for ((i=0; i<3; i++)); do npm test; done
if [[ -f package.json && -d src ]]; then npm test; fi
npm test <<'EOF'␤hello $x `y`␤EOF
npm test \␤  --silent
result=$(npm test 2>&1); echo "$result" | tail -5
npm test | while IFS= read -r l; do echo "$l"; done
npm test -- "$(basename "$PWD")" $'a\nb' "👩‍💻" {a,b} ~/x *.js
f() { npm test; }; f
npm test & wait
npm run x -- 'a;b&&c|d' "a>b"
"""
FREE = r"""
ls -la && pwd
ls "my dir" *.ts
cat <<EOF | grep hello␤hello $USER␤EOF
grep -rn "x" src | wc -l
grep -rnE "foo|bar" --include=*.ts src
grep -e foo -e bar x
rg -e foo -e bar
rg --files
rg -l foo --type py
head -n "$n" x
sed -e 's/a/b/' x
sed -n '/foo/,/bar/{p}' x
sed -n -e 5p x
awk -F: '{print $1}' x
awk 'NR==1, /b/' x
basename "$PWD"
which $x
date -u +%s
date -d "$x" +%F
ps aux | grep node
ps -ef
free -h
git diff HEAD~1 | head
git status --porcelain=v1 -uno
git grep -n 'foo' -- '*.py'
git config --get user.name
git --version
node -v
python3 --version && npm --version
go version
jq -r '.env.a | keys' x.json
find . -newer x
diff <(ls a) <(ls b)
x=$(ls | wc -l); echo "$x"
while IFS=, read -r a b; do echo $a; done < x
cat *.md src/*.py
"""


def test_the_ordinary_is_allowed_where_the_rules_say_so() -> None:
    allow = ["Bash(npm run test:*)", "Bash(npm test:*)", "Bash(npm run:*)"]
    assert [line for line in lines(ORDINARY) if bash(line, allow=allow) != "allow"] == []
    assert [line for line in lines(ORDINARY) if bash(line, allow=["Bash"], deny=["Bash(sudo:*)"]) != "allow"] == []


def test_s8_what_reads_is_free() -> None:
    assert [line for line in lines(FREE) if bash(line) != "allow"] == []


SET_BEFORE = [
    ("Bash(FOO=1 npm test)", "FOO=1 npm test", "allow"),
    ("Bash(FOO=1 npm test:*)", "FOO=1 npm test x", "allow"),
    ("Bash(FOO=1 npm test:*)", "FOO=2 npm test x", "ask"),
    ("Bash(FOO=1 npm test:*)", "FOO=$x npm test x", "ask"),
    ("Bash(FOO=1:*)", "FOO=1 rm x", "ask"),
    ("Bash(FOO=*)", "FOO=1 rm x", "ask"),
    ("Bash(npm test)", "FOO=1 npm test", "ask"),
    ("Bash(FOO=1 npm test:*)", "FOO=1 npm test; rm x", "ask"),
    ("Bash(FOO=1 env:*)", "FOO=1 env rm", "ask"),
    ("Bash(FOO=1 env ls:*)", "FOO=1 env ls", "allow"),
    ("Bash(A=1 B=2 x:*)", "A=1 B=2 x y", "allow"),
    ("Bash(A=1 x:*)", "A=1 B=3 x y", "ask"),
    ("Bash(A=1 x:*)", "A=(1) x y", "ask"),
]


@pytest.mark.parametrize(("rule", "command", "wanted"), SET_BEFORE)
def test_s5_a_rule_may_name_the_variables_before_a_command(rule: str, command: str, wanted: str) -> None:
    assert bash(command, allow=[rule]) == wanted
