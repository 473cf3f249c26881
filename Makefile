# The words of this project. CI, the README and people use the same ones.
PYTHON ?= python3
BIN := .venv/bin
# Runs the few tests that fail again, alone.
PYTEST := $(BIN)/python scripts/run_tests.py
READY := .venv/ready
NATIVE := src/mainspring/tools/_newlines.abi3.so
SOURCES := $(shell find src -name '*.py' 2>/dev/null)

.PHONY: .venv demo programs test ci-long coverage decided check style pyright mypy imports wording peers peers-agents fix docs fuzz crash soak bench bench-peers bench-parts local mutate lock clean site site-serve

# Needs what users need and no more, so that a first look takes seconds.
demo: .venv-run/packages
	@PYTHONPATH=src .venv-run/bin/python -m mainspring demo

.venv-run/packages: requirements.lock
	@rm -rf .venv-run
	@$(PYTHON) -m venv .venv-run
	@.venv-run/bin/pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# The long plays run by themselves: measuring coverage would make them five times longer and tell nothing new.
PLAYS := tests/core/test_adversaries.py tests/core/test_random_play.py tests/engine/test_random_driver.py tests/faults \
  tests/sessions/test_cuts.py tests/sessions/test_crash.py tests/permissions/test_evasion.py \
  tests/permissions/test_differential.py

# What decides is covered, branch by branch, by its own tests. The rest is measured by `make coverage`: it takes longer.
DECIDES := tests/core tests/permissions

# What is marked `long` (tests/tiers.py), and properties with as many examples as usual: `make test` draws few.
# `.ci/run` runs it after `make test`.
ci-long: $(READY) peers peers-agents site
	@$(PYTEST) -n 3 --dist worksteal --timeout 1500 -m "long or hypothesis" $(DECIDES:%=--ignore=%) $(PLAYS:%=--ignore=%)
	@$(PYTEST) -n 2 --dist loadgroup --timeout 1500 -m long $(DECIDES) $(filter-out $(DECIDES:%=%/%),$(PLAYS))

# As root in CI, or with INSTALL=1, the programs that tests need are installed first; else what needs them is skipped.
programs:
	@if [ "$(INSTALL)" = 1 ] || { [ "$(CI)" = true ] && [ "$$(id -u)" = 0 ]; }; then scripts/install_programs.sh; fi

# At most eight minutes on two cores. What `check` does and the first tests run side by side.
test: programs peers
	@$(MAKE) --no-print-directory -j 3 $(CHECKS) decided
	@HYPOTHESIS_PROFILE=brief $(PYTEST) -n 4 --dist worksteal -m "not long" $(DECIDES:%=--ignore=%) $(PLAYS:%=--ignore=%)
	@MAINSPRING_PIPE_CLIENT=mainspring.sdk $(PYTEST) -n 4 --dist worksteal -m "not long" tests/pipe
	@HYPOTHESIS_PROFILE=brief $(PYTEST) -n 2 --dist loadgroup -m "not long" $(PLAYS)

decided: $(READY)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run --source mainspring.core,mainspring.permissions -m pytest -q -n 2 --dist worksteal \
	  -m "not long" $(DECIDES) $(PLAYS:%=--ignore=%)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report --fail-under 100 > .venv/whole-coverage.txt || { cat .venv/whole-coverage.txt; exit 1; }

coverage: $(READY)
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -q -n 2 --dist worksteal -m "not long" $(PLAYS:%=--ignore=%)
	@$(BIN)/coverage combine -q
	@$(BIN)/coverage report

# Other people's programs that ours are tested against, in an environment of their own.
peers: $(READY)
	@$(BIN)/python scripts/peers.py

# The agent libraries that docs/compare.md compares ours with, and those of `make bench-peers` (265 MB).
peers-agents: $(READY)
	@$(BIN)/python scripts/peers.py agents

# The property tests with new examples, and many of them; the shell checker with rubbish, and against a real bash.
fuzz: $(READY)
	@HYPOTHESIS_PROFILE=explore $(BIN)/pytest -q --timeout 1200 $(PLAYS:%=--ignore=%) tests/core tests/providers tests/simulator
	@$(BIN)/python scripts/fuzz_permissions.py --minutes 10
	@$(BIN)/python scripts/fuzz_permissions.py --bash --minutes 10

# Side by side: each of them uses one core. The one that takes longest is first.
CHECKS := style pyright mypy imports wording

check: $(READY)
	@$(MAKE) --no-print-directory -j 2 $(CHECKS)

style: $(READY)
	@$(BIN)/ruff check -q --output-format concise .
	@$(BIN)/ruff format -q --check .

pyright: $(READY)
	@$(BIN)/basedpyright --level error > .venv/pyright.txt || { cat .venv/pyright.txt; exit 1; }

