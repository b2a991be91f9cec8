# Backends of traces and metrics as real servers: see tools/backends.sh and doc/exporter.md.
.PHONY: test-backends backends-build backends-load

test-backends: ## spans to Zipkin, Jaeger, the OpenTelemetry collector; metrics to Prometheus: BACKENDS="zipkin prometheus"
	@tools/backends.sh test $(BACKENDS)

backends-build: ## what test-backends fetches and builds when it is first run, and nothing else
	@tools/backends.sh build $(BACKENDS)

backends-load: ## 100,000 spans a second for LOAD_SECONDS=60 into the collector
	@tools/backends.sh load
