"""Ways in which a process gets away from the shell that started it. `NAP` stands for the argument of its `sleep`."""

from __future__ import annotations

import os
import sys
from typing import Any

from mainspring.processes.child import ProcessSpec
from mainspring.processes.process_tree import first_words, new_mark

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}

FORK_TWICE = (
    "import os, sys, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); os.closerange(0, 100); "
    "os.chdir('/'); os.environ.clear(); time.sleep(float(sys.argv[1]))"
)
DEAF = "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(float(sys.argv[1]))"
PYTHON = f"{sys.executable} -I -S -c"

ESCAPES: dict[str, str] = {
    "plain": "sleep NAP &",
    "output elsewhere": "sleep NAP >/dev/null 2>&1 &",
    "a session of its own": "setsid sleep NAP &",
    "and output elsewhere": "setsid sleep NAP >/dev/null 2>&1 </dev/null &",
    "nohup": "nohup sleep NAP >/dev/null 2>&1 &",
    "disowned": "sleep NAP & disown -a",
    "a subshell's": "( (sleep NAP &) & )",
    "forked twice": "(setsid nohup sleep NAP >/dev/null 2>&1 &) ; true",
    "without our variable": "env -i setsid sleep NAP >/dev/null 2>&1 &",
    "a daemon by the book": f'{PYTHON} "{FORK_TWICE}" NAP',
    "deaf to TERM": f'{PYTHON} "{DEAF}" NAP | head -n 1 &',
    "deaf, in its own session": f'setsid {PYTHON} "{DEAF}" NAP > >(head -n 1) &',
    "stopped": "sleep NAP & kill -STOP $!",
    "stopped, in its own session": "setsid sleep NAP & kill -STOP $!",
    "many": "for i in 1 2 3 4 5 6 7 8 9 10; do setsid sleep NAP & done",
    "one starts the other": "setsid bash -c 'setsid bash -c \"setsid sleep NAP & sleep NAP\" & sleep NAP' &",
    "one that starts it anew": "setsid bash -c 'while true; do sleep NAP; done' >/dev/null 2>&1 &",
}


def bash(command: str, cwd: object = "/", **more: Any) -> ProcessSpec:
    """As the tool starts it, with both marks."""
    mark = new_mark()
    argv = ("/bin/bash", "--noprofile", "--norc", "-c", first_words(mark) + command)
    return ProcessSpec(argv, str(cwd), ENV, merged=True, mark=mark)._replace(**more)
