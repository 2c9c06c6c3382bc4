# opsctl's agent and balancer on a Docker host. Debian's own packages are enough for both.
ARG BASE
FROM ${BASE}
RUN set -eu; \
    if ! { command -v haproxy && python3 -c 'import docker, jinja2, yaml'; } >/dev/null 2>&1; then \
        apt-get update; \
        DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            haproxy python3 python3-docker python3-jinja2 python3-yaml; \
        rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin; \
    fi; \
    mkdir -p /state/run /models; \
    chown -R 10001:10001 /state /models; \
    chmod 0700 /state /state/run
COPY opsctl /opt/opsctl/opsctl
COPY manifests /opt/opsctl/manifests
ENV PYTHONPATH=/opt/opsctl PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN python3 -m compileall -q /opt/opsctl && python3 -c 'import opsctl.targets.docker.agent.agent_core'
USER 10001:10001
WORKDIR /state/run
ENTRYPOINT ["python3", "-m", "opsctl.targets.docker.agent"]
