"""What the model sees, and what it costs: layers that edit the view, the system prompt, memory, attachments."""

from typing import TYPE_CHECKING

from mainspring.lazy import load_attribute

if TYPE_CHECKING:
    from mainspring.context.agent_types import BUILTIN_AGENT_TYPES as BUILTIN_AGENT_TYPES
    from mainspring.context.agent_types import find_agent_types as find_agent_types
    from mainspring.context.agent_types import format_agent_types as format_agent_types
    from mainspring.context.agent_types import parse_agent_types as parse_agent_types
    from mainspring.context.attachments import render_attachment as render_attachment
    from mainspring.context.attachments import select_missing_attachments as select_missing_attachments
    from mainspring.context.custom_commands import CustomCommands as CustomCommands
    from mainspring.context.custom_commands import SlashCatalog as SlashCatalog
    from mainspring.context.custom_commands import SlashEntry as SlashEntry
    from mainspring.context.file_changes import FileChanges as FileChanges
    from mainspring.context.file_changes import iter_recent_files as iter_recent_files
    from mainspring.context.git import take_git_snapshot as take_git_snapshot
    from mainspring.context.layers import LayerLimits as LayerLimits
    from mainspring.context.memory import TRUST as TRUST
    from mainspring.context.memory import find_absent_mentions as find_absent_mentions
    from mainspring.context.memory import find_mentions as find_mentions
    from mainspring.context.mentions import MentionScope as MentionScope
    from mainspring.context.mentions import resolve_mentions as resolve_mentions
    from mainspring.context.notes import MemoryNotes as MemoryNotes
    from mainspring.context.output_styles import OutputStyles as OutputStyles
    from mainspring.context.prompt import insert_nonce as insert_nonce
    from mainspring.context.skills import Skills as Skills
    from mainspring.context.sources import ContextSourceOptions as ContextSourceOptions
    from mainspring.context.sources import ContextSources as ContextSources
    from mainspring.context.tokens import SideCall as SideCall

# Loaded on first use, so that a start pays only for what it needs.
MODULES = {
    "ContextSourceOptions": "sources",
    "ContextSources": "sources",
    "CustomCommands": "custom_commands",
    "FileChanges": "file_changes",
    "LayerLimits": "layers",
    "MemoryNotes": "notes",
    "MentionScope": "mentions",
    "BUILTIN_AGENT_TYPES": "agent_types",
    "OutputStyles": "output_styles",
    "SideCall": "tokens",
    "render_attachment": "attachments",
    "Skills": "skills",
    "SlashCatalog": "custom_commands",
    "SlashEntry": "custom_commands",
    "TRUST": "memory",
    "find_absent_mentions": "memory",
    "find_agent_types": "agent_types",
    "find_mentions": "memory",
    "format_agent_types": "agent_types",
    "insert_nonce": "prompt",
    "iter_recent_files": "file_changes",
    "parse_agent_types": "agent_types",
    "resolve_mentions": "mentions",
    "select_missing_attachments": "attachments",
    "take_git_snapshot": "git",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return load_attribute(__name__, MODULES, name)
