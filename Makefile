# `make demo` and `make test` are the two commands; the rest are their parts. Each part is made once and kept.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NICE := nice -n 5
export UV_LINK_MODE ?= hardlink

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types unit programs viewer browser netns render wheel clean bench

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

# uv from PATH, or a private copy inside the environment: nothing outside the checkout is written.
$(BIN)/python:
	@echo "== making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit("glideslope needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@command -v uv >/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check uv

UV = $$(command -v uv || echo $(BIN)/uv) pip install --quiet --python $(BIN)/python -c constraints.txt

# The host side first: small, and all that building the native programs needs.
$(VENV)/.stack: pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing glideslope and the host side" && $(UV) -e '.[stack]' && touch $@

$(VENV)/.torch: $(VENV)/.stack
	@echo "== installing PyTorch (about 5 GB, once)" && $(UV) -e '.[demo]' && touch $@ && echo "== PyTorch is there"

$(VENV)/.dev: $(VENV)/.torch
	@echo "== installing test tools" && $(UV) --group dev && touch $@

setup: $(VENV)/.torch  ## make .venv with the glideslope command
	@echo "== $(BIN)/glideslope is ready"

programs: $(VENV)/.stack  ## build the native programs into $$GLIDESLOPE_HOME/bin (15 CPU-minutes, once)
	@$(NICE) $(BIN)/glideslope build

VIEWER := dashboards/viewer
$(VIEWER)/node_modules/.package-lock.json: $(VIEWER)/package-lock.json
	@echo "== installing the viewer's packages" && cd $(VIEWER) && npm ci --no-fund --no-audit --loglevel=error

$(VIEWER)/dist/index.html: $(VIEWER)/node_modules/.package-lock.json $(shell find $(VIEWER)/src $(VIEWER)/*.ts $(VIEWER)/*.html $(VIEWER)/package.json -type f 2>/dev/null)
	@echo "== building the viewer" && cd $(VIEWER) && npm run --silent build && touch dist/index.html

viewer: $(VIEWER)/dist/index.html  ## build the dashboard viewer

# The slow program (Jaeger) is left to `up`, which starts each program as soon as it is built.
demo:            ## train a small GPT and watch it live
	@$(MAKE) --no-print-directory $(VENV)/.stack
	@$(MAKE) --no-print-directory -j3 $(VENV)/.torch viewer essential-programs
	@$(BIN)/glideslope demo $(DEMO)

.PHONY: essential-programs
essential-programs: $(VENV)/.stack
	@$(NICE) $(BIN)/glideslope build victoria-metrics victoria-logs alertmanager vmalert glideslope-collector

browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "== installing chromium" && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	  else echo "== installing playwright's own chromium" && $(BIN)/playwright install chromium; fi; } || \
	  { echo "The browser tests need chromium: install the package 'chromium', or run 'playwright install chromium'." >&2; exit 1; }

netns:
	@command -v ip >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then echo "== installing iproute2" && apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends iproute2 >/dev/null; fi; } ; \
	command -v ip >/dev/null || { echo "The multi-node tests need the command 'ip': install the package 'iproute2'." >&2; exit 1; }

lint: $(VENV)/.dev
	@$(BIN)/ruff check && $(BIN)/ruff format --check --quiet && echo "== lint is clean"

types: $(VENV)/.dev
	@$(BIN)/mypy && echo "== types are clean"

test:            ## prove the whole chain; the only test command
	@$(MAKE) --no-print-directory $(VENV)/.stack
	@$(MAKE) --no-print-directory -j3 $(VENV)/.dev viewer programs
	@$(MAKE) --no-print-directory browser netns lint types
	@cd $(VIEWER) && npm run --silent typecheck && npm run --silent test
	@$(BIN)/glideslope render --check
	@$(BIN)/pytest $(PYTEST)

render: $(VENV)/.stack  ## render dashboards, rules and names
	@$(BIN)/glideslope render

wheel: viewer $(VENV)/.dev  ## build the wheel into dist/
	@$(BIN)/python -m build --wheel --installer uv --outdir dist .

bench: $(VENV)/.dev  ## measure overhead, ingestion and logging beside other trackers (20 minutes); writes docs/benchmarks.md
	@$(BIN)/python tests/bench/overhead.py && $(BIN)/python tests/bench/ingest/run.py && $(BIN)/python tests/bench/logging/run.py

clean:           ## remove what was made in the checkout
	rm -rf $(VENV) dist $(VIEWER)/node_modules $(VIEWER)/dist tests/output
