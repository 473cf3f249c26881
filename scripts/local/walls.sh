# What a command can reach. The tool runs this in the sandbox; one run without it serves as comparison.
. ./where

try() {
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "$what: yes"; else echo "$what: no"; fi
}

try "writes here" touch made
try "writes outside" touch "$OUTSIDE/made"
try "reaches a server" bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT"
