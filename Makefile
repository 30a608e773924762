# `make demo` and `make test` do all their own set-up; `make help` lists the rest.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
LOCKS := requirements.lock requirements-dev.lock requirements-build.lock
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
CONTROL_PLANE := etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok

# Recorded decisions to compare with: a folder of scheduling cycles, and one of scenarios with their results.
CYCLE ?= tests/recordings/cycles
SCENARIOS ?= tests/recordings/scenarios

# How many processes run the tests. Those on a control plane wait more than half of the time: five keep two cores busy,
# and need about 12 GB.
WORKERS ?= 5

# Kueue's own definition of Workloads (a file): what a write costs under it is then measured beside ours.
KUEUE_CRD ?=

# The image: its name, and the image that unpacks its packages.
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= seiretsu:$(VERSION)
BASE ?= debian:trixie-slim
PYTHON_OF_IMAGE ?= python3.13

# The plugin for krew: the platform of this machine, and where a release publishes its archives and describes itself.
PLATFORM ?= $(shell uname -s | tr A-Z a-z)-$(subst x86_64,amd64,$(subst aarch64,arm64,$(shell uname -m)))
URL ?=
HOMEPAGE ?=

# The tag that `make release` builds, and options of release.build: RELEASE="--without image --platforms linux-amd64"
TAG ?=
RELEASE ?=

# Options of `make soak`: python -m bench.soak --help lists them.
SOAK ?=

.PHONY: help demo up test test-long full-size soak soak-multikueue check bench replay oracle format audit image image-test image-lock \
	test-image-python e2e krew-archive krew version release generate lock tools clean
.DEFAULT_GOAL := help

help: ## This list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: tools ## Show the main job on a real local control plane; ends by itself
	@$(BIN)/seiretsu demo

up: tools ## The same, and leave it running to play with
	@$(BIN)/seiretsu demo --stay

test: $(STAMP) ## Every test, those on the real control plane included; the first run builds all programs before
	@$(BIN)/python -m tests.tools
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-long: export SEIRETSU_TESTS = long
test-long: test ## The same with many generated cases for each property: about an hour

full-size: export SEIRETSU_TESTS = long
full-size: tools ## The tests of one fault or of one test of docs/reliability.md at full size: FAULT=t11
	@$(BIN)/python -m pytest -p no:xdist -m "" -k "_$(FAULT)_" -rP --no-header -q

soak: tools ## Faults of the leader at full size, then 2 hours of quiet work: SOAK="--minutes 10 --kills 2"
	@$(BIN)/python -m bench.soak $(SOAK)

soak-multikueue: tools ## 1,000 Jobs of a manager in two workers while all of them fail: SOAK="--jobs 100 --seconds 3"
	@$(BIN)/python -m bench.fleet $(SOAK)

check: $(STAMP) ## Format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: tools ## Measure latency, throughput and cost
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.webhook
	@$(BIN)/python -m bench.abuse
	@$(BIN)/python -m bench.fairness
	@$(BIN)/python -m bench.cycle
	@$(BIN)/python -m bench.simulate
	@$(BIN)/python -m bench.contention --share 0.1
	@$(BIN)/python -m bench.floor --share 0.1
	@$(BIN)/python -m bench.start --queues 500 --workloads 5000
	@test -z "$(KUEUE_CRD)" || $(BIN)/python -m bench.writes "$(KUEUE_CRD)"

replay: tools ## Record two benches, and decide all their cycles again: none may be decided differently
	@$(BIN)/python -m bench.recorder --share 0.06 --turns 1
	@made=$$(mktemp -d) && trap 'rm -r "$$made"' EXIT && $(BIN)/python -m bench.kinds --jobs 66 --record "$$made"

oracle: tools ## Compare with recorded decisions: CYCLE=folder, SCENARIOS=folder; TOPOLOGY=folder, by itself only that
	@worst=0; run() { $(BIN)/python -m "$$@" || { code=$$?; worst=$$((code > worst ? code : worst)); }; }; \
	$(if $(and $(TOPOLOGY),$(filter file,$(origin CYCLE)),$(filter file,$(origin SCENARIOS))),, \
	run bench.oracle $(CYCLE); run bench.played $(SCENARIOS);) \
	$(if $(TOPOLOGY),run bench.topology_oracle $(TOPOLOGY);) \
	exit $$worst

format: $(STAMP) ## Put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: $(STAMP) ## Write the hashes of all files of the locked packages again, after a version was changed
	@$(PYTHON) -m venv $(VENV)/uv && $(VENV)/uv/bin/pip install --quiet --disable-pip-version-check uv
	@for file in $(LOCKS); do \
	  cp $$file $(VENV)/uv/in.txt && $(VENV)/uv/bin/uv pip compile --quiet --native-tls --no-deps --generate-hashes \
	    --no-header --no-annotate --python-version 3.11 --output-file $$file $(VENV)/uv/in.txt || exit 1; \
	done

