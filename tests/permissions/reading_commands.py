"""Shell commands that read, by family: many of them would print a file that a rule denies. `{}` stands for its name.

`make_project` makes the folder that they run in: denied files in several places, links to them, lists that name them,
scripts that print them, and a repository whose history holds them.
"""

from __future__ import annotations

import base64
import random
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

SECRET = "swordfish-4711"
RULES = ("Read(.env)", "Read(./secrets/**)", "Read(*.key)")
DENIED = (".env", "sub/.env", "secrets/plain.txt", "secrets/deep/plain.txt", "certs/a.key", "src/lib/.env")

# A denied file by other names.
NAMES = (
    ".env", "./.env", "sub/../.env", "'.env'", '".env"', "\\.env", "$'.env'", "$'\\x2eenv'", ".e*", ".en?", ".[e]nv",
    ".{env,x}", "{.env,README.md}", ".??*", '"$PWD"/.env', "$(echo .env)", "`echo .env`", "innocent", "here/.env",
    "sub/.env", "s*/.env", "*/.env", "secrets/plain.txt", "secrets/*", "sec*/plain.txt", "here/secrets/plain.txt",
    "certs/a.key", "certs/*", "src/linked/plain.txt", "~+/.env", "/proc/self/cwd/.env", ".//.env", "{{HOME}}/p/.env",
)  # fmt: skip

ONE_FILE = """
cat {}
tac {}
head {}
head -c 100 {}
tail -n 3 {}
nl {}
rev {} | rev
cut -c1- {}
sort {}
uniq {}
grep . {}
grep -h '' {}
sed -n p {}
sed '' {}
awk 1 {}
od -c {}
xxd {}
hexdump -C {}
strings {}
base64 {}
paste {}
fold {}
wc {}
diff {} /dev/null
cmp {} README.md
comm {} /dev/null
cp {} copied
mv {} moved
ln {} linked
ln -s {} linked && cat linked
dd if={}
tee < {}
cat < {}
cat 0< {}
cat <{} README.md
read -r x < {}; echo "$x"
mapfile -t x < {}; echo "${x[@]}"
exec 3< {}; cat <&3
echo "$(< {})"
cat <<< "$(< {})"
cat <(cat {})
source {}; echo $TOKEN
. {}; echo $TOKEN
while read -r x; do echo "$x"; done < {}
xargs -a {} echo
jq -R . {}
tr a b < {}
python3 -c 'print(open(".env").read())' {}
perl -pe 1 {}
vim -es '+%print' +q! {}
ed -s {} <<< ,p
less {}
more {}
file -f {}
curl -s file://$PWD/{}
openssl enc -in {}
gzip -c {}
zcat -f {}
tar cf - {}
zip - {}
iconv {}
split {} part.
expand {}
column {}
fmt {}
pr {}
join {} {}
shuf {}
sum {}
git hash-object -w {}
git diff --no-index /dev/null {}
git show HEAD~1:{}
git blame HEAD~1 -- {}
git add -f {}
gcc -E -x c {}
m4 {}
date -f {}
node -p 'require("fs").readFileSync(".env","utf8")' {}
sqlite3 :memory: "select readfile('{}')"
make -f {}
bash {}
bash --rcfile {} -i -c true
env -S 'cat {}'
xargs cat <<< {}
echo {} | xargs cat
find {} -exec cat '{{}}' ';'
printf '%s\\n' {} | while read -r f; do cat "$f"; done
install {} installed
cat {} > copied
patch -o - {} /dev/null
test -f {} && cat {}
timeout 5 cat {}
nice cat {}
command cat {}
/bin/cat {}
c''at {}
sh -c 'cat {}'
bash -c 'cat {}'
eval cat {}
sudo -n cat {}
(cd src && cat ../{})
cd sub && cat ../{}
pushd src; cat ../{}
f() {{ cat {}; }}; f
x={}; cat $x
cat ${{x:-{}}}
for f in {}; do cat $f; done
"""

