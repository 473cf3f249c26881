#!/usr/bin/env bash
# Installs the third-party programs that tests need and this machine lacks (Debian). `.ci/run` and `make test INSTALL=1`
# call it; without it, `make test` skips the tests that need them and says so (tests/programs.py).
set -euo pipefail
missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need make make
need openssl openssl    # certificates for the tests of TLS
need valgrind valgrind  # counts instructions: what a start and a turn cost
need strace strace      # kills and fails at every system call of the journal
need git git
need cc gcc             # the native part
need bwrap bubblewrap   # the sandbox that commands run in
need zsh zsh            # completions
need fish fish
need groff groff        # the manual page
need chromium chromium  # the page of the trace viewer
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3 python3-venv)
python3 -c 'import sys, sysconfig, pathlib; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
  missing+=(python3-dev)
if ((${#missing[@]})); then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi
