"""The model `demo/tour`: scripted and offline, to try the terminal without a key.

It answers every prompt with what it would take to show: an answer in text, a tool call that only reads, and then one
that needs an approval. It understands nothing.
"""

from __future__ import annotations

from mainspring.core.messages import Origin, User
from mainspring.providers.scripted import FunctionModel, ScriptedReply, ShownConversation, call, says
from mainspring.text import plural, truncate

PACE = 15  # milliseconds before each delta: about as fast as a quick model
LONGEST = 60  # characters of a prompt that are repeated
FILE = "mainspring-demo.txt"

FIRST = """\
I am the demo model: every answer of mine is written in advance, and nothing leaves this machine. You wrote: \
"{prompt}". A real model would now look at your project, so let me list this folder."""
THEN = """\
The listing has {lines}. That call needed no approval, because it only reads.

Send another prompt to see what a **change** looks like: you are asked first, and nothing happens before you agree. \
`/help` lists the commands. To connect a real model, type `/login`."""
CHANGE = "This time I would like to write a small file here. You decide."
DONE = """\
That was the tour of an approval. Whatever you chose, it was recorded in this session, and `/permissions` shows the \
rules. To connect a real model, type `/login`."""
SIDE = "Demo"  # for titles and other side calls


class DemoModel(FunctionModel):
    def __init__(self) -> None:
        super().__init__(play_tour)


def play_tour(shown: ShownConversation) -> ScriptedReply:
    if not shown.tools:
        return says(SIDE)
    prompts = [one.shown_text for one in shown.messages if isinstance(one, User) and one.origin is Origin.PROMPT]
    if results := shown.results:
        lines = plural(len(results[-1].text.splitlines()), "line")
        return says(THEN.format(lines=lines) if len(prompts) <= 1 else DONE, pace=PACE)
    if len(prompts) <= 1:
        prompt = truncate(" ".join(prompts[-1].split()) if prompts else "", LONGEST)
        look = call("Bash", command="ls", description="List this folder")
        return says(FIRST.format(prompt=prompt), look, pace=PACE)
    text = "Written by the demo model of mainspring. You can delete this file.\n"
    return says(CHANGE, call("Write", file_path=FILE, content=text), pace=PACE)