TREES = """
grep -r sword {}
grep -R sword {}
grep -rh sword {}
grep -d recurse sword {}
grep -drecurse sword {}
grep -drec sword {}
grep --recursive sword {}
grep --directories=recurse sword {}
grep --dereference-recursive sword {}
grep -nd recurse sword {}
egrep -r sword {}
fgrep -r sword {}
rgrep sword {}
rg sword {}
rg -uuu sword {}
rg --hidden --no-ignore sword {}
rg -. sword {}
ack sword {}
ag -u sword {}
diff -r {} /tmp
diff -rN {} src/empty
diff {} src/empty
cp -r {} ../copied
cp -a {} ../copied
cp -R {} ../copied
mv {} ../moved && grep -r sword ../moved
ln -s $PWD/{} ../l && cat ../l/.env ../l/plain.txt
tar cf - {}
tar -cf - {}
tar -c {}
tar --create {}
tar cf out.tar {} && cat out.tar
tar -C {} -cf - .
tar cfC - {} .
zip -qr - {}
zip -qr out.zip {} && unzip -p out.zip
find {} -type f -exec cat '{{}}' +
find {} -type f -exec cat '{{}}' ';'
find {} -type f -execdir cat '{{}}' ';'
find {} -type f | xargs cat
find {} -type f -print0 | xargs -0 cat
find {} -type f -print0 | xargs -0 grep sword
find {} -type f | while read -r f; do cat "$f"; done
find {} -name .env -o -name '*.txt' | xargs -n1 head
ls -A {} | (cd {} && xargs cat)
cat {}/.*
cat {}/*
cat {}/.[!.]*
head -n5 {}/.env
git grep --untracked sword -- {}
git grep --no-index sword -- {}
git grep --untracked --no-exclude-standard sword {}
git diff --no-index src/empty {}
git add -A {} && git show :.env
python3 -m http.server --help {}
du -a {} | cut -f2 | xargs cat
rsync -a {} ../copied
shopt -s globstar dotglob; cat {}/**
cd {} && cat .env plain.txt
wc -l {}/.env
"""
FOLDERS = (".", "src", "sub", "secrets", "src/lib", "certs", "here", "src/linked", "..", '"$PWD"')