mypy: $(READY)
	@$(BIN)/mypy --no-error-summary

imports: $(READY)
	@$(BIN)/lint-imports --no-logo > .venv/imports.txt || { cat .venv/imports.txt; exit 1; }

# Spelling, and the constructions that we do not use in anything people read.
wording: $(READY)
	@$(BIN)/codespell -q 3 src docs scripts bench examples README.md AGENTS.md CONTRIBUTING.md CHANGELOG.md
	@$(BIN)/python scripts/check_wording.py

fix: $(READY)
	@$(BIN)/ruff check -q --output-format concise --fix .
	@$(BIN)/ruff format -q .

# The documentation site, into site/. `site-serve` shows it on loopback, and builds it again when a page changes.
SITE := NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs

site: .venv-site/ready
	@$(SITE) build -q

site-serve: .venv-site/ready
	@$(SITE) serve -q --dev-addr 127.0.0.1:8000

.venv-site/ready: requirements-site.lock
	@rm -rf .venv-site
	@$(PYTHON) -m venv .venv-site
	@.venv-site/bin/pip install -qq --disable-pip-version-check --require-hashes -r requirements-site.lock
	@touch $@

# The pages that are written from the code and from the tests, and the table of what the model reads about tools.
docs: $(READY)
	@$(BIN)/python scripts/tool_catalog.py
	@$(BIN)/python scripts/flags_page.py
	@$(BIN)/python scripts/commands_page.py
	@$(BIN)/python scripts/completion_pages.py
	@$(BIN)/python scripts/loop_page.py
	@$(BIN)/python scripts/checklist_page.py
	@$(BIN)/python scripts/settings_keys_page.py
	@$(BIN)/python scripts/compare_page.py

# The real process, killed and failed at every system call of the journal, and killed at every one of a checkpoint and of
# a rewind (several minutes).
crash: $(READY)
	@$(BIN)/python scripts/crash.py
	@$(BIN)/python scripts/crash_undo.py
	@MAINSPRING_CUTS=all $(BIN)/pytest -q --timeout 600 -m long tests/sessions/test_cuts.py

# Two thousand sessions over real sockets, with faults at random rates; a command that prints 10 GB.
soak: $(READY)
	@$(BIN)/python scripts/soak.py
	@$(BIN)/python bench/tools_bash.py --flood

# Speed in one table, written into bench/README.md: beside the commit before, the floor and the aims (ten minutes).
# BEFORE is a commit or a folder with a checkout; `make bench BEFORE=` leaves it out.
BEFORE ?= HEAD~1

bench: $(READY)
	@$(BIN)/python bench/speed.py --write $(if $(BEFORE),--before $(BEFORE))

# The same jobs of Claude Code and of the agent libraries, side by side.
bench-peers: $(READY) peers-agents
	@$(BIN)/python bench/agent_peers.py --write

# Each part by itself, with its targets.
bench-parts: $(READY)
	@$(BIN)/python bench/core.py
	@$(BIN)/python bench/engine.py
	@$(BIN)/python bench/wire.py
	@$(BIN)/python bench/journal.py
	@$(BIN)/python bench/permissions.py
	@$(BIN)/python bench/tools_bash.py
	@$(BIN)/python bench/tools_files.py
	@$(BIN)/python bench/cost.py
	@$(BIN)/python bench/sandbox.py
	@$(BIN)/python bench/openai.py
	@$(BIN)/python bench/terminal.py

# Our providers and our command against llama.cpp's server, with a small model on one thread (about a minute).
local: $(READY)
	@$(BIN)/python scripts/local_model.py

# How many deliberate bugs in core/ the tests notice (about five minutes).
mutate: $(READY)
	@$(BIN)/mutmut run; $(BIN)/mutmut results

# Written with uv, which need not be installed otherwise.
lock:
	uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  --group dev pyproject.toml -o requirements-dev.lock
	uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  --group pyproject.toml:site -o requirements-site.lock
	uv pip compile --universal --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .venv-run .venv-peers .venv-agents .node-peers .venv-bench .venv-local .venv-site site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage mutants $(NATIVE)

.venv: $(READY)

# A half-made environment never counts: `packages` and `ready` are written last.
.venv/packages: requirements-dev.lock
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install -qq --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

$(NATIVE): src/mainspring/tools/_newlines.c scripts/build_native.py .venv/packages
	@$(BIN)/python scripts/build_native.py

# Bytecode is compiled here because this may run where Python is told not to write any at run time.
$(READY): .venv/packages pyproject.toml $(NATIVE) $(SOURCES)
	@test -x $(BIN)/mainspring -a $(READY) -nt pyproject.toml || \
	  $(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@
