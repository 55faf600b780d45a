// SPDX-License-Identifier: Apache-2.0

package storerelay

import (
	"errors"
	"fmt"
	"net/url"
	"time"
)

// Config is the configuration of the extension.
type Config struct {
	// Endpoint is the full URL of the store's OTLP/HTTP metrics path. Empty: nothing is relayed, metrics take the
	// receiver's pipeline, and only the epoch header is added.
	Endpoint string `mapstructure:"endpoint"`
	// EpochPages are Prometheus pages of the processes that hold the data, each with process_start_time_seconds.
	EpochPages []string `mapstructure:"epoch_pages"`
	// Timeout bounds one exchange with the store.
	Timeout time.Duration `mapstructure:"timeout"`
	// MaxInFlight bounds the bodies held in memory; beyond it the answer is 503, and the sender comes again.
	MaxInFlight int `mapstructure:"max_in_flight"`
	// Compression of relayed bodies: "zstd" or "none".
	Compression string `mapstructure:"compression"`
}

// Validate refuses what cannot work, before anything starts.
func (c *Config) Validate() error {
	if len(c.EpochPages) == 0 {
		return errors.New("epoch_pages is empty: name the /metrics page of the store")
	}
	for _, address := range append([]string{c.Endpoint}, c.EpochPages...) {
		if address == "" {
			continue
		}
		if parsed, err := url.Parse(address); err != nil || parsed.Host == "" {
			return fmt.Errorf("%q is no URL: write for example http://127.0.0.1:8428/metrics", address)
		}
	}
	if c.Timeout <= 0 {
		return errors.New("timeout must be positive")
	}
	if c.MaxInFlight < 1 {
		return errors.New("max_in_flight must be at least 1")
	}
	if c.Compression != "zstd" && c.Compression != "none" {
		return fmt.Errorf("compression %q: write zstd or none", c.Compression)
	}
	return nil
}