HISTORY = """
git log -p
git log -p --all
git log --patch
git log -u
git log -U1
git log -1 -p HEAD~1
git log -p -- .env
git log -p .
git log -p src
git log -p --follow README.md
git log -L1,1:.env HEAD~1
git log --stat -p
git log --cc
git log -c -p
git log --word-diff -p
git whatchanged -p
git show
git show HEAD
git show HEAD~1
git show HEAD~1:.env
git show HEAD~1:./.env
git show 'HEAD~1:.env'
git show --stat HEAD~1:.env
git show HEAD~1 -- .env
git show HEAD~1 -- .
git show --format=%h HEAD~1
git show $(git rev-parse HEAD~1:.env)
git show $(git ls-tree HEAD~1 .env | cut -c13-52)
git show --stat $(git rev-parse HEAD~1:.env)
git --no-pager show HEAD~1
git -C . show HEAD~1
git -P log -p
git diff HEAD~1
git diff HEAD~1 HEAD
git diff HEAD~1..HEAD
git diff HEAD~1 -- .env
git diff HEAD~1 -- .
git diff -U0 HEAD~1
git diff --cached HEAD~1
git diff --staged HEAD~1
git diff --check HEAD~2
git diff --word-diff HEAD~1
git diff --stat -p HEAD~1
git diff HEAD~1:.env HEAD:README.md
git diff --no-index /dev/null .env
git diff --no-index src/empty .
git diff /dev/null .env
git difftool -y -x cat HEAD~1
git diff-tree -p HEAD
git diff-index -p HEAD~1
git diff-files -p
git format-patch --stdout HEAD~2
git format-patch -1 HEAD~1
git cat-file -p HEAD~1:.env
git cat-file blob HEAD~1:.env
git cat-file -p $(git rev-parse HEAD~1:.env)
git rev-list --objects --all | cut -c1-40 | git cat-file --batch
git cat-file --batch-all-objects --batch
git archive HEAD~1
git archive --format=tar HEAD~1 .env
git archive -o out.tar HEAD~1 && cat out.tar
git bundle create out.bundle --all
git fast-export --all
git stash show -p stash@{{0}}
git stash list -p
git stash && git stash show -p
git stash -u
git stash push -a
git blame HEAD~1 -- .env
git annotate HEAD~1 .env
git grep sword HEAD~1
git grep -h sword $(git rev-list --all)
git grep --untracked sword
git grep --no-index sword
git grep sword -- .env
git grep --cached sword
git grep sword
git ls-files -s && git ls-tree HEAD~1
git checkout HEAD~1 -- .env && cat .env
git restore -s HEAD~1 .env
git checkout -p HEAD~1
git worktree add ../wt HEAD~1 && cat ../wt/.env
git clone -q . ../clone && git -C ../clone show HEAD~1
git read-tree HEAD~1 && git checkout-index --prefix=../out/ -a && cat ../out/.env
git --work-tree=.. checkout HEAD~1 -- .env
git rebase --show-current-patch
git range-diff HEAD~2 HEAD~1 HEAD
git reflog -p
git notes add -F .env && git notes show
git commit --allow-empty -F.env && git log -1
git commit --allow-empty -F .env
git commit --allow-empty -t .env
git tag -F .env x && git tag -n9
git tag -F.env x && git tag -n9
git config -f .env -l
git config --file=.env --list
git config --blob HEAD~1:.env -l
git apply --stat .env
git interpret-trailers .env
git stripspace < .env
git column --mode=plain < .env
git hash-object --stdin-paths < list
git check-ignore --stdin < .env
git for-each-ref --format='%(raw)'
git update-index --add .env && git show :.env
git merge-file -p README.md README.md .env
git status -v
git status -vv
git commit -v --dry-run
git peek
git leak
git pl
git PEEK
git -C src leak
git -c alias.z='!cat .env' z
git -c alias.z='show HEAD~1:.env' z
git -c core.pager='cat .env' --paginate log -1
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0='!cat .env' git z
/usr/lib/git-core/git-show HEAD~1
/usr/lib/git-core/git-log -p
/usr/lib/git-core/git-cat-file -p HEAD~1:.env
/usr/lib/git-core/git-grep --untracked sword
git show :/secret
git show HEAD~1^{{tree}}:.env
git show @~1:.env
git show :0:README.md
git log --format=%B -p
"""

