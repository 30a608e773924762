# Two stages: the first has a compiler and pip, the second only Python and what it runs.
FROM python:3.13-slim AS build
WORKDIR /src
# What it runs on, and nothing of what it is developed with: that is locked apart, in requirements-dev.lock.
COPY requirements.lock pyproject.toml setup.py README.md ./
RUN python -m venv /opt/seiretsu && /opt/seiretsu/bin/pip install --no-cache-dir --require-hashes -r requirements.lock
COPY api api
COPY core core
COPY controller controller
COPY webhook webhook
COPY certs certs
COPY app app
COPY cli cli
COPY devcluster devcluster
COPY seiretsu seiretsu
RUN /opt/seiretsu/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PATH=/opt/seiretsu/bin:$PATH
COPY --from=build /opt/seiretsu /opt/seiretsu
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["seiretsu"]
CMD ["serve"]
