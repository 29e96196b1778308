# Two commands: `make bench` runs the main job, `make test` passes all tests. Each sets up what it needs first.

PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
LOG    := $(VENV)/setup.log
PATHS  := concur_agents integrations benchmarks tests examples
# Each framework's adapter is tested in environments of its own: some frameworks cannot be installed beside others.
ADAPTERS := $(patsubst integrations/%/tox.toml,adapter-%,$(wildcard integrations/*/tox.toml)) adapter-openai2
# verl needs torch: a gigabyte and minutes, so it is tested by "make contract" and by its own target only.
LARGE    := adapter-concur-agents-verl
RECORD   := $(CURDIR)/.cache/contract.jsonl
PARAMETERS := budget,budget:margin=0.025,budget:margin=0.1,budget:ahead=0.5,budget:ahead=2,budget:patience=0.5,budget:patience=2,budget:lost=0.075,budget:lost=0.3,budget:start=1,budget:start=1000,blind:capacity,blind:cached,blind:metrics,blind:usage
LAB_SMALL := .cache/lab.jsonl
LAB_FULL  := runs/lab.jsonl

.PHONY: help bench bench-fits bench-fleet bench-fleet-real bench-frameworks bench-gateway bench-mini-swe-agent bench-overhead bench-ray bench-real bench-remote chaos chaos-ray lab lab-full lab-parameters lab-paper lab-real test adapters contract lint format setup sandbox clean $(ADAPTERS)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/\1\t/p' $(MAKEFILE_LIST) | expand -t 18

bench: setup sandbox  ## SWE-style agents against the embedded engine, with and without Concur: a table and a picture
	@$(BIN)/python -m benchmarks.swebench run $(ARGS)

bench-fits: setup sandbox  ## the same with a pool in which everything fits: Concur must not slow it down
	@$(BIN)/python -m benchmarks.swebench run --pool-tokens 1000000 --speedup 3 --arms uncontrolled,budget $(ARGS)

bench-overhead: setup  ## what one step through Concur costs, beside anyio.CapacityLimiter
	@$(BIN)/python -m benchmarks.overhead $(ARGS)

bench-real: setup  ## real SGLang on this CPU (installs 3.4 GB once, about 9 minutes): measure, fit the emulator, compare
	@$(BIN)/python -m benchmarks.real run $(ARGS)

bench-frameworks: setup sandbox  ## the same agents in LangGraph and in AgentScope 2.x and 1.x (installs each once)
	@$(BIN)/python -m benchmarks.frameworks run $(ARGS)

bench-mini-swe-agent: setup sandbox  ## mini-swe-agent's own batch runner, with and without Concur
	@$(BIN)/tox run --quiet --notest -c integrations/concur-agents-mini-swe-agent/tox.toml -e bench
	@integrations/concur-agents-mini-swe-agent/.tox/bench/bin/python -m benchmarks.mini_swe_agent run $(ARGS)

bench-fleet: setup  ## several engines in virtual time: one dies, one joins; balance and hit rates (5 minutes)
	@$(BIN)/python -m benchmarks.fleet $(ARGS)

bench-fleet-real: setup  ## two real SGLang servers on this CPU, behind a gateway and behind nginx (20 minutes; apt: nginx-light)
	@$(BIN)/python -m benchmarks.fleet.real run --json benchmarks/results/fleet_real.json $(ARGS)

bench-gateway: setup  ## what the gateway costs, beside nginx and a proxy of ThunderAgent's design (apt: wrk, nginx-light)
	@$(BIN)/python -m benchmarks.gateway run --json benchmarks/results/gateway.json $(ARGS)

bench-ray: setup  ## agents in Ray actors on several embedded engines, a controller's shard for each (minutes)
	@$(BIN)/tox run --quiet --notest -c integrations/concur-agents-ray/tox.toml -e bench
	@integrations/concur-agents-ray/.tox/bench/bin/python -m benchmarks.ray $(ARGS)

bench-remote: setup  ## what a step costs with a shared controller: agents in several processes on loopback (a minute)
	@$(BIN)/python -m benchmarks.remote $(ARGS)

chaos: setup  ## 100 random runs of the gateway and of a shared controller: killed and frozen processes, jumping clocks, wrong metrics
	@$(BIN)/python -m benchmarks.chaos run --runs 100 $(ARGS)

chaos-ray: setup  ## Ray on this machine, with tasks, actors, nodes and engines that are killed at random (minutes)
	@$(BIN)/tox run --quiet --notest -c integrations/concur-agents-ray/tox.toml -e bench,cluster
	@$(BIN)/tox run --quiet -c integrations/concur-agents-ray/tox.toml -e cluster
	@integrations/concur-agents-ray/.tox/bench/bin/python -m benchmarks.chaos.ray $(ARGS)

lab: setup  ## a small grid of the lab, in virtual time: the laws against no control and every cap (2 minutes)
	@mkdir -p .cache && rm -f $(LAB_SMALL)
	@$(BIN)/python -m benchmarks.lab run --json $(LAB_SMALL) --seeds 1 --agents 24 --engines qwen3-32b-tp2 \
	  --workloads swe,coding-sessions,no-shared-prefix,distill,fits --arms uncontrolled,fixed:sweep,concur,budget $(ARGS) \
	  || [ $$? = 1 ]  # a cell failed: the report names it
	@$(BIN)/python -m benchmarks.lab report $(LAB_SMALL) --brief

lab-full: setup  ## all of the lab's grid: hours, it says how many, and goes on where it was stopped (runs/lab.jsonl)
	@$(BIN)/python -m benchmarks.lab run --json $(LAB_FULL) $(ARGS) || [ $$? = 1 ]
	@$(BIN)/python -m benchmarks.lab report $(LAB_FULL)

lab-parameters: setup  ## what it changes to halve or double each parameter of the token budget (runs/lab_parameters.jsonl)
	@$(BIN)/python -m benchmarks.lab run --json runs/lab_parameters.jsonl --engines qwen3-32b-tp2 --arms $(PARAMETERS) $(ARGS) || [ $$? = 1 ]
	@$(BIN)/python -m benchmarks.lab report runs/lab_parameters.jsonl

lab-paper: setup  ## the paper's tables and figures, ours beside theirs (half an hour)
	@$(BIN)/python -m benchmarks.lab paper $(ARGS)

lab-real: setup  ## the lab's batches and arms on real SGLang on this CPU, beside the lab's predictions (2 hours, resumes)
	@$(BIN)/python -m benchmarks.lab.real run --json runs/lab_real.jsonl $(ARGS)

test: setup sandbox lint  ## everything that must hold before a change lands
	@$(BIN)/pytest -n 4 --dist loadfile $(ARGS)  # most of them wait for processes and sockets
	@+$(MAKE) --no-print-directory adapters

adapters: setup  ## every adapter with its real framework, in its oldest and newest versions
	@+$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(filter-out $(LARGE),$(ADAPTERS))

$(filter adapter-concur-%,$(ADAPTERS)): adapter-%: setup
	@$(BIN)/tox run --quiet -c integrations/$*/tox.toml

adapter-openai2: setup
	@$(BIN)/tox run --quiet -c tests/contract/tox.toml -e openai2

contract: setup  ## the same, and what it showed as the table in docs/frameworks/README.md
	@mkdir -p $(dir $(RECORD)) && rm -f $(RECORD)
	@CONCUR_CONTRACT_RECORD=$(RECORD) $(BIN)/pytest tests/contract
	@+CONCUR_CONTRACT_RECORD=$(RECORD) $(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target $(ADAPTERS)
	@$(BIN)/python tests/contract/table.py $(RECORD) docs/frameworks/README.md

lint: setup  ## ruff and mypy strict
	@$(BIN)/ruff check --quiet $(PATHS)
	@$(BIN)/ruff format --quiet --check $(PATHS) || { echo "formatting differs: run 'make format'"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary tests/typing

format: setup  ## put the code into ruff's format
	@$(BIN)/ruff check --quiet --fix --exit-zero $(PATHS)
	@$(BIN)/ruff format --quiet $(PATHS)

setup: $(VENV)/.ready  ## the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml integrations/concur-agents-langgraph/pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found: install Python 3.11, or run 'make PYTHON=...'"; exit 1; }
	@echo "setting up $(VENV) (once, about a minute; log: $(LOG))"
	@$(PYTHON) -m venv $(VENV)
	@{ $(BIN)/python -m pip install --upgrade 'pip>=25.1' \
	&& $(BIN)/python -m pip install -e '.[bench]' -e integrations/concur-agents-langgraph --group dev; } >$(LOG) 2>&1 \
	|| { tail -n 20 $(LOG); echo "set-up failed: see $(LOG)"; exit 1; }
	@touch $@

sandbox: setup  ## bubblewrap, for the benchmark's agents
	@command -v bwrap >/dev/null && command -v setpriv >/dev/null && command -v choom >/dev/null || { \
	  run=$$([ "$$(id -u)" = 0 ] || echo sudo); echo "installing bubblewrap"; \
	  { $$run apt-get update && $$run apt-get install -y --no-install-recommends bubblewrap libseccomp2 util-linux; } >>$(LOG) 2>&1 \
	  || { tail -n 5 $(LOG); echo "could not install bubblewrap: install it yourself (apt, dnf, pacman: bubblewrap)"; exit 1; }; }

clean:  ## remove what set-up and runs made
	@rm -rf $(VENV) .cache runs .mypy_cache .ruff_cache .hypothesis integrations/*/.tox tests/contract/.tox
