"""Approvals: rules decide most calls, and your function the others.

python examples/approvals.py
"""

import tempfile

from mainspring import Agent, Approval, ApprovalRequest
from mainspring.testing import Scripted, call, says

MODEL = Scripted(
    [
        says(call("Bash", command="touch notes.txt")),  # asked, allowed
        says(call("Bash", command="rm notes.txt")),  # asked, denied with a message
        says(call("Bash", command="git push")),  # denied by a rule: never asked
        says("There is a new file notes.txt."),
    ]
)


def approve(request: ApprovalRequest) -> bool | Approval:
    command = request.input["command"]
    print("asked about:", command)
    if command.startswith("rm "):
        return Approval("deny", message="Move the file to the trash folder instead.")
    return True


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(  # with a key: Agent("haiku", ...)
            MODEL, tools=["Bash"], disallowed_tools=["Bash(git push *)"], approve=approve, cwd=folder, persist=False
        )
        print(agent.run_sync("Make some notes.").text)
    for result in MODEL.conversations[3].results:
        print("the model reads:", result.text)
