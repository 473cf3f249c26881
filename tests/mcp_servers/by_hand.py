"""Servers that were written by hand, to misbehave as a library never would. Small, so that they start at once."""

from __future__ import annotations

PLAIN = """
import json, os, sys, time
TOOLS = [{"name": "hello", "inputSchema": {"type": "object"}}]
def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
def answer(name, arguments):
    return {"content": [{"type": "text", "text": f"{name} {json.dumps(arguments)}"}]}
def serve(answer=answer, tools=TOOLS, heard=lambda request: None, has=("tools",), more={}):
    for line in sys.stdin:
        request = json.loads(line)
        heard(request)
        match request.get("method"):
            case method if method in more:
                result = more[method](request.get("params") or {})
                if result is not None:
                    send(id=request["id"], result=result)
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "by hand", "version": "1"}
                about = {"capabilities": {name: {} for name in has}, "serverInfo": info}
                send(id=request["id"], result={"protocolVersion": version, **about})
            case "tools/list":
                send(id=request["id"], result={"tools": tools})
            case "tools/call":
                send(id=request["id"], result=answer(request["params"]["name"], request["params"].get("arguments")))
"""


def by_hand(code: str) -> str:
    """`serve()` in it serves; what stands before and around it is the misbehaviour. `more` has, by method, what else is
    answered; None is no answer."""
    return f"{PLAIN}\n{code}"
