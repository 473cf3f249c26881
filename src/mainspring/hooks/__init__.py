"""Hooks: functions of the host and commands in settings that run at named events of a run."""
