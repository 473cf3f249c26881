"""An agent is a loop around a model: call it, run the tools it asks for, return their results, until it asks for none.

Run it: python examples/tiny_loop.py. The model is a script here, so you need nothing but Python.
"""

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def list_files(pattern: str) -> str:
    return ", ".join(sorted(path.name for path in HERE.glob(pattern)))


def count_lines(name: str) -> str:
    return str(len((HERE / name).read_text().splitlines()))


TOOLS = {"list_files": list_files, "count_lines": count_lines}


def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A real model reads the messages and decides. This one only looks at how many there are."""
    match len(messages):
        case 1:
            return {"role": "assistant", "text": "Which files are here?", "calls": [("list_files", "*.py")]}
        case 3:
            return {"role": "assistant", "text": "I'll count.", "calls": [("count_lines", "tiny_loop.py")]}
        case _:
            return {"role": "assistant", "text": f"{messages[-1]['text']} lines, comments included.", "calls": []}


def run(prompt: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "text": prompt}]
    while True:
        reply = model(messages)
        messages.append(reply)
        if not reply["calls"]:
            return messages
        for name, argument in reply["calls"]:
            messages.append({"role": "tool", "text": TOOLS[name](argument)})


if __name__ == "__main__":
    for message in run("How long is the smallest agent loop?"):
        print(f"{message['role']:>9}: {message['text']}", *message.get("calls", []))

# src/mainspring/core/step.py is this loop with its decisions named. There
#   - the loop does no I/O: it gets events and returns what to do next, so a run can be stored and replayed;
#   - each round has a reason (`Transition`), and so has the end (`Terminal`, `Cause`);
#   - a failed request, a truncated answer, a full context: each has its recoveries, tried in order;
#   - every recovery has a limit, so that every run ends, whatever the model does;
#   - every call gets exactly one result, also when the run is interrupted or the tool never ran.
