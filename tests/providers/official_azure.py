"""OpenAI's own client for Azure talks to the resource whose address it is given: run by `test_azure.py` with the
interpreter of `.venv-peers`. It prints what it was answered, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

openai: Any = importlib.import_module("openai")  # not in the environment of the type checker


def main(url: str, key: str, version: str, deployment: str) -> None:
    client = openai.AzureOpenAI(azure_endpoint=url, api_key=key, api_version=version, max_retries=0)
    chat = client.chat.completions.create(model=deployment, messages=[{"role": "user", "content": "go"}])
    response = client.responses.create(model=deployment, input="go")
    listed = [model.id for model in client.models.list()]
    print(json.dumps([chat.choices[0].message.content, response.output_text, listed]))


main(*sys.argv[1:])
