"""Who may do what: rules (`rules.py`), the shell checker (`shell/`), and `decide.decide`, which is pure.

Nothing is loaded here: modules of this package are loaded by two threads at once (`engine/session_deps.py`), and a
package that loads its own modules makes each of the two wait for the other. Python then gives one of them half a
module.
"""
