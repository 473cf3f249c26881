"""A model server for tests, on loopback: strict about what it is asked, scripted in what it answers.

Start reading at `validate.py` (what a request must be) and `server.py` (who answers it).
"""
