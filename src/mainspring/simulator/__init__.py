"""A model server for tests, on loopback: it validates requests strictly and answers from a script.

Start reading at `validate.py` (the rules for requests) and `server.py` (how they are answered).
"""
