# mainspring with git, ripgrep and a sandbox for commands, as an ordinary user.
#
#   docker build -t mainspring .
#   docker run --rm -it -e ANTHROPIC_API_KEY -v "$PWD:/work" mainspring
#   git diff | docker run --rm -i -e ANTHROPIC_API_KEY -v "$PWD:/work:ro" mainspring -p "Review this."
FROM python:3.13-slim AS build
COPY . /src
RUN pip wheel --no-deps --wheel-dir /wheels /src

FROM python:3.13-slim
# Not pinned: an image that is built later gets the security updates of its base.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap git ripgrep tini && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[mcp,web,pdf]" && rm -r /wheels
RUN useradd --create-home --uid 1000 agent && mkdir /work && chown agent /work
USER 1000
# Sessions are lost with the container, unless this folder is a volume.
ENV MAINSPRING_HOME=/home/agent/.mainspring
WORKDIR /work
# An init collects the processes that commands leave behind.
ENTRYPOINT ["tini", "--", "mainspring"]
