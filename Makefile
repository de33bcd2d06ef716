# Each target first makes the virtual environment it needs from a lock file in requirements/.
PYTHON ?= $(shell for version in 3.11 3.12 3.13; do \
  python$$version -c 'import ensurepip, venv' 2> /dev/null && echo python$$version && break; done)
VENV = $(or $(PYTHON),$(error no Python 3.11, 3.12 or 3.13 with venv: install one, or say PYTHON=/path/to/python)) -m venv

# Where it is set, every process would compile what it imports, 15 s of TensorFlow.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo demo-detection demo-docs docs docs-programs test test-all lint test-slow test-jax \
  test-torch test-tf221 test-pseudo test-benchmark test-rooms lock clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A quarter of the recipe's time: the digits are of 8 pixels, and need no RandAugment.
demo: .venv/installed  ## Train a small LambdaResNet on handwritten digits, evaluate and export it
	.venv/bin/python -m zoo.train --config tpu_configs/lambda_resnet14_digits.yaml \
	  --model.image_size 16 --data.randaugment_magnitude None --training.epochs 12 \
	  --training.ema 0.97 --optimizer.warmup_epochs 1 --output_dir runs/digits --overwrite true
	.venv/bin/python -m zoo.export --run runs/digits --output runs/exports

demo-detection: .venv/installed  ## Train a small Mask R-CNN on drawn shapes, export it, find objects
	rm -rf runs/shapes
	.venv/bin/python -m tools.shapes --output runs/shapes/coco
	.venv/bin/python -m zoo.detection.convert --output runs/shapes/shards --shards 4 \
	  --train_images runs/shapes/coco/train --train_annotations runs/shapes/coco/train.json \
	  --val_images runs/shapes/coco/val --val_annotations runs/shapes/coco/val.json
	.venv/bin/python -m zoo.train --config tpu_configs/lambda_resnet14_shapes.yaml \
	  --data.dir runs/shapes/shards --output_dir runs/shapes/run
	.venv/bin/python -m zoo.export --run runs/shapes/run --output runs/exports
	.venv/bin/python -m zoo.predict --run runs/shapes/run --output runs/shapes/detections.png \
	  runs/shapes/coco/val/000000.jpg runs/shapes/coco/val/000001.jpg
	.venv/bin/python -m zoo.evaluate --run runs/shapes/run --output runs/shapes/evaluation

# A few tests at a time, of which the slow ones come first: the workers end together. TURN=1/3 takes
# every third slow test.
WORKERS = -n 2 --dist loadgroup --durations=40 $(if $(TURN),--turn $(TURN))
ALL = -m "slow or not slow"  # what pyproject.toml leaves out of `make test`, too

test: lint  ## Lint, type-check and run the quick tests on TensorFlow
	.venv/bin/python -m pytest $(WORKERS)

test-all: test-slow test-jax test-torch test-tf221 test-pseudo test-benchmark test-rooms docs  ## Run what `make test` leaves out: slow tests, other backends and packages, the site

lint: .venv/installed  ## ruff (rules and format) and pyright
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/pyright --pythonpath .venv/bin/python
	.venv/bin/pyright --pythonpath .venv/bin/python --project tools/pyright_strict.json

test-slow: .venv/installed  ## Run the slow tests on TensorFlow: networks, trainings, exports, notebooks, kills
	.venv/bin/python -m pytest $(WORKERS) -m slow

# What depends on the backend.
ON_BACKENDS = tests/test_*.py tests/layers tests/models tests/applications tests/weights \
  tests/bad_inputs/test_layers.py tests/bad_inputs/test_weights.py tests/zoo/benchmark/test_accelerator.py

# Of the slow ones, layers and training: JAX compiles every operation of every network.
test-jax: .venv-jax/installed  ## Run the tests of lambda_keras, and of training, on JAX
	KERAS_BACKEND=jax .venv-jax/bin/python -m pytest $(WORKERS) -m "not one_backend and not slow" \
	  $(ON_BACKENDS) tests/zoo/inference/test_compiled.py tests/zoo/train/test_accumulation.py \
	  tests/zoo/train/test_loop.py tests/zoo/train/test_classification.py
	KERAS_BACKEND=jax .venv-jax/bin/python -m pytest $(WORKERS) -m "not one_backend and slow" \
	  tests/layers tests/applications/test_folding.py tests/zoo/train/test_accumulation.py \
	  tests/zoo/train/test_loop.py tests/zoo/train/test_classification.py \
	  tests/zoo/train/test_resume.py::test_run_of_two_workers_that_loses_one_goes_on \
	  tests/zoo/train/test_resume.py::test_run_goes_on_with_another_number_of_devices