BY_LISTS = """
sort --files0-from=list0
wc --files0-from=list0
du --files0-from=list0
sort --files0-from list0
xargs cat < list
xargs -a list cat
xargs -0 -a list0 cat
cat $(cat list)
cat `cat list`
cat $(< list)
tar -T list -cf -
tar cf - -T list
tar --files-from=list -cf -
tar -cf - --files-from list
tar cfT - list
zip - -@ < list
cpio -o < list
rsync --files-from=list . ../copied
while read -r f; do cat "$f"; done < list
for f in $(cat list); do cat $f; done
for f in .e* s*/*; do cat "$f"; done
grep -f .env README.md
grep -vf README.md .env
curl -K list
curl -d @.env http://127.0.0.1:1/
curl --data-binary @.env http://127.0.0.1:1/
curl -F x=@.env http://127.0.0.1:1/
curl -sd@.env http://127.0.0.1:1/
curl -T .env http://127.0.0.1:1/
curl -H @.env -v http://127.0.0.1:1/
curl -w @.env -s http://127.0.0.1:1/
curl -b .env -v http://127.0.0.1:1/
curl -s file://$PWD/.env
curl -s FILE://$PWD/.env
curl -s "fil{{e,e}}://$PWD/.env"
curl --url file://$PWD/.env
curl --proto-default file $PWD/.env
wget -O- -i .env
wget --post-file=.env http://127.0.0.1:1/
wget -e input=.env
gcc -E @list
file -f list
cut -c1- -- $(cat list)
diff --from-file=README.md .env
diff --to-file=.env README.md
cat $(find . -name '.e*')
cat $(ls -A | head -3)
eval "$(cat leak.sh)"
mapfile -t x < list; cat "${{x[@]}}"
readarray -t x < list; cat "${{x[0]}}"
IFS= read -r x < list; cat "$x"
awk '{{while((getline l < $0) > 0) print l}}' list
awk 'BEGIN{{while((getline l < ".env") > 0) print l}}'
awk 'BEGIN{{ARGV[1]=".env"; ARGC=2}} 1'
awk '{{ARGV[ARGC++]=$0}} 1' list
awk -f leak.awk
sed 'r .env' README.md
sed -n '1{{r .env' -e 'p}}' README.md
sed 'R .env' README.md
sed '1e cat .env' README.md
sed -f leak.sed README.md
jq -n --rawfile x .env '$x'
jq -Rn 'input' .env
jq -n --slurpfile x .env '$x'
sqlite3 :memory: ".read .env"
sqlite3 :memory: ".import .env t" "select * from t"
sqlite3 :memory: "select readfile('.env')"
sqlite3 :memory: "create table t(a); insert into t select readfile('.env'); select * from t"
printf ".import .env t\\nselect * from t;\\n" | sqlite3
python3 leak.py
python3 -m leak
python3 -c 'print(open(".env").read())'
python3 - < leak.py
perl leak.pl
perl -ne print .env
perl -e 'open F,".env"; print <F>'
node leak.js
node -e 'console.log(require("fs").readFileSync(".env")+"")'
make -s leak
make -s -f leak.mk
make -s --eval 'x: ; @cat .env' x
npm run -s leak
npm test
./leak.sh
bash leak.sh
bash -x leak.sh
sh < leak.sh
bash --rcfile leak.sh -i < /dev/null
bash --init-file leak.sh -i -c true
bash -rcfile leak.sh -i -c true
bash -ic 'cat .env'
bash -i leak.sh
BASH_ENV=leak.sh bash -c true
ENV=leak.sh sh -i -c true
env BASH_ENV=leak.sh bash -c true
env -S 'cat .env'
env -S'cat .env'
env --split-string='cat .env'
env -C sub cat ../.env
busybox cat .env
coreutils --coreutils-prog=cat .env
history -r .env; history
trap 'cat .env' EXIT
coproc cat .env; cat <&"${{COPROC[0]}}"
exec cat .env
command -p cat .env
builtin source .env
xxd -p .env | xxd -r -p
man ./.env
man -l .env
vim -es +'r .env' +%p +q!
vim -Nes -c 'r .env' -c '%p' -c q!
ex -s +%p +q! .env
emacs --batch --insert .env
openssl base64 -in .env
openssl enc -in .env
ssh -F .env -G x
ssh-keygen -lf .env
gpg --list-packets .env
docker run -v $PWD:/x alpine cat /x/.env
strace -o out cat .env
dd if=.env of=copied && cat copied
split -b 100 .env part. && cat part.*
csplit .env 1
tee copied < .env && cat copied
install .env copied && cat copied
shuf .env
shuf -n1 .env
ptx .env
m4 .env
cat /proc/self/cwd/.env
cat /proc/$$/cwd/.env
cat -- .env
cat - < .env
cat .env | cat
cat README.md .env
cat < README.md < .env
cat /dev/fd/3 3< .env
cat README.md; cat .env
true && cat .env || true
! cat .env
[ -f .env ] && cat .env
{{ cat .env; }}
(cat .env)
cat .env &
time cat .env
case x in x) cat .env;; esac
if true; then cat .env; fi
until cat .env; do break; done
select x in 1; do cat .env; done < /dev/null
[[ $(< .env) =~ (.*) ]] && echo "${{BASH_REMATCH[1]}}"
echo ${{x:-$(cat .env)}}
printf '%s' "$(cat .env)"
declare x=$(cat .env); echo $x
echo "${{x:=$(<.env)}}"
cat <<E
$(cat .env)
E
printf -v x '%s' "$(<.env)"; echo "$x"
y=.env; cat "$y"
y=env; cat .$y
a=.e b=nv; cat $a$b
set -- .env; cat "$1"
x=(.env); cat "${{x[0]}}"
f=.envx; cat "${{f%x}}"
cat ${{PWD}}/.env
cat .env{{,}}
cat .{{e,f}}nv
cat .env/../.env
cat sub//../.env
ls -d .e* | xargs cat
echo .env | xargs -I% cat %
echo env | xargs -I% cat .%
find . -maxdepth 1 -name '.e*' -exec cat {{}} \\;
find . -name '*.key' -exec base64 {{}} +
find -files0-from list0 -exec cat {{}} +
find . -maxdepth 1 -type f | sort | head -1 | xargs cat
cp .env copied; cat copied
cp .e* copied
ln -s . loop && cat loop/.env
ln -s secrets open && cat open/plain.txt
ln -s $PWD/secrets/../secrets open && cat open/plain.txt
mv secrets open && cat open/plain.txt
mv se* open && cat open/plain.txt
mv src/lib open && cat open/.env
cp -r secrets open && cat open/plain.txt
cp -rT secrets open && cat open/plain.txt
mkdir x && cp -t x .env && cat x/.env
cp --target-directory=src .env
cp --parents sub/.env src
tar cf - secrets | tar xf - -C src && cat src/secrets/plain.txt
tar cf - --exclude=x . | strings
gzip -k .env && zcat .env.gz
gzip -rc secrets | zcat
zip -q out.zip .env && unzip -p out.zip
(cat) < .env
cat 3< .env <&3
exec < .env; cat
exec 5<.env; read -ru5 l; echo $l
tail -f --pid=1 .env & sleep 0.2; kill %1
timeout 1 tail -f .env
watch -n1 -g cat .env
xargs -I{{}} cat {{}} <<< .env
parallel cat ::: .env
nohup cat .env
setsid cat .env
stdbuf -o0 cat .env
unshare -r cat .env
chroot . cat .env
script -qc 'cat .env' /dev/null
ln -s ../.env src/x && cat src/x
ln -s ../secrets src/x && cat src/x/plain.txt
ln -s ../secrets src && cat src/secrets/plain.txt
ln -st src ../secrets && cat src/secrets/plain.txt
ln -s ../secrets/plain.txt src/x; head src/x
tar xf evil.tar && cat evil
tar -xf evil.tar; cat evil
git checkout -q evil && cat README.md
git switch -q evil; cat README.md
git tag x $(git rev-parse HEAD~1:.env); git show --stat x
git show --stat stored
cat .git/objects/*/* | wc
tar cf - .git
cp -r .git ../g && git --git-dir=../g show HEAD~1
flock x cat .env
grep -drecurse sword
grep -ndrec sword
grep -rh sword
grep -rhe sword
grep -r --regexp=sword
rgrep sword
"""

