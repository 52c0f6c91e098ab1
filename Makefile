# Two commands for a newcomer: `make quickstart` and `make test`. Both install what they need.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

CASE ?= ddp4
.PHONY: fuzz gold help docs docs-links live lab lab-test quickstart test coverage lint regress check-full evaluation reference paper pictures benchmark benchmark-quick soak release-check constraints clean

help:           ## List the targets.
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# A phase of an installation: a line when it begins, and its time when it ends.
define phase
	@echo "$(1) ..."; began=$$(date +%s); $(2) && echo "$(1): $$(($$(date +%s) - began)) s"
endef

# Python compiles what a program imports when it does so; all libraries would take three times as long.
$(VENV)/.installed: pyproject.toml diagnose/pyproject.toml constraints.txt
	$(call phase,environment in $(VENV),{ test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); })
	$(call phase,llmprism and prism-sim with 40 libraries,$(PIP) install --no-compile -c constraints.txt -e diagnose -e .)
	@touch $@

$(VENV)/.installed-monitor: pyproject.toml diagnose/pyproject.toml constraints.txt
	$(call phase,environment in $(VENV),{ test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); })
	$(call phase,llmprism and prism-sim with a live page,$(PIP) install --no-compile -c constraints.txt -e diagnose -e '.[monitor]')
	@touch $(VENV)/.installed $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(call phase,development tools,$(PIP) install --no-compile -c constraints.txt -e diagnose -e '.[dev]')
	@touch $@

quickstart: $(VENV)/.installed ## Simulate, diagnose, score and report a small cluster.
	@$(BIN)/prism-sim run scenarios/tiny/quickstart.yaml

live: $(VENV)/.installed-monitor ## Show a small cluster with a slow GPU on a live page; Ctrl-C ends it.
	@$(BIN)/prism-sim run tiny/quickstart --live --set faults.0.from_step=8 --set faults.0.to_step=12

lint: $(VENV)/.installed-dev ## Style, types, and the import contract.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The build runs the commands of the tutorials and the programs of the gallery, and checks links.
SITE := $(BIN)/python -m sphinx -q -W --keep-going -c docs -d build/doctrees
docs: $(VENV)/.installed-dev ## Build the documentation site into build/site; a warning is an error.
	@rm -rf docs/made build/site
	@$(SITE) -b html . build/site
	@echo "open build/site/index.html"

docs-links: $(VENV)/.installed-dev ## Check the links to other sites; needs the network.
	@$(SITE) -b linkcheck . build/links

regress: $(VENV)/.installed-dev ## Hold the headline figures of a small suite to their reference; about a minute.
	@$(BIN)/prism-sim regress --junit junit-regress.xml

# The type check keeps one core busy, so the regression suite runs beside it.
test: $(VENV)/.installed-dev ## All checks of a change, without the larger ones; under 8 minutes.
	@$(MAKE) --no-print-directory -j 2 lint regress
	@$(BIN)/pytest -q -n 2 --dist worksteal -m "not slow and not full"

# Coverage makes Python slower by half, so it measures the tests of single modules only. The first
# call runs the kernels as plain Python, because a coverage tool cannot measure compiled code. The
# tests of whole runs come last, and only the reproduction is measured in them.
KERNEL_TESTS := tests/theory/test_fabric.py tests/theory/test_ring.py tests/llmprism/numerics/test_bocd.py
MODULE_TESTS := tests/prism_sim tests/llmprism tests/llmlog tests/prism_common tests/cli tests/evaluation
WHOLE_TESTS := $(filter-out $(MODULE_TESTS) tests/fixtures tests/helpers,$(patsubst %/,%,$(wildcard tests/*/)))
PYTEST := $(BIN)/pytest --no-cov-on-fail --cov-fail-under=0 --cov-report=
IN_PARALLEL := -q -n 2 --dist worksteal -m "not full" --cov-append
coverage: $(VENV)/.installed-dev ## These tests and the slow ones, and the share of branches that they take.
	@rm -f .coverage .coverage.*
	@NUMBA_DISABLE_JIT=1 $(PYTEST) --cov -q $(KERNEL_TESTS)
	@$(PYTEST) --cov $(IN_PARALLEL) $(MODULE_TESTS)
	@$(PYTEST) --cov=reproduction $(IN_PARALLEL) $(WHOLE_TESTS)
	@$(BIN)/coverage report

check-full: $(VENV)/.installed-dev ## All tests and the larger checks.
	@$(BIN)/pytest -q -n 2

evaluation: $(VENV)/.installed-dev ## Grade both methods on drawn worlds; resumes if interrupted.
	@$(BIN)/python -m evaluation exam

gold: $(VENV)/.installed-dev ## Compare all tables of prism with results/reference/gold.json; about 20 CPU minutes, resumes.
	@$(BIN)/python -m evaluation gold

reference: $(VENV)/.installed-dev ## Rewrite the reference tables, and the figures of the README.
	@$(BIN)/python -m evaluation reference
	@$(BIN)/python -m evaluation twins
	@$(BIN)/python -m docs.building.figures

paper: $(VENV)/.installed-dev ## Reproduce the published evaluation; about 45 CPU minutes, resumes if interrupted.
	@$(BIN)/python -m reproduction --update

pictures: $(VENV)/.installed-dev ## Draw the pictures of the README and of docs/prism.md again.
	@$(BIN)/python -m evaluation ideas
	@$(BIN)/python -m evaluation pictures

$(VENV)/.installed-lab: $(VENV)/.installed
	$(call phase,libraries of the lab's trainers,$(PIP) install -c constraints.txt -e diagnose -e '.[lab]')
	@touch $@

lab: $(VENV)/.installed-lab ## Make real training traffic: make lab CASE=ddp4 (root, Linux).
	@$(BIN)/python -m lab $(CASE)

lab-test: $(VENV)/.installed-lab ## One short case of the lab from end to end; under 5 minutes.
	@$(BIN)/python -m lab.selftest

benchmark: $(VENV)/.installed-dev ## Measure speed and memory, also compared with SimGrid; about 8 CPU minutes.
	@$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/.installed-dev ## Attack all programs for a minute, with a new seed; prints it.
	@$(BIN)/python -m evaluation fuzz --seconds 60

benchmark-quick: $(VENV)/.installed-dev ## The same with small sizes, for each change; about a minute.
	@$(BIN)/python benchmarks/run.py --quick

soak: $(VENV)/.installed-dev ## Watch hours of 20 jobs in compressed time, over UDP; into results/reference/monitor.md.
	@$(BIN)/python -m evaluation soak

release-check: $(VENV)/.installed-dev ## Build both distributions and try them: Python 3.11 to 3.13, lowest versions of libraries.
	@$(BIN)/python .ci/release_check.py

constraints: $(VENV)/.installed-dev ## Write the installed versions to constraints.txt.
	@$(BIN)/python -m pip freeze --exclude-editable | grep '==' > constraints.txt

clean:          ## Remove all made files and the private environment.
	@rm -rf $(VENV) dist build docs/made diagnose/dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache
