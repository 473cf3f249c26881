"""What the user, the project, the administrator and the command line ask for, and whom of them we believe.

settings = load(cwd, environ)            # load.py; never touches anything but the files that it reads
settings.permissions.deny, settings.model, settings.problems
origins(settings)                        # what holds, and where it came from
trust.is_trusted(home, folder)           # trust.py
"""
