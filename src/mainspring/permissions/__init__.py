"""Permissions: rules (`rules.py`), the shell checker (`shell/`), and `decide.decide`, which is pure.

This module imports nothing: two threads load modules of this package at once (`engine/session_deps.py`), and a package
that imports its own modules makes each thread wait for the other. Python then gives one of them a half-initialized
module.
"""