test-torch: .venv-torch/installed  ## Run the tests of lambda_keras on PyTorch, without TensorFlow
	KERAS_BACKEND=torch .venv-torch/bin/python -m pytest $(WORKERS) -m "not one_backend" \
	  $(ON_BACKENDS) tests/zoo/test_convert.py

test-benchmark: .venv-benchmark/installed .venv-tpu/installed  ## Run the tests that need timm or compilers for an H100 and a TPU
	KERAS_BACKEND=torch .venv-benchmark/bin/python -m pytest $(ALL) \
	  tests/zoo/benchmark/test_networks.py tests/layers/attention/test_timm.py
	KERAS_BACKEND=jax .venv-benchmark/bin/python -m pytest $(ALL) \
	  tests/tools/test_compiled.py tests/tools/test_kernels.py tests/zoo/benchmark/test_backends.py
	KERAS_BACKEND=tensorflow .venv-benchmark/bin/python -m pytest $(ALL) tests/tools/test_lowering.py \
	  tests/zoo/benchmark/test_data.py

test-pseudo: .venv-pseudo/installed  ## Run the tests of pseudo-labels on Apache Beam
	.venv-pseudo/bin/python -m pytest $(WORKERS) $(ALL) tests/zoo/pseudo_label

test-tf221: .venv-tf221/installed  ## Run layers, a training and an export on TensorFlow 2.21
	.venv-tf221/bin/python -m pytest $(WORKERS) tests/layers/test_every_layer.py tests/layers/test_lambda_layer.py \
	  tests/layers/test_saved_layers.py tests/layers/test_batch_normalization.py \
	  tests/layers/position_lambdas tests/zoo/export/test_saved_model.py \
	  tests/zoo/train/test_classification.py::test_run_folder_is_complete

# Of all rooms the short form: ROOMS="detection serve" QUICK=false runs every quick test, but those of layers, without each.
QUICK = true
test-rooms: .venv/installed  ## Take rooms out of copies of the checkout, and check what is left
	.venv/bin/python -m tools.rooms $(ROOMS) --quick $(QUICK)

# Every warning is an error: links and anchors that lead nowhere, missing or undocumented symbols.
SPHINX = .venv-docs/bin/sphinx-build -W --keep-going --conf-dir docs -d build/doctrees

docs: docs-programs .venv-docs/onnxruntime-web  ## Build the documentation site in build/docs, run its doctests and its demo
	$(SPHINX) --fresh-env --builder html . build/docs
	$(SPHINX) --builder doctest . build/doctest
	.venv-docs/bin/python -m pytest $(ALL) tests/docs/test_draw.py tests/docs/test_pages.py

# Said before minutes of installation.
docs-programs:
	@test -e .venv-docs/onnxruntime-web || command -v npm > /dev/null || \
	  { echo "make docs needs npm: install Node.js (apt-get install npm)" >&2; exit 1; }
	@command -v chromium > /dev/null || command -v google-chrome > /dev/null || \
	  { echo "make docs needs a browser: install Chromium (apt-get install chromium)" >&2; exit 1; }

# Of npm's package, the build without WebGPU and WebGL, which the demo of the first page loads.
ORT = onnxruntime-web-1.30.0.tgz
ORT_SHA256 = d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71
ORT_FILES = ort.wasm.min.mjs ort-wasm-simd-threaded.mjs ort-wasm-simd-threaded.wasm

.venv-docs/onnxruntime-web: .venv-docs/installed | docs-programs
	@echo "Downloading $(ORT), 33 MB"
	mkdir -p build
	npm pack --silent --pack-destination build onnxruntime-web@$(ORT:onnxruntime-web-%.tgz=%)
	echo "$(ORT_SHA256)  build/$(ORT)" | sha256sum --check --quiet
	mkdir -p $@
	tar -xzf build/$(ORT) -C $@ --strip-components 2 $(ORT_FILES:%=package/dist/%)
	rm build/$(ORT)
	@touch $@

