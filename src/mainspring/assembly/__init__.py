"""From options, settings and the environment to a session that can run. Every door begins here."""
