# SPDX-License-Identifier: Apache-2.0
# The collector distribution for the Docker stack. Built from the checkout: `docker compose build`.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY collectors/otelcol .
RUN CGO_ENABLED=0 go build -trimpath -tags remove_all_sd -ldflags '-s -w' -o /glideslope-collector .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /glideslope-collector /glideslope-collector
USER 65534:65534
ENTRYPOINT ["/glideslope-collector"]