# The network of that demo, docs/_static/digits.onnx; the figures in docs/index.md are of its file.
demo-docs: .venv/installed  ## Train the network of the site's first page anew
	rm -rf runs/docs
	.venv/bin/python -m zoo.train --config tpu_configs/lambda_resnet14_digits.yaml \
	  --output_dir runs/docs/run
	.venv/bin/python -m zoo.export --run runs/docs/run --output runs/docs --format onnx \
	  --quantize float16 --lambda_maps c5_block1_2_lambda
	cp runs/docs/lambda_resnet14/onnx/1/model.onnx docs/_static/digits.onnx

# uv takes a third of pip's time. Which build of PyTorch to take is in pip's own configuration.
INSTALL = .venv-lock/bin/uv pip install --quiet --python $(@D)/bin/python
.venv-torch/installed: INSTALL = $(@D)/bin/pip install --quiet --disable-pip-version-check --use-pep517
.venv/installed .venv-jax/installed .venv-benchmark/installed .venv-pseudo/installed \
  .venv-docs/installed .venv-tpu/installed: | .venv-lock/installed

.venv/installed: requirements/tensorflow.lock
.venv-jax/installed: requirements/jax.lock
.venv-torch/installed: requirements/torch.lock
.venv-benchmark/installed: requirements/benchmark.lock
.venv-pseudo/installed: requirements/pseudo.lock
.venv-docs/installed: requirements/docs.lock
.venv-tpu/installed: requirements/tpu.lock
.venv/installed .venv-jax/installed .venv-torch/installed .venv-benchmark/installed \
  .venv-pseudo/installed .venv-docs/installed .venv-tpu/installed:
	@echo "Installing $< into $(@D), which takes a minute or two"
	$(VENV) --clear $(@D)
	$(INSTALL) --requirement $<
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Hard links to the files of .venv, but for TensorFlow and what needs another version with it. The
# detectors' packages have none.
.venv-tf221/installed: .venv/installed
	@echo "Installing TensorFlow 2.21 into $(@D), a copy of .venv"
	rm -rf $(@D)
	cp -al .venv $(@D)
	rm $@
	.venv-lock/bin/uv pip uninstall --quiet --python $(@D)/bin/python tf-models-official tensorflow-text
	$(INSTALL) tensorflow==2.21.0 tensorflow-serving-api==2.21.0 tf_keras==2.21.0
	@touch $@

# Keeps the versions that still fit; `make lock LOCK_ARGS=--upgrade` takes the newest ones.
COMPILE = .venv-lock/bin/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 \
  --fork-strategy fewest --constraint requirements/constraints.txt \
  --custom-compile-command "make lock" $(LOCK_ARGS)

lock: .venv-lock/installed  ## Write requirements/*.lock anew from pyproject.toml
	$(COMPILE) --generate-hashes $(addprefix --extra ,export detection demo serve) --group dev \
	  --output-file requirements/tensorflow.lock
	$(COMPILE) --generate-hashes --extra jax --extra train --group test --output-file requirements/jax.lock
	$(COMPILE) --generate-hashes --extra pseudo --group test --output-file requirements/pseudo.lock
	$(COMPILE) --generate-hashes --extra train --group docs --output-file requirements/docs.lock
# PyTorch's CPU and CUDA builds share a version but neither hashes nor CUDA packages, so neither
# is locked: pip takes the build that its index offers, with the CUDA packages that build asks for.
	$(COMPILE) --no-annotate --extra convert --group test --group compare --output-file requirements/torch.lock
# timm needs torchvision, which has no CPU build, so another PyTorch than the constraint's.
	sed '/^torch=/d' requirements/constraints.txt > requirements/benchmark.in
	$(subst constraints.txt,benchmark.in,$(COMPILE)) --no-annotate --extra export --extra torch \
	  --group benchmark --group test --output-file requirements/benchmark.lock
	rm requirements/benchmark.in
# Of the TPU page: TensorFlow's wheel for TPUs in place of tensorflow.
	echo 'tensorflow; sys_platform == "none"' > requirements/tpu.in
	$(COMPILE) --no-annotate --override requirements/tpu.in --extra train --extra tpu \
	  --output-file requirements/tpu.lock
	rm requirements/tpu.in
	sed -i.bak -E '/^(cuda-|nvidia-|triton)/d' requirements/torch.lock requirements/benchmark.lock
	rm requirements/*.lock.bak

.venv-lock/installed: Makefile
	$(VENV) --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check uv==0.13.8
	@touch $@

clean:  ## Remove the environments and caches; runs/ stays
	rm -rf .venv .venv-jax .venv-torch .venv-benchmark .venv-pseudo .venv-docs .venv-tpu .venv-tf221 .venv-lock build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
