# Parley on Debian slim. Targets: `base` (gateway, console, biller, supervisor without engine), `cpu` (adds vLLM's CPU
# build; the default) and `gpu` (adds vLLM for CUDA; run it with the NVIDIA container runtime).
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/parley
WORKDIR /src
COPY requirements/base.txt requirements/
RUN /opt/parley/bin/pip install --no-deps --require-hashes -r requirements/base.txt

FROM packages AS packages-cpu
COPY requirements/cpu.txt requirements/
RUN grep '^torch==' requirements/cpu.txt > torch.txt && grep -v '^torch==' requirements/cpu.txt > rest.txt \
 && (/opt/parley/bin/pip install --no-deps -r torch.txt \
     || /opt/parley/bin/pip install --no-deps --index-url https://download.pytorch.org/whl/cpu -r torch.txt) \
 && /opt/parley/bin/pip install --no-deps -r rest.txt

FROM packages AS packages-gpu
COPY requirements/gpu.txt requirements/
RUN /opt/parley/bin/pip install --no-deps -r requirements/gpu.txt

# Node, which builds the chat page, stays behind here.
FROM packages AS wheel
COPY requirements/build.txt requirements/
RUN /opt/parley/bin/pip install --no-deps --require-hashes -r requirements/build.txt
COPY . .
RUN /opt/parley/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel ./clients/python .

FROM python:${PYTHON} AS runtime
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/parley parley \
 && install -d -o parley -g parley -m 0700 /var/lib/parley/models /var/lib/parley/ends
ENV PATH=/opt/parley/bin:$PATH PYTHONUNBUFFERED=1 PARLEY_HOME=/var/lib/parley PARLEY_HOST=0.0.0.0 PARLEY_LOG_FORMAT=json
WORKDIR /var/lib/parley
USER parley
EXPOSE 8080 8081
ENTRYPOINT ["parley"]
CMD ["gateway"]

FROM runtime AS base
COPY --from=packages /opt/parley /opt/parley
COPY --from=wheel /wheel /wheel
USER root
RUN /opt/parley/bin/pip install --no-deps --no-cache-dir /wheel/*.whl
USER parley

FROM runtime AS gpu
COPY --from=packages-gpu /opt/parley /opt/parley
COPY --from=wheel /wheel /wheel
USER root
RUN /opt/parley/bin/pip install --no-deps --no-cache-dir /wheel/*.whl
USER parley

FROM runtime AS cpu
USER root
# vLLM's CPU build links against these at run time.
RUN apt-get update && apt-get install -y --no-install-recommends libnuma1 libgomp1 && rm -rf /var/lib/apt/lists/*
COPY --from=packages-cpu /opt/parley /opt/parley
COPY --from=wheel /wheel /wheel
RUN /opt/parley/bin/pip install --no-deps --no-cache-dir /wheel/*.whl
USER parley
