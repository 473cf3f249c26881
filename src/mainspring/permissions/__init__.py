"""Permissions: rules (`rules.py`), the shell checker (`shell/`), and `decide.decide`, which is pure.

This module imports nothing: two threads load modules of this package at once (`engine/session_deps.py`), and a package
that imports its own modules makes each thread wait for the other. Python then gives one of them a half-initialized
module.
"""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.permissions.bash import check_bash_command as check_bash_command
    from mainspring.permissions.bash import names_closed_file as names_closed_file
    from mainspring.permissions.checker import AllowAll as AllowAll
    from mainspring.permissions.classifier import apply_answer as apply_answer
    from mainspring.permissions.closed_files import find_closed_access as find_closed_access
    from mainspring.permissions.commands import parse_command_pattern as parse_command_pattern
    from mainspring.permissions.commands import pattern_covers as pattern_covers
    from mainspring.permissions.decide import findings as findings
    from mainspring.permissions.files import FileAccessRequest as FileAccessRequest
    from mainspring.permissions.files import FileRules as FileRules
    from mainspring.permissions.hosts import denied_search_domains as denied_search_domains
    from mainspring.permissions.hosts import names_host as names_host
    from mainspring.permissions.hosts import proxy_gate as proxy_gate
    from mainspring.permissions.patterns import matches_below as matches_below
    from mainspring.permissions.patterns import parse_path_pattern as parse_path_pattern
    from mainspring.permissions.policy import Mode as Mode
    from mainspring.permissions.policy import PermissionDecision as PermissionDecision
    from mainspring.permissions.policy import PermissionPolicy as PermissionPolicy
    from mainspring.permissions.policy import PermissionRequest as PermissionRequest
    from mainspring.permissions.rules import PermissionRules as PermissionRules
    from mainspring.permissions.rules import RuleSource as RuleSource
    from mainspring.permissions.rules import names_tool as names_tool
    from mainspring.permissions.rules import parse_rules as parse_rules
    from mainspring.permissions.rules import sort_rules as sort_rules
    from mainspring.permissions.shell.analyze import analyze_command as analyze_command
    from mainspring.permissions.shell.reads_git import git_reads as git_reads
    from mainspring.permissions.suggest import suggest_rules as suggest_rules
    from mainspring.permissions.suggest import suggest_wider_rules as suggest_wider_rules
    from mainspring.permissions.suggest import suggested_mode as suggested_mode

# The tools that read and write files, and the input field with the path: the one table of them. It is here because a
# start needs it, and none of the modules below.
READERS = {"Read": "file_path", "NotebookRead": "notebook_path", "Grep": "path", "Glob": "path", "LS": "path"}
WRITERS = {"Edit": "file_path", "MultiEdit": "file_path", "Write": "file_path", "NotebookEdit": "notebook_path"}

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "names_closed_file": "bash",
    "names_host": "hosts",
    "denied_search_domains": "hosts",
    "suggested_mode": "suggest",
    "AllowAll": "checker",
    "FileAccessRequest": "files",
    "FileRules": "files",
    "Mode": "policy",
    "PermissionDecision": "policy",
    "PermissionPolicy": "policy",
    "PermissionRequest": "policy",
    "PermissionRules": "rules",
    "RuleSource": "rules",
    "analyze_command": "shell.analyze",
    "apply_answer": "classifier",
    "check_bash_command": "bash",
    "find_closed_access": "closed_files",
    "findings": "decide",
    "git_reads": "shell.reads_git",
    "matches_below": "patterns",
    "names_tool": "rules",
    "parse_command_pattern": "commands",
    "parse_path_pattern": "patterns",
    "parse_rules": "rules",
    "pattern_covers": "commands",
    "proxy_gate": "hosts",
    "sort_rules": "rules",
    "suggest_rules": "suggest",
    "suggest_wider_rules": "suggest",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
