"""Many agent sessions under one budget and one rate limit. `mainspring` exports what is public; see docs/fleet.md."""