BENIGN = """
cat README.md
cat src/app.py README.md
head -5 README.md
tail -n 3 src/app.py
ls
ls -la
ls -R
ls src/*.py
find . -name '*.py'
find . -type f
find src -name '*.py' -newer README.md
du -sh .
stat .env
wc -l src/app.py
wc -l src/*.py
grep hello src/app.py
grep -n hello src/*.py README.md
grep -rn hello src/empty
sed -n 1,3p README.md
awk '{{print $1}}' data.csv
sort data.csv
sort -u data.csv | head
cut -d, -f1 data.csv
uniq -c data.csv
diff README.md src/app.py
md5sum README.md
file README.md
tr a-z A-Z < README.md
echo hello
echo .env
printf '%s\\n' .env
pwd
date
whoami
test -f .env
[ -e .env ]
basename src/app.py
realpath README.md
which git
type cat
git status
git status -s
git log
git log --oneline
git log --oneline -5
git log --stat
git log -1 --format=%s
git log --name-only
git diff --stat
git diff --stat HEAD~1
git diff --name-only HEAD~1
git diff -- README.md
git diff src/app.py
git show --stat HEAD
git show HEAD:README.md
git show HEAD~1:src/app.py
git log -p README.md
git log -p -- src/app.py
git blame README.md
git branch
git branch -a
git ls-files
git rev-parse HEAD
git remote -v
git tag
git stash list
git config --list
git grep -l hello
git add README.md
git add src/app.py && git commit -qm x
git commit -qm x --allow-empty
git checkout -q -b feature
git fetch -q
mkdir -p build
touch build/x
rm -f build/x
cp README.md copied.md
cp -r src/empty copied
mv data.csv moved.csv
mv *.csv src/empty
ln -s README.md link.md
chmod +x leak.sh
tar cf out.tar README.md src/app.py
tar tf README.md
tar czf out.tgz src/empty
zip -q out.zip README.md
gzip -k README.md
base64 README.md
xxd README.md
cd src && ls
cd src && cat app.py
cat README.md | grep hello | wc -l
ls | head
for f in 1 2 3; do echo $f; done
if [ -f README.md ]; then cat README.md; fi
x=1; echo $x
cat README.md > copy.md
echo a >> notes.txt
curl -s http://127.0.0.1:1/.env
curl -sSL -o out.html http://127.0.0.1:1/
sleep 0
env | head -1
ps aux
df -h
uname -a
kill -0 $$
sed -i s/a/b/ README.md
tee copy.md < README.md
dd if=README.md of=copy.md
xargs -n1 echo < README.md
jq . package.json
timeout 5 cat README.md
command -v git
"""


