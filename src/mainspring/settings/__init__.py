"""What the user, the project, the administrator and the command line ask for, and whom of them we believe.

settings = load(cwd, environ)            # load.py; never touches anything but the files that it reads
settings.permissions.deny, settings.model, settings.problems
origins(settings)                        # what holds, and where it came from
trust.is_trusted(home, folder)           # trust.py
write(places, source, change)            # edit.py; rules, folders and the mode in one file, the rest of it as it was
Keeper(cwd, environ).keep(source, change)    # persist.py; the same for the doors: nothing is raised, all is told
"""
