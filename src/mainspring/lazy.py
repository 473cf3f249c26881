"""Names of a package that are loaded on first use: one table per package, read by its `__getattr__`."""

import sys
from collections.abc import Mapping


def load_attribute(package: str, modules: Mapping[str, str], name: str) -> object:
    """The value of a name whose module `modules` gives. The package keeps it."""
    module = modules.get(name)
    if module is None:
        raise AttributeError(f"module '{package}' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(f"{package}.{module}"), name)
    setattr(sys.modules[package], name, value)
    return value
