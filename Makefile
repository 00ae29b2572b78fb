# Everything a fresh machine needs, beyond git, make and Python >= 3.11. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
UV_VERSION := 0.13.8
UV := .tools/bin/uv
BIN := .venv/bin
CACHE := $(or $(GAPLESS_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gapless)
export GAPLESS_CACHE := $(CACHE)
# Python keeps what it compiled, also where the surroundings forbid it: otherwise each process compiles what was edited.
export PYTHONDONTWRITEBYTECODE :=
ENCRYPT ?= 0
EXAMPLES ?= 0.2
INTEGRATION := $(BIN)/python -m pytest -q tests/integration tests/state
IMAGES := sender operator spark
PACKAGES := crds kafka mirror archive sender spark operator gapless
SHARED := crds kafka mirror archive
OURS := $(addprefix --no-emit-package gapless-,api kafka mirror archive sender spark operator)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(UV):
	@echo "==> uv $(UV_VERSION) into .tools/"
	@$(PYTHON) -c 'import sys; sys.exit("Gapless needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Install one and say: make PYTHON=/path/to/python3 ...") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.ready: $(UV) requirements.lock pyproject.toml $(addsuffix /pyproject.toml,$(PACKAGES))
	@echo "==> Python packages into .venv/ (from requirements.lock; PySpark alone is 456 MB, so the first time takes a minute)"
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps $(addprefix -e ,$(PACKAGES))
	@# Where PYTHONDONTWRITEBYTECODE is set, each start would compile everything again: two thirds of a short command's time.
	@$(BIN)/python -m compileall -q -j 0 -x '/tests?/' $(BIN)/../lib/python*/site-packages || true
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

.PHONY: lock
lock: $(UV) ## resolve the dependencies again into requirements.lock
	$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  $(addsuffix /pyproject.toml,$(PACKAGES)) --group dev --all-extras --constraint images/client/constraints.txt \
	  $(OURS) --output-file requirements.lock
	@for image in $(IMAGES); do case $$image in operator) extras=;; sender) extras="--extra archive";; *) extras="--extra s3 --extra spark";; esac; $(UV) pip compile $$extras --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  $$(test $$image = operator && echo crds/pyproject.toml || echo $(addsuffix /pyproject.toml,$(SHARED))) $$image/pyproject.toml --constraint requirements.lock \
	  $(OURS) --output-file images/$$image/requirements.lock || exit 1; done

	@for extras in "requirements archive kubernetes qr" "spark all"; do set -- $$extras; file=$$1; shift; $(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  gapless/pyproject.toml $$(printf -- '--extra %s ' "$$@") --constraint requirements.lock $(OURS) --output-file release/$$file.lock || exit 1; done
	@$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header --no-annotate release/tools.in --output-file release/tools.lock

RELEASE_TOOLS := .tools/release
$(RELEASE_TOOLS)/.ready: $(UV) release/tools.lock
	@echo "==> programs that make releases into $(RELEASE_TOOLS)/"
	@$(UV) venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(RELEASE_TOOLS)
	@$(UV) pip install --quiet --python $(RELEASE_TOOLS)/bin/python --require-hashes -r release/tools.lock
	@touch $@

.PHONY: release
release: $(RELEASE_TOOLS)/.ready ## a release of the last commit in build/release/VERSION (VERSION=0.2.0, KEY=a private key, RELEASE_OPTIONS=--help)
	@$(if $(VERSION)$(findstring --help,$(RELEASE_OPTIONS)),,echo "Give the version: make release VERSION=0.2.0" >&2; exit 2)
	@$(RELEASE_TOOLS)/bin/python -m release --uv $(abspath $(UV)) $(if $(VERSION),--version $(VERSION)) $(if $(KEY),--key $(KEY)) $(RELEASE_OPTIONS)

.PHONY: docs-site
docs-site: $(RELEASE_TOOLS)/.ready ## the documentation as a site for browsers without a network, in build/site; a dead link is an error
	@NO_MKDOCS_2_WARNING=1 $(RELEASE_TOOLS)/bin/python -m mkdocs build
	@echo "==> open build/site/index.html"

.PHONY: java
java:
	@bash tests/kit/machine/ensure_java.sh

.PHONY: chromium
chromium:
	@bash tests/kit/machine/ensure_chromium.sh

STARTUP := .venv/share/gapless
.PHONY: startup-archive
startup-archive: $(STARTUP)/.archived

# Java takes from the archive only what was loaded when it was made: it is made again with the modules that say what is loaded.
$(STARTUP)/.archived: requirements.lock $(addprefix spark/gapless_spark/,cli/startup.py runtime/session.py scan/find_windows.py) | java .venv/.ready
	@echo "==> class archive for quick starts of Spark (20 seconds)"
	@mkdir -p $(STARTUP)
	@$(BIN)/python -m gapless_spark.cli.startup || true
	@touch $@

.PHONY: kafka
kafka: java .venv/.ready
	@PYTHONPATH=tests $(BIN)/python -c 'from kit.kafka.jars import broker_jars; broker_jars()'

.PHONY: check
check: .venv/.ready ## lint, types and unit tests (the fast tier: properties with a fifth of their examples)
	@echo "==> lint"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@echo "==> types"
	@$(BIN)/mypy
	@echo "==> the arrows between the packages"
	@mkdir -p build
	@$(BIN)/lint-imports --no-cache > build/lint-imports.log 2>&1 || { cat build/lint-imports.log; exit 1; }
	@echo "==> unit tests"
	@GAPLESS_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -q -n $(shell expr 2 \* $$(nproc)) --dist worksteal tests/unit

# Most tests wait; each process has brokers and Java of its own, for which it needs up to 2 GB.
WORKERS = $(shell awk '/^MemAvailable/ {n = int($$2 / 2000000); print (n < 2 ? 2 : n > 8 ? 8 : n)}' /proc/meminfo)

.PHONY: test-announcement
test-announcement:
	@echo "==> make test: lint, types, all unit tests, then integration tests with a real Kafka broker, real sockets and Spark."
	@echo "    It needs Python and Java, builds nothing from source, and takes some 20 minutes on two cores; the first time it also"
	@echo "    downloads Python packages and Kafka (some 700 MB). A browser and Kubernetes have their own: make test-browser test-cluster."

.PHONY: test
test: test-announcement java .venv/.ready startup-archive kafka ## lint, types, unit and integration tests (real broker, real sockets, Spark)
	@$(MAKE) --no-print-directory check EXAMPLES=1
	@echo "==> integration tests (a real Kafka broker, real sockets, Spark in local mode)"
	@$(INTEGRATION) -m "not alone" -n $(WORKERS) --dist loadfile
	@echo "==> integration tests that measure time, with nothing beside them"
	@$(INTEGRATION) -m alone

.PHONY: test-browser
test-browser: chromium .venv/.ready ## the report page in Chromium
	@echo "==> the report page in Chromium (less than a minute; the first time it installs Chromium)"
	@$(BIN)/python -m pytest -q tests/browser

.PHONY: test-cluster
test-cluster: java .venv/.ready kafka ## the operator, the chart and a release, with a real Kubernetes API server and helm, built from source once per machine
	@echo "==> helm and the Kubernetes API server, from Go modules (once per machine: some ten minutes; then nothing)"
	@PYTHONPATH=tests $(BIN)/python -c 'from kit.cluster.build import HELM, KUBE; KUBE.build(); HELM.build()'
	@echo "==> the operator, the chart and a release, with a real API server, helm and Kafka"
	@$(BIN)/python -m pytest -q tests/cluster -n 3 --dist loadfile

STATE_HISTORIES ?= 300
.PHONY: test-state
test-state: java .venv/.ready kafka ## random histories of a mirror and an archive with real brokers, STATE_HISTORIES=300 (STATE_SEED=n); an hour and more
	@STATE_HISTORIES=$(STATE_HISTORIES) $(BIN)/python -m pytest -q -s tests/state -k every_history

.PHONY: demo
demo: java .venv/.ready startup-archive kafka ## the main job from end to end on this machine (ENCRYPT=1: encrypted and compressed; DEMO=short: without the archive)
	@PATH="$(CURDIR)/$(BIN):$$PATH" PYTHONPATH=tests $(BIN)/python -m kit.story.demo $(if $(filter 1,$(ENCRYPT)),--encrypt) $(if $(filter short,$(DEMO)),--short)

.PHONY: cluster
cluster: .venv/.ready ## a Kubernetes cluster for tests (your KUBECONFIG, kind, or one made from source) and its kubeconfig
	@PYTHONPATH=tests $(BIN)/python -m kit.cluster up

.PHONY: cluster-down
cluster-down: .venv/.ready ## take that cluster down
	@PYTHONPATH=tests $(BIN)/python -m kit.cluster down

.PHONY: images
images: .venv/.ready ## the container images as archives in build/images (IMAGE_VERSION=dev, BASE=another base image)
	@IMAGE_VERSION=$(or $(IMAGE_VERSION),dev) BASE=$(BASE) PYTHONPATH=tests $(BIN)/python -m kit.cluster.images $(IMAGES)

.PHONY: cluster-images
cluster-images: cluster ## build the images and load them into the test cluster, with the Spark operator's
	@PYTHONPATH=tests $(BIN)/python -m kit.cluster.images sender operator spark-operator | PYTHONPATH=tests xargs $(BIN)/python -m kit.cluster load

.PHONY: test-e2e
test-e2e: java .venv/.ready startup-archive kafka ## the end-to-end tests: real pods on the test cluster, real Kafka, a one-way link
	@PYTHONPATH=tests $(BIN)/python -m kit.cluster prepare
	@$(MAKE) --no-print-directory cluster-images
	@export GAPLESS_IMAGES=loaded; $(BIN)/python -m pytest -q tests/e2e -n 3 --dist loadfile

OTHER = $(CURDIR)/build/other-release
.PHONY: test-upgrade
test-upgrade: java .venv/.ready kafka ## objects of every kind through an upgrade from another release and back: FROM=TAG, or a commit; half an hour
	@git rev-parse --quiet --verify "$(FROM)^{commit}" >/dev/null || { echo "Give a tag or a commit of another release: make test-upgrade FROM=v0.1.0" >&2; exit 2; }
	@$(MAKE) --no-print-directory cluster-images
	@rm -rf $(OTHER) && mkdir -p $(OTHER) && git archive "$(FROM)" | tar -x -C $(OTHER)
	@$(MAKE) --no-print-directory -C $(OTHER) .venv/.ready >&2
	@$(MAKE) --no-print-directory -C $(OTHER) images IMAGE_VERSION=other IMAGES="sender operator spark" | PYTHONPATH=tests xargs $(BIN)/python -m kit.cluster load
	@GAPLESS_IMAGES=loaded GAPLESS_OTHER_RELEASE=$(OTHER) $(BIN)/python -m pytest -q tests/e2e/test_another_release.py

.PHONY: bench-audit
bench-audit: java .venv/.ready startup-archive kafka ## 1, 5 and 20 million received keys: audit beside count() by Spark's Kafka connector, memory, state (build/bench/audit.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_audit.py

.PHONY: bench-archive
bench-archive: java .venv/.ready startup-archive kafka ## 2 million records of 1 KiB, and log lines: archive beside a bare write by Spark's Kafka connector, growth (build/bench/archive.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_archive.py

.PHONY: bench-commits
bench-commits: java .venv/.ready startup-archive kafka ## processor time of a mirror, an archive and an audit beside those of another working copy: BEFORE=FOLDER (build/bench/commits.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_commits.py --before=$(BEFORE)

.PHONY: bench-mirror
bench-mirror: java .venv/.ready startup-archive kafka ## copies of 2 million records of 1 KiB and 5 million of 200 B beside MirrorMaker 2: pace, processors, memory, latency (build/bench/mirror.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_mirror.py

.PHONY: bench-pace
bench-pace: java .venv/.ready kafka ## how exactly resends keep 1 to 50,000 events a second, alone and four together (build/bench/pace.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_pace.py

.PHONY: bench-restore
bench-restore: java .venv/.ready startup-archive kafka ## restores of 2 million records of 1 KiB and 5 million of 200 B, by Spark and in one process (build/bench/restore.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_restore.py

.PHONY: bench-scan
bench-scan: java .venv/.ready startup-archive kafka ## two million gap records to a bundle, a small topic, bundles of ten million ranges (build/bench/scan.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_scan.py

.PHONY: bench-compaction
bench-compaction: .venv/.ready ## two million events, and as many log lines, of 96 segments joined into 8 (build/bench/restore.json: compaction_mb_per_second)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_compaction.py

.PHONY: bench-operator
bench-operator: .venv/.ready ## the operator with 1,000 Resends of 100 KB on 100 Diodes: memory, writes, reaction (build/bench/operator.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_operator.py

FUZZ_RUNS ?= 1000000
FUZZ_SECONDS ?= 0
build/fuzz/site/.ready: tests/fuzz/requirements.txt | .venv/.ready
	@rm -rf build/fuzz/site
	@$(UV) pip install --quiet --python $(BIN)/python --target build/fuzz/site --require-hashes --no-deps -r $<
	@touch $@

.PHONY: fuzz
fuzz: java build/fuzz/site/.ready ## fuzzing, a million inputs for each target (FUZZ_TARGET=name, FUZZ_RUNS=n, FUZZ_SECONDS=n, FUZZ_INPUT=file)
	@PYTHONPATH=build/fuzz/site:tests nice -n 10 $(BIN)/python -m fuzz --runs $(FUZZ_RUNS) --seconds $(FUZZ_SECONDS) \
	  $(if $(FUZZ_TARGET),--target $(FUZZ_TARGET)) $(if $(FUZZ_INPUT),--input $(FUZZ_INPUT))

.PHONY: fuzz-keep
fuzz-keep: build/fuzz/site/.ready ## take the best of what fuzzing found into tests/fuzz/corpus (FUZZ_TARGET=name)
	@PYTHONPATH=build/fuzz/site:tests $(BIN)/python -m fuzz --keep $(if $(FUZZ_TARGET),--target $(FUZZ_TARGET))

.PHONY: mutate
mutate: .venv/.ready ## change the product bit by bit and list what no unit test notices (MUTATE="module module:function"); an hour and more
	@PYTHONPATH=tests nice -n 19 $(BIN)/python -m mutate $(MUTATE)

.PHONY: bench-sender
bench-sender: java .venv/.ready kafka ## seven resends beside a sender in C and a bare consumer, and a large bundle (build/bench/sender.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/bench_sender.py

.PHONY: clean
clean: ## remove what was built in the checkout (the cache folder stays)
	rm -rf build .venv .tools .mypy_cache .pytest_cache .ruff_cache .hypothesis

.PHONY: docs
docs: .venv/.ready ## write the reference pages that are made from the code
	@$(BIN)/python docs/make_reference.py

.PHONY: crds
crds: .venv/.ready ## write crds/manifests, and the chart's copies, from the models
	@$(BIN)/python -m gapless_api.v1alpha1.schema --output crds/manifests
	@$(BIN)/python -m gapless_api.v1alpha1.schema --output charts/gapless/files/crds

.PHONY: soak
soak: java .venv/.ready kafka ## resends for SOAK_MINUTES=20 while brokers, link and senders fail: nothing lost, memory flat (build/bench/soak.json)
	@PYTHONPATH=tests $(BIN)/python tests/bench/soak.py

ROUNDS ?= 200
.PHONY: stress-workers
stress-workers: java .venv/.ready kafka ## parallel resends ended at random moments, ROUNDS=200: report, checkpoint and arrivals agree (SEED=n)
	@PYTHONPATH=tests ROUNDS=$(ROUNDS) nice -n 5 $(BIN)/python tests/bench/stress_workers.py
