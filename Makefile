# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BASE := $(VENV)/.base
WARM := $(VENV)/.warm

.PHONY: demo test test-quick servers cluster kills kills-state kills-receivers kills-server chaos fuzz check format lint types imports generated refresh docs bench clean

demo: $(BASE)
	@rm -rf out/demo out/demo-state
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m etl run pipelines/ssh-failed-logins.yaml --once --drain --state out/demo-state \
	  --set sources.auth.path=samples/ssh-auth.log --set sinks.archive.path=out/demo/ssh.jsonl
	@mkdir -p out/demo/jobs/demo
	@sed 's#/var/log/auth.log#samples/ssh-auth.log#; s#-ssh-failed-logins.jsonl#-out/demo/page.jsonl#' \
	  pipelines/ssh-failed-logins.yaml > out/demo/jobs/demo/ssh.yaml
	@echo "the same on the page: $(BIN)/etl serve out/demo/jobs, and open http://127.0.0.1:8321" >&2

# Tests start hundreds of Python processes: each finds the modules compiled, also where the environment forbids to write them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# Every test, in three processes: those that wait for a server or a killed run leave two cores to the others. About 2 GB each, so
# there are fewer where the machine has less than 9 GB. With five, Python processes of killed runs did not start in time.
WORKERS ?= $(shell awk '/^MemTotal/ {n = int($$2 / 3000000); print (n > 3 ? 3 : n < 1 ? 1 : n)}' /proc/meminfo 2>/dev/null || echo 3)
test: $(READY) $(WARM)
	@$(PYTEST) --forks $(WORKERS)

# A JVM writes the archive of Spark's classes when it ends, and those of the tests end last: a short run writes it before, which
# saves each of the runs that tests start half of its CPU time.
$(WARM): $(READY)
	@rm -rf $(VENV)/warm
	@$(BIN)/python -m etl run pipelines/ssh-failed-logins.yaml --once --drain -q --state $(VENV)/warm/state \
	  --set sources.auth.path=samples/ssh-auth.log --set sinks.archive.path=$(CURDIR)/$(VENV)/warm/ssh.jsonl >/dev/null
	@rm -rf $(VENV)/warm
	@touch $@

# What needs neither Spark nor a server, without the tests marked slow, for every commit; to be kept at a minute on two cores.
test-quick: $(READY)
	@$(PYTEST) -q --forks $(WORKERS) -m "not (spark or servers or delivery or slow)"

# Real servers on loopback until Ctrl-C, to try the samples with; some of them: make servers SERVERS="kafka mariadb"
servers: $(READY)
	PYTHONPATH=tests $(BIN)/python -m servers $(SERVERS)

# A Spark cluster on loopback until Ctrl-C: a master, and workers with folders of their own. It prints the options of `etl run`.
cluster: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m servers.spark_cluster --workers $(or $(NODES),2)

# Each source against each sink, ten runs of 200,000 events that are killed: minutes a pair, hours in all, and the table of
# docs/delivery-tests.md. Some of them: make kills PAIRS="kafka-to-file kafka-to-postgres"; with TOGETHER=2 in one pipeline.
kills: $(READY)
	SLUICE_KILLS=10 SLUICE_KILLS_PAIRS="$(PAIRS)" SLUICE_KILLS_TOGETHER=$(or $(TOGETHER),1) SLUICE_SERVERS_HEAP=700m \
	  SLUICE_KILLS_PAGE=docs/delivery-tests.md $(BIN)/python -m pytest -v tests/delivery/test_kill_matrix.py

# Each step with state on each route to its state, ten runs that are killed: minutes a group of steps, and the second table of
# docs/delivery-tests.md. Some of them: make kills-state STEPS="joins or quiet" KILLS=3; with TOGETHER=9 all in one pipeline.
kills-state: $(READY)
	SLUICE_KILLS=$(or $(KILLS),10) SLUICE_KILLS_TOGETHER=$(or $(TOGETHER),1) SLUICE_KILLS_PAGE=docs/delivery-tests.md $(PYTEST) -v -k "$(STEPS)" \
	  tests/delivery/test_state_killed.py

# Each receiver, killed ten times while senders count acknowledgements: the third table of docs/delivery-tests.md.
kills-receivers: $(READY)
	KILLS=$(or $(KILLS),10) SLUICE_KILLS_PAGE=docs/delivery-tests.md $(PYTEST) -v \
	  tests/connectors/shared/test_receivers_killed.py tests/connectors/mqtt/test_mqtt_killed.py

# A server with a pipeline, killed ten times within a replay of dead letters and ten times within a deploy.
kills-server: $(READY)
	KILLS=$(or $(KILLS),10) $(PYTEST) -v -s tests/server/test_killed_changes.py

# A server with 20 pipelines for ten minutes, which is killed every minute while pipelines are deployed and removed.
chaos: $(READY)
	PYTHONPATH=tests $(BIN)/python tests/server/chaos.py $(or $(MINUTES),10) $(or $(RATE),50)

# The laws of the scanner on many more cases than `make test` looks at, others each time. It says how many.
SLUICE_FUZZ ?= 200000
fuzz: $(READY)
	env -u CI SLUICE_FUZZ=$(SLUICE_FUZZ) $(BIN)/python -m pytest tests/scanner/test_scanner_laws.py tests/scanner/test_scanner_grok.py \
	  --hypothesis-seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')

check: format lint types imports docs test generated

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
	$(BIN)/python -m pytest -q tests/test_generated_files.py tests/config/test_mistakes.py

# Writes all generated files anew: the schema, the reference, methods of the Python front end, and what lint prints for the recorded mistakes. Read the diff.
refresh: $(READY)
	$(BIN)/etl schema > schemas/pipeline.schema.json
	$(BIN)/etl schema --api > schemas/openapi.json.new && mv schemas/openapi.json.new schemas/openapi.json
	$(BIN)/python -m etl.reference docs/reference
	$(BIN)/python -m etl.sdk.generator etl/sdk/generated
	PYTHONPATH=tests $(BIN)/python tests/config/test_mistakes.py

# The documentation as a site with search, in out/docs; a link that leads nowhere and every warning is an error.
docs: $(READY)
	@$(BIN)/sphinx-build -q -n -W --keep-going -b html -c docs . out/docs
	@echo "written: out/docs/docs/index.html"

bench: $(READY)
	$(BIN)/python -m benchmarks

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517

# What a user installs, with the page. Modules are compiled when they are imported first: all of them at once would take 11 s of CPU time.
$(BASE): pyproject.toml
	@echo "setting up $(VENV), once: a minute, depending on the network" >&2
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile -e '.[server]'
	@touch $@

# What tests, checks and all extras need, too.
$(READY): pyproject.toml
	@echo "setting up $(VENV) for development, once: a minute or two, depending on the network" >&2
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[dev]'
	@touch $(BASE) $@

clean:
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
