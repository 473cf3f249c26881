"""The rules of the protocol, one function each: a request whose form is right in, what breaks the rule out.

`validate.py` gives them their names and their order.
"""
