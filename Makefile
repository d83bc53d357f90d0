# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format lint types imports generated bench clean

demo: $(READY)
	@rm -rf out/demo out/demo-state
	@$(BIN)/python -m etl run pipelines/ssh-failed-logins.yaml --once --drain --state out/demo-state \
	  --set sources.auth.path=samples/ssh-auth.log --set sinks.archive.path=out/demo/ssh.jsonl

test: $(READY)
	$(BIN)/python -m pytest

check: format lint types imports test generated

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/etl lint --strict pipelines

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

generated: $(READY)
	$(BIN)/python -m pytest -q tests/test_generated_files.py

bench: $(READY)
	$(BIN)/python -m benchmarks

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
