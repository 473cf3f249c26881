"""The same names, where programs for `claude-agent-sdk` look for types."""

from mainspring.sdk import *  # noqa: F403
