# make demo   train certified models on embedded data and write report/index.html
# make test   every test but the slow ones        make test-all   all of them
# make test-gpu   those for a GPU: GPU_PYTHON has torch, pytest and what the package needs
# make coverage   which lines no test runs; COVERAGE="tests/domains --cov-fail-under=0" for some
# make lint   ruff, mypy, import-linter           make bench      compare with the peers
# make attack   random problems against every certificate: ATTACK="--seconds 600 --seed 1"
# make docs   the documentation as a site in site/, its examples run
# make pictures   draw its pictures and write its benchmark page anew
# Each sets up .venv when needed. PYTHON chooses the interpreter (3.11 or newer).

PYTHON ?= python3
GPU_PYTHON ?= $(PYTHON)
BIN := .venv/bin
ATTACK ?= --seconds 60
COVERAGE ?= -n auto

.PHONY: attack coverage demo docs pictures test test-all test-gpu lint bench clean

demo: .venv/.demo
	$(BIN)/python -m cornerstep.cli.demo report

test: .venv/.test
	$(BIN)/pytest -n auto

test-all: .venv/.test
	$(BIN)/pytest -n auto -m ''

test-gpu:
	PYTHONPATH=src:tests $(GPU_PYTHON) -m pytest -m '' -k 'gpu or cuda' tests/gpu tests/multiclass/arrays

coverage: .venv/.test
	$(BIN)/pytest $(COVERAGE) --cov

lint: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

attack: .venv/.test
	$(BIN)/python -m attack $(ATTACK)

docs: .venv/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -d build/doctrees docs site

pictures: .venv/.docs
	$(BIN)/python -m pictures

bench: .venv/.bench
	$(BIN)/python -m benchmarks

# One stamp per extra: installed anew when pyproject.toml changes.
.venv/.demo: EXTRA = plot
.venv/.test: EXTRA = test
.venv/.bench: EXTRA = bench
.venv/.docs: EXTRA = docs
.venv/.%: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[$(EXTRA)]'
	touch $@

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv report dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* build site docs/gallery docs/reference/generated benchmarks/results
