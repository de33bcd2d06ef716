# Image of the commands: `docker build .` for CPUs; `docker build --target gpu .` with CUDA's
# libraries, for `docker run --gpus all`.
FROM python:3.11-slim AS base
RUN useradd --uid 1000 --create-home zoo && pip install --no-cache-dir uv==0.13.8
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY requirements/tensorflow.lock requirements/
COPY lambda_keras lambda_keras
COPY zoo zoo
COPY tpu_configs tpu_configs
# The lock says which versions.
RUN uv pip install --system --no-cache --constraint requirements/tensorflow.lock '.[demo,export,serve]'
ENTRYPOINT ["lambda-keras"]
CMD ["--help"]

FROM base AS gpu
RUN uv pip install --system --no-cache --constraint requirements/tensorflow.lock '.[gpu]'
WORKDIR /home/zoo
USER 1000

FROM base AS cpu
WORKDIR /home/zoo
USER 1000