audit: ## Ask the Python Package Index for known vulnerabilities of the locked packages
	@$(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@$(VENV)/audit/bin/pip-audit --strict --disable-pip --require-hashes $(LOCKS:%=-r %)

image: ## Build the image with Docker: IMAGE=name:tag; the list of its packages is written to dist/
	@base=$(if $(findstring @,$(BASE)),$(BASE),$$(docker buildx imagetools inspect $(BASE) \
	  --format '{{.Name}}@{{.Manifest.Digest}}')) && set -x && \
	for what in "--tag $(IMAGE)" "--target sbom --output dist"; do \
	  docker build --build-arg BASE=$$base --build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	    --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) $$what . || exit 1; \
	done

image-test: tools ## Build the image without Docker (as root, on Debian), and run it against a real control plane
	@$(BIN)/seiretsu cluster tools helm >/dev/null
	@$(BIN)/python -m pytest -p no:xdist tests/image/check_image.py

e2e: $(STAMP) ## The image and the chart in a cluster of kind; says so where there is no Docker
	@PYTHON=$(BIN)/python tests/end_to_end

image-lock: $(STAMP) ## Lock the newest versions of the image's Debian packages (on Debian)
	@$(BIN)/python -m image.lock

test-image-python: ## The tests of the program, its servers and its shutdown on the Python of the image: PYTHON_OF_IMAGE
	@$(MAKE) --no-print-directory VENV=.venv-image PYTHON=$(PYTHON_OF_IMAGE) tools
	@.venv-image/bin/python -c 'import sys; assert sys.version_info[:2] == (3, 13), "the image has Python 3.13"'
	@.venv-image/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not cluster" -k "not test_cost"
	@.venv-image/bin/python -m pytest -p no:xdist tests/cluster/test_serve.py

krew-archive: $(STAMP) ## Pack `kubectl seiretsu` for this machine into dist/: PLATFORM=linux-amd64
	@rm -rf build/plugin
	@$(PIP) --require-hashes --target build/plugin -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --target build/plugin .
	@$(BIN)/python -m plugin.krew archive --packages build/plugin --platform $(PLATFORM)

krew: $(STAMP) ## The manifest for krew of the archives in dist/: URL=https://.../v1.2.3 HOMEPAGE=https://...
	@test -n "$(URL)" -a -n "$(HOMEPAGE)" || { echo "make krew URL=where the archives are published HOMEPAGE=of the project" >&2; exit 2; }
	@$(BIN)/python -m plugin.krew manifest --url "$(URL)" --homepage "$(HOMEPAGE)"

version: $(STAMP) ## Write another version into all files that have it: VERSION=1.2.3
	@$(BIN)/python -m release.version $(VERSION)

release: $(STAMP) ## Build all files of a release from a tag, twice, and compare (as root, on Debian): TAG=v1.2.3
	@test -n "$(TAG)" || { echo "make release TAG=v$(VERSION)" >&2; exit 2; }
	@$(BIN)/python -m release $(TAG) --out dist/$(TAG) $(RELEASE)

generate: $(STAMP) ## Make the generated files anew: CRDs, webhooks and rights of the chart, tables of docs
	$(BIN)/python -m api.crds charts/seiretsu/templates/crds
	$(BIN)/python -m api.feature_gates charts/seiretsu/templates/_feature_gates.tpl
	$(BIN)/python -m webhook.configuration_table charts/seiretsu/templates/_configuration_table.tpl
	$(BIN)/python -m webhook.chart charts/seiretsu/templates/webhooks.yaml
	$(BIN)/python -m controller.run.rights charts/seiretsu/templates/_rules.tpl
	$(BIN)/python -m webhook.backstop charts/seiretsu/templates/backstop.yaml
	$(BIN)/python -m webhook.enforcement charts/seiretsu/templates/enforcement.yaml
	$(BIN)/python -m controller.run.user_roles charts/seiretsu/templates/_user_roles.tpl
	$(BIN)/python -m core.feedback.page docs/feedback.md
	$(BIN)/python -m core.jobs.page docs/job-kinds.md
	$(BIN)/python -m bench.flow docs/flow.md

tools: $(STAMP) ## Build the control plane's programs, where they are missing
	@$(BIN)/seiretsu cluster tools $(CONTROL_PLANE) >/dev/null

clean: ## Remove the virtual environment; the programs stay in the user's cache
	rm -rf $(VENV)

# The stamp is written last: an interrupted installation is begun anew, a changed lock is installed over the last one.
$(STAMP): $(LOCKS) pyproject.toml setup.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11")'
	@echo "Installing into $(VENV)"
	@test -e $@ || $(PYTHON) -m venv --clear $(VENV) || { echo "The venv module of $(PYTHON) is missing: install it (Debian: python3-venv)" >&2; exit 1; }
	@rm -f $@
	@$(PIP) --require-hashes $(LOCKS:%=-r %)
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@
