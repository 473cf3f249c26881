"""Settings of the user, the project, the administrator and the command line, and which of them count.

settings = load_settings(cwd, environ)    # load.py; only reads files
settings.permissions.deny, settings.model, settings.problems
format_origins(settings)                  # effective.py; the effective settings, and where each comes from
is_trusted(home, folder)                  # trust.py
write_change(places, source, change)      # edit.py; changes rules, folders or the mode, keeps the rest of the file
SettingsWriter(cwd, environ).keep(source, change)    # persist.py; the same for front ends, raises nothing
"""
