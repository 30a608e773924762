# The image is made of locked Debian packages (image/packages.lock), locked Python packages (requirements.lock) and this
# repository. Nothing of the image that BASE names gets into it: that one downloads and unpacks the packages, each of
# which must have the SHA-256 of its lock. `make image` builds it with the digest of BASE.
ARG BASE=debian:trixie-slim
FROM ${BASE} AS packages
# Instead of the sources of BASE: sources of apt that still have the locked versions (a snapshot).
ARG APT_SOURCES=
WORKDIR /work
COPY image/unpack image/trim image/packages.lock image/tools.lock ./
RUN if [ -n "$APT_SOURCES" ]; then rm -f /etc/apt/sources.list.d/*; printf '%s\n' "$APT_SOURCES" > /etc/apt/sources.list; fi \
    && apt-get --quiet=2 update && ./unpack packages.lock /image && ./unpack tools.lock /tools && ./trim /image \
    && cat /tools/usr/share/ca-certificates/mozilla/*.crt > /tools/ca-certificates.crt

# Python and the libraries that it needs, without a shell: what follows runs Python itself.
FROM scratch AS python
COPY --from=packages /image /

# /image becomes the lower layer (Python, compiled), /program the upper one.
FROM python AS application
ARG SOURCE_DATE_EPOCH=315532800
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}
WORKDIR /src
COPY --from=packages /tools /tools
COPY --from=packages /tools/ca-certificates.crt /etc/ssl/certs/
COPY --from=packages /image /image
COPY requirements.lock requirements-build.lock ./
COPY image image
RUN ["/usr/bin/python3.13", "-B", "-m", "image.application", "dependencies"]
COPY pyproject.toml setup.py README.md LICENSE ./
COPY seiretsu seiretsu
COPY api api
COPY core core
COPY controller controller
COPY webhook webhook
COPY certs certs
COPY operations operations
COPY app app
COPY cli/__init__.py cli/main.py cli/serve.py cli/words.py cli/
RUN ["/usr/bin/python3.13", "-B", "-m", "image.application", "program"]

# The list of all packages in the image, as a file: docker build --target sbom --output dist .
FROM scratch AS sbom
COPY --from=application /program/opt/seiretsu/sbom.spdx.json /

FROM scratch
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Seiretsu" \
      org.opencontainers.image.description="A job queue for Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PYTHONUNBUFFERED=1
COPY --from=application /image /
COPY --from=application /program /
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["/usr/bin/python3.13", "-I", "-B", "/opt/seiretsu"]
CMD ["serve"]
