// SPDX-License-Identifier: Apache-2.0

// Command glideslope-collector is the OpenTelemetry Collector distribution of glideslope.
//
// It takes OTLP from training ranks, scrapes GPU exporter pages and host metrics, and writes to
// VictoriaMetrics, VictoriaLogs and the traces store through queues on disk. What it is made of
// stands in components.go; the versions are pinned by go.mod.
package main

import (
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/otelcol"
)

// Version is that of the upstream collector components, so that "does the binary fit?" is one comparison.
const Version = "0.160.0"

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{
			Command:     "glideslope-collector",
			Description: "OpenTelemetry Collector distribution of glideslope",
			Version:     Version,
		},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{
					envprovider.NewFactory(),
					fileprovider.NewFactory(),
					yamlprovider.NewFactory(),
				},
				DefaultScheme: "env",
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		log.Fatal(err)
	}
}
