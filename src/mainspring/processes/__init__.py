"""Files and processes for tools: resolving, opening and writing paths, starting and ending programs."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.processes.atomic_write import ReadSet as ReadSet
    from mainspring.processes.atomic_write import write_atomically as write_atomically
    from mainspring.processes.child import ProcessLimits as ProcessLimits
    from mainspring.processes.child import ProcessSpec as ProcessSpec
    from mainspring.processes.child import SandboxAccess as SandboxAccess
    from mainspring.processes.children import Children as Children
    from mainspring.processes.environment import child_environment as child_environment
    from mainspring.processes.environment import find_program as find_program
    from mainspring.processes.environment import is_own_variable as is_own_variable
    from mainspring.processes.environment import sounds_secret as sounds_secret
    from mainspring.processes.output import OutputSizes as OutputSizes
    from mainspring.processes.output import write_new_file as write_new_file
    from mainspring.processes.paths import PathRefused as PathRefused
    from mainspring.processes.paths import Resolutions as Resolutions
    from mainspring.processes.paths import is_within as is_within
    from mainspring.processes.paths import names_of_path as names_of_path
    from mainspring.processes.paths import resolve_path as resolve_path
    from mainspring.processes.read_log import copy_read_log as copy_read_log
    from mainspring.processes.safe_open import open_read as open_read

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "Children": "children",
    "OutputSizes": "output",
    "PathRefused": "paths",
    "ProcessLimits": "child",
    "ProcessSpec": "child",
    "ReadSet": "atomic_write",
    "Resolutions": "paths",
    "SandboxAccess": "child",
    "child_environment": "environment",
    "copy_read_log": "read_log",
    "find_program": "environment",
    "is_own_variable": "environment",
    "is_within": "paths",
    "names_of_path": "paths",
    "open_read": "safe_open",
    "resolve_path": "paths",
    "sounds_secret": "environment",
    "write_atomically": "atomic_write",
    "write_new_file": "output",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