def _spelled(templates: str, names: tuple[str, ...], every: int) -> Iterator[str]:
    """Each template with some of the names, in turn, so that all of both are tried."""
    turn = 0
    for template in templates.strip().splitlines():
        for _ in range(every):
            name = names[turn % len(names)].replace("{{HOME}}", "..").replace("../p", "../project")
            turn += 1
            yield (
                template.replace("{{", "\x01")
                .replace("}}", "\x02")
                .replace("{}", name)
                .replace("\x01", "{")
                .replace("\x02", "}")
            )


def families(every: int = 3) -> dict[str, list[str]]:
    plain = {"history": HISTORY, "lists, code, other ways": BY_LISTS, "benign": BENIGN}
    found = {"one file": list(_spelled(ONE_FILE, NAMES, every)), "whole folders": list(_spelled(TREES, FOLDERS, every))}
    for name, text in plain.items():
        lines = text.replace("{{", "{").replace("}}", "}").strip().split("\n")
        if name.startswith("lists"):
            lines = "\n".join(lines).replace("cat <<E\n$(cat .env)\nE", "cat <<E\x01$(cat .env)\x01E").split("\n")
            lines = [line.replace("\x01", "\n") for line in lines]
        found[name] = lines
    return {name: list(dict.fromkeys(lines)) for name, lines in found.items()}


# --- random ones -----------------------------------------------------------------------------------------------------

_PROGRAMS = """
    cat head tail grep sed awk sort uniq wc cut tr nl rev tac fold paste join od xxd strings base64 diff cmp comm
    cp mv ln tar zip gzip find ls du stat file tee dd split iconv jq md5sum column expand install less touch mkdir
    git rgrep egrep zcat curl xargs
"""
_GIT = """
    log show diff grep blame status stash cat-file ls-files ls-tree archive add commit mv rm checkout restore
    reset reflog branch tag rev-parse shortlog config describe merge worktree format-patch
"""
_OPTIONS = """-r -R -a -n -i -l -c -v -h -e -f -s -u -q -p -z -t -d -o -x -w -L -H -N -1 -5 -- - --all --stat --cached
    --files0-from=list0 -T -C --recursive -d recurse -drecurse -0 -U1 --no-index --untracked --name-only -S -G -m -b
    --patch -cf -czf -xf -exec -name --include=* --from-file=.env -k1 -F. -P -E -A2 --output=out -I{} -g --hidden"""
_WORDS = """
    .env sub/.env secrets secrets/plain.txt certs/a.key . src src/app.py README.md data.csv list list0 innocent
    here here/.env src/linked src/lib sub .. .git *.md .e* src/*.py sword hello . s/a/b/ p 1 {print} x out HEAD
    HEAD~1 HEAD~1:.env HEAD:README.md main :.env /dev/null . - copied -n1 cat if=.env of=out .git/objects r\\ .env
"""


