"""Runs commands so that they can read and change only what they may."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.sandbox.bubblewrap import SandboxError as SandboxError
    from mainspring.sandbox.landlock import LandlockSandbox as LandlockSandbox
    from mainspring.sandbox.landlock import find_landlock_problem as find_landlock_problem
    from mainspring.sandbox.proxy import ProxyNetwork as ProxyNetwork
    from mainspring.sandbox.proxy import SandboxProxy as SandboxProxy
    from mainspring.sandbox.sandbox import ProbeResult as ProbeResult
    from mainspring.sandbox.sandbox import SandboxBackend as SandboxBackend
    from mainspring.sandbox.sandbox import SandboxLayout as SandboxLayout
    from mainspring.sandbox.sandbox import SandboxLevel as SandboxLevel
    from mainspring.sandbox.sandbox import build_sandbox as build_sandbox
    from mainspring.sandbox.sandbox import decide_status as decide_status
    from mainspring.sandbox.sandbox import probe_sandbox as probe_sandbox

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "LandlockSandbox": "landlock",
    "ProbeResult": "sandbox",
    "ProxyNetwork": "proxy",
    "SandboxBackend": "sandbox",
    "SandboxError": "bubblewrap",
    "SandboxLayout": "sandbox",
    "SandboxLevel": "sandbox",
    "SandboxProxy": "proxy",
    "build_sandbox": "sandbox",
    "decide_status": "sandbox",
    "find_landlock_problem": "landlock",
    "probe_sandbox": "sandbox",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
