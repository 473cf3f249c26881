"""Two threads that load modules at the same time never wait for each other.

While the model writes the input of a call, a thread loads what the call will need (`engine/session_deps.py`), and the
loop may load the same. A package that loads its own modules holds its lock until they are there, and they ask for it:
begun from both ends, each thread waits for the other. Python sees that, and gives one of them half a module. The first
call of a session failed so, once in a hundred under load.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mainspring

ROOT = Path(mainspring.__file__).parent
BEFORE = ("mainspring", "mainspring.version", "mainspring.core")  # loaded as a whole when there is no thread yet
FINE = ("mainspring.core.", "mainspring.testing.", "mainspring.sdk.")  # no thread asks for the last two


TWO_AT_ONCE = """
import sys, threading, time
from importlib.machinery import PathFinder
import mainspring.cli.print_mode
from mainspring.engine.session_deps import preload_tool

class Late:
    '''The package is found; before its first line is run, the other thread comes as far as it can.'''

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "mainspring.permissions.policy":
            return None
        found = PathFinder.find_spec(name, path, target)
        load = found.loader.exec_module

        def late(module):
            preload_tool("Agent")
            while not waits():
                time.sleep(0.001)
            load(module)

        found.loader.exec_module = late
        return found

def waits():
    '''For a lock of Python's own; or it is done.'''
    others = [one for one in threading.enumerate() if one.name == "warming"]
    frames = sys._current_frames()
    return not others or [frames[one.ident].f_code.co_name for one in others if one.ident in frames] == ["acquire"]

assert "mainspring.permissions.policy" not in sys.modules
sys.meta_path.insert(0, Late)
from mainspring.tools.pipeline import run_pipeline
assert "mainspring.permissions.policy" in sys.modules
"""


def modules() -> dict[str, Path]:
    found = {}
    for file in ROOT.rglob("*.py"):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def at_once(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """What is loaded when the module is, not when one of its functions is called or types are checked."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield node
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield from at_once(node.orelse)
            case ast.If() | ast.Try() | ast.With() | ast.ClassDef():
                yield from at_once(node.body)
                yield from at_once(getattr(node, "orelse", []))
            case _:
                pass


def wanted(name: str, file: Path, known: dict[str, Path]) -> set[str]:
    """Modules whose locks are asked for while that of this one is held."""
    names = {name.rpartition(".")[0]}
    for node in at_once(ast.parse(file.read_text()).body):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        else:
            names |= {node.module or "", *[f"{node.module}.{one.name}" for one in node.names]}
    return {one for one in names if one in known and one != name}


def reached(name: str, edges: dict[str, set[str]]) -> set[str]:
    seen, left = set[str](), [name]
    while left:
        for one in edges[left.pop()] - seen:
            seen.add(one)
            left.append(one)
    return seen


def test_no_module_waits_for_one_that_waits_for_it() -> None:
    known = modules()
    edges = {name: wanted(name, file, known) for name, file in known.items()}
    assert len(known) > 300, "it looks at the real modules"
    assert "mainspring.permissions.policy" in edges["mainspring.permissions.decide"]
    in_a_ring = {name for name in known if name in reached(name, edges)}
    assert {name for name in in_a_ring if name not in BEFORE and not f"{name}.".startswith(FINE)} == set()


def test_the_packages_that_may_are_loaded_before_any_thread() -> None:
    code = f"import sys, mainspring.cli.print_mode; sys.exit(any(name not in sys.modules for name in {BEFORE}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_call_and_the_thread_that_loads_ahead_for_it_both_get_whole_modules() -> None:
    """Each from its end, at the worst moment."""
    done = subprocess.run([sys.executable, "-c", TWO_AT_ONCE], check=False, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.decode()) == (0, "")