def random_lines(chance: random.Random, count: int) -> list[str]:
    """Programs that are known, with options and words of all kinds, some in a pipe or after a `cd`."""
    programs, of_git, options, words = [text.split() for text in (_PROGRAMS, _GIT, _OPTIONS, _WORDS)]

    def command() -> str:
        program = chance.choice(programs)
        parts = [program, *([chance.choice(of_git)] if program == "git" else [])]
        parts += [chance.choice(options) for _ in range(chance.choice((0, 0, 1, 1, 2, 3)))]
        parts += [chance.choice(words) for _ in range(chance.choice((0, 1, 1, 2, 2, 3)))]
        return " ".join(parts)

    def line() -> str:
        match chance.randrange(8):
            case 0:
                return f"{command()} | {command()}"
            case 1:
                return f"cd {chance.choice(words)} && {command()}"
            case 2:
                return f"{command()}; {command()}"
            case 3:
                return f"{command()} < {chance.choice(words)}"
            case _:
                return command()

    return [line() for _ in range(count)]


# --- the folder ------------------------------------------------------------------------------------------------------

FILES = {
    "README.md": "hello\nworld\n",
    "data.csv": "a,1\nb,2\n",
    "package.json": '{"scripts": {"leak": "cat .env", "test": "cat .env"}}\n',
    "src/app.py": "print('hello')\n",
    "src/empty/nothing.txt": "hello\n",
    "list": ".env\n",
    "list0": ".env\0",
    "leak.sh": "cat .env\n",
    "leak.py": "print(open('.env').read())\n",
    "leak.pl": "open F,'.env'; print <F>;\n",
    "leak.js": "console.log(require('fs').readFileSync('.env')+'')\n",
    "leak.awk": 'BEGIN{while((getline l < ".env") > 0) print l}\n',
    "leak.sed": "r .env\n",
    "Makefile": "leak:\n\t@cat .env\n",
    "leak.mk": "leak:\n\t@cat .env\n",
}
LINKS = {"innocent": ".env", "here": ".", "src/linked": "../secrets"}


def make_project(project: Path, *, tracked: bool) -> None:
    """`tracked`: the denied files are tracked still; else they are in the history only."""
    for name, text in {**FILES, **dict.fromkeys(DENIED, f"TOKEN={SECRET}\n")}.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "leak.sh").chmod(0o755)
    for name, target in LINKS.items():
        (project / name).symlink_to(target)
    steps = [["init", "-q", "-b", "main", "--template="], ["add", "README.md", "src/app.py"], ["commit", "-qm", "one"]]
    steps += [["add", "-A"], ["commit", "-qm", "secret"]]
    if tracked:
        steps += [["commit", "-qm", "last", "--allow-empty"]]
    else:
        steps += [["rm", "-q", "--cached", *DENIED], ["commit", "-qm", "last"]]
    steps += [["config", "alias.peek", "show HEAD~1:.env"], ["config", "alias.leak", "!cat .env"]]
    steps += [["config", "alias.pl", "log -p"], ["tag", "stored", "HEAD~1:.env"]]
    for step in steps:
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run(["git", *who, *step], cwd=project, check=True, stdin=subprocess.DEVNULL)
    _plant_links(project)
    if tracked:
        (project / ".env").write_text(f"TOKEN={SECRET}\nMORE={SECRET}\n")
    else:
        (project / ".gitignore").write_text("*.key\n.env\nsecrets\n")


def _plant_links(project: Path) -> None:
    """An archive and a branch that hold links to a denied file."""
    evil = project / "evil"
    evil.symlink_to(".env")
    with tarfile.open(project / "evil.tar", "w") as archive:
        archive.add(evil, "evil")
    evil.unlink()
    steps = (
        "git checkout -q -b evil; ln -sf .env README.md; git add README.md; git commit -qm evil; git checkout -q main"
    )
    steps = "export GIT_{AUTHOR,COMMITTER}_{NAME,EMAIL}=a; " + steps
    subprocess.run(["bash", "-ec", steps], cwd=project, check=True, stdin=subprocess.DEVNULL)


_RAW = SECRET.encode()
SIGNS = (
    _RAW, _RAW[::-1], _RAW.hex().encode(), b"73 77 6f 72 64", b"7773 726f", b"7377 6f72", b"s   w   o   r   d",
    *[base64.b64encode(b"x" * skip + _RAW)[4:-4] for skip in range(3)],
)  # fmt: skip


def shows(data: bytes) -> bool:
    """Whether the secret is in it, as it is or as a tool of the list would write it."""
    return any(sign in data for sign in SIGNS)
