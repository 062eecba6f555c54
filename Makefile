# make demo   watch bundles go through the whole system on this machine
# make test   run every test
#
# Both set up .venv on first use. Python 3.11 is what Cloud Functions runs;
# another one: make PYTHON=python3.12 ...

PYTHON = python3.11
BIN = .venv/bin
LOWEST = .venv-lowest/bin
FUZZ = .venv-fuzz/bin
MUTATE = .venv-mutate/bin
SECONDS = 60
SEEDS = 10000
FROM = 0
WITHOUT =
EXECUTOR = inline
STATE = firestore
GATE = manifest
# Errors only: pip says nothing while all is well.
PIP_INSTALL = pip install -qq --disable-pip-version-check

.PHONY: help demo up test test-lowest lint fuzz simulate mutate docs deployable bench bench-gates bench-read bench-sinks bench-storm bench-postgis bench-stalls clean

help:
	@echo 'make demo         upload bundles in the worst order, watch what each event leads to'
	@echo 'make up           start the local stack and keep it until Ctrl-C'
	@echo 'make test         run every test: unit, contract, properties, emulator, deployment, e2e'
	@echo 'make test-lowest  run unit, contract and scenario tests on the lowest supported versions'
	@echo 'make lint         check style, format and types'
	@echo 'make fuzz         feed damaged files to the reader, SECONDS=60 for each kind'
	@echo 'make simulate     play SEEDS=10000 histories FROM=0, by STATE, GATE and EXECUTOR; one alone is told in full'
	@echo 'make mutate       change the core in every small way, take each guard away, see a test fail for each'
	@echo 'make docs         write the tables of docs/ anew from the code'
	@echo 'make deployable   import the target with production requirements only'
	@echo 'make terraform    check terraform/ against stand-ins for the cloud'
	@echo 'make bench        measure the event path on the Firestore emulator, and without a database'
	@echo 'make bench-gates  measure what a bundle costs behind each gate'
	@echo 'make bench-read   measure reading against pyogrio, ogr2ogr and a Fiona loop'
	@echo 'make bench-sinks  measure shapefile to dataset against ogr2ogr, for each form'
	@echo 'make bench-storm  send 10 000 events through the function, one in twenty failing'
	@echo 'make bench-postgis  measure loading into PostGIS against ogr2ogr'
	@echo 'make bench-large  measure bundles of up to 2 GB from Cloud Storage to Cloud Storage'
	@echo 'make bench-stalls measure how long one call can stop the heartbeat of a lease'
	@echo 'make clean        remove the virtual environments and caches'

demo: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system demo
	@$(BIN)/python -m gate local demo

up: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system services
	@$(BIN)/python -m gate local up

test: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system optional
	@$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report

test-lowest: .venv/.installed .venv-lowest/.installed
	$(BIN)/lower-bound-checker check --package-name shapefile-gate \
		--constraints-file tests/constraints-lowest.txt
	$(LOWEST)/python -m pytest -m 'not project' \
		tests/unit tests/contract tests/scenarios

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fuzz: .venv-fuzz/.installed
	@for target in headers table layer sidecars archive; do \
		$(FUZZ)/python -m tests.fuzz $$target -max_total_time=$(SECONDS) || exit 1; \
	done

simulate: .venv/.installed
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) --from $(FROM) --without '$(WITHOUT)' \
		--executor $(EXECUTOR) --state $(STATE) --gate $(GATE)

mutate: .venv-mutate/.installed
	@$(MUTATE)/python -m tests.mutation
	@$(MUTATE)/python -m tests.mutation.without

docs: .venv/.installed
	$(BIN)/python -m tests.tooling.reference

deployable: .venv/.installed
	PYTHON=$(PYTHON) sh .ci/deployable

.PHONY: terraform
terraform: .venv/.installed .cache/checkov/.installed
	sh .ci/terraform

bench: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system services
	@$(BIN)/python -m benchmarks.gate
	@$(BIN)/python -m benchmarks.gate --state blobs

bench-gates: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system services
	@$(BIN)/python -m benchmarks.other_gates

bench-read: .venv/.installed
	@$(BIN)/python -m benchmarks.read

bench-sinks: .venv/.installed
	@$(BIN)/python -m benchmarks.sinks

bench-storm: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system services
	@$(BIN)/python -m benchmarks.storm

bench-postgis: .venv/.installed
	@PYTHON=$(PYTHON) sh .ci/system everything
	@$(BIN)/python -m benchmarks.postgis

.PHONY: bench-large
bench-large: .venv/.installed
	@$(BIN)/python -m benchmarks.large

bench-stalls: .venv/.installed
	@$(BIN)/python -m benchmarks.stalls

clean:
	rm -rf .venv .venv-lowest .venv-fuzz .venv-mutate mutants .cache .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache build *.egg-info

.venv/.installed: requirements.txt tests/requirements.txt pyproject.toml
	@PYTHON=$(PYTHON) sh .ci/system python
	@$(PYTHON) -m venv .venv
	$(BIN)/$(PIP_INSTALL) -r tests/requirements.txt
	$(BIN)/$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv-lowest/.installed: tests/constraints-lowest.txt
	@PYTHON=$(PYTHON) sh .ci/system python
	@$(PYTHON) -m venv --clear .venv-lowest
	$(LOWEST)/$(PIP_INSTALL) --only-binary :all: -r tests/constraints-lowest.txt
	@touch $@

.cache/checkov/.installed: tests/deployment/requirements.txt
	@PYTHON=$(PYTHON) sh .ci/system python
	@$(PYTHON) -m venv --clear .cache/checkov
	.cache/checkov/bin/$(PIP_INSTALL) -r tests/deployment/requirements.txt
	@touch $@

.venv-fuzz/.installed: requirements.txt tests/fuzz/requirements.txt
	@PYTHON=$(PYTHON) sh .ci/system python
	@$(PYTHON) -m venv --clear .venv-fuzz
	$(FUZZ)/$(PIP_INSTALL) -r tests/fuzz/requirements.txt
	@touch $@

.venv-mutate/.installed: requirements.txt tests/requirements.txt tests/mutation/requirements.txt
	@PYTHON=$(PYTHON) sh .ci/system python
	@$(PYTHON) -m venv --clear .venv-mutate
	$(MUTATE)/$(PIP_INSTALL) -r tests/mutation/requirements.txt
	@touch $@
