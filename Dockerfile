# All services in one container:
#
#   docker build -t tributary .
#   docker run --name tributary --stop-timeout 40 -e TRIBUTARY_UP_SOURCES=pds.example.com -v tributary:/data \
#     -p 127.0.0.1:2470:2470 -p 127.0.0.1:2480:2480 -p 127.0.0.1:2484:2484 tributary
#   docker exec tributary tributary status
#
# The services have 10 s to stop, and the launcher 30. Without --stop-timeout Docker kills all of them after 10 s.
#
# The first stage makes the package as it is published; the second installs it alone, without the testkit and without a
# compiler. `contrib/tributary.service` does the same for a machine without containers.
FROM node:24-slim AS pack
WORKDIR /source
COPY . .
RUN npm ci --ignore-scripts --no-audit --no-fund && npm run --silent pack -- /packed

FROM node:24-slim
COPY --from=pack /packed/tributary-[0-9]*.tgz /tmp/
RUN npm install --global --ignore-scripts --no-audit --no-fund /tmp/tributary-[0-9]*.tgz \
  && rm -r /tmp/*.tgz /root/.npm \
  && useradd --system --uid 10001 --home-dir /data tributary \
  && install --directory --owner=tributary --mode=0700 /data
# A variable and no flag, so that commands in the container find it too: docker exec CONTAINER tributary status
ENV TRIBUTARY_UP_DATA_DIRECTORY=/data
USER tributary
WORKDIR /data
VOLUME /data
# relay, stream, feed. The index is for the container alone.
EXPOSE 2470 2480 2484
# Whether the services answer. Whether what they serve is fresh is for `tributary status` and for the alerts: a source that
# is paused is no reason to start a container again. It asks the usual ports: whoever sets other ones gives `docker run` a
# --health-cmd of their own.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["node", "-e", "Promise.all([2470, 2480, 2482, 2484].map((port) => fetch(`http://127.0.0.1:${port}/_health`).then(({ ok }) => ok || process.exit(1)))).catch(() => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tributary"]
CMD ["up", "--host", "0.0.0.0"]
