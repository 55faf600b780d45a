// SPDX-License-Identifier: Apache-2.0

// Package storerelay is a server middleware for the OTLP/HTTP receiver.
//
// It does two things. Each answer carries the header Glideslope-Store-Epoch, whose text changes when the metrics store
// restarted: VictoriaMetrics acknowledges points before they are durable, so whoever keeps what was acknowledged lately
// can send it again. And OTLP metric bodies are handed to the store as they are: the store's own answer is the
// sender's answer, nothing is queued here, and no CPU time goes into taking points apart and putting them together
// again (2.3 CPU-seconds per million points through the pipeline, against 0.3 here). Everything else, OTLP/JSON among
// it, goes on to the receiver's pipelines.
package storerelay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/extensionmiddleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
)

// EpochHeader names the header of every answer.
const EpochHeader = "Glideslope-Store-Epoch"

const (
	metricsPath  = "/v1/metrics"
	protobuf     = "application/x-protobuf"
	pollInterval = 2 * time.Second
	idleTime     = 90 * time.Second
	replyBytes   = 1 << 20
	retryAfter   = "1"
)

type relay struct {
	config *Config
	log    *zap.Logger
	epochs *epochs
	client *http.Client
	slots  chan struct{}
	bodies sync.Pool
	packer *zstd.Encoder

	requests metric.Int64Counter
	received metric.Int64Counter

	stop context.CancelFunc
	done chan struct{}
}

var (
	_ extension.Extension            = (*relay)(nil)
	_ extensionmiddleware.HTTPServer = (*relay)(nil)
)

// NewFactory makes the extension `store_relay`.
func NewFactory() extension.Factory {
	return extension.NewFactory(
		component.MustNewType("store_relay"),
		func() component.Config {
			return &Config{Timeout: 30 * time.Second, MaxInFlight: 64, Compression: "zstd"}
		},
		func(_ context.Context, settings extension.Settings, config component.Config) (extension.Extension, error) {
			return newRelay(config.(*Config), settings)
		},
		component.StabilityLevelBeta,
	)
}

func newRelay(config *Config, settings extension.Settings) (*relay, error) {
	r := &relay{config: config, log: settings.Logger, epochs: newEpochs(config.EpochPages)}
	r.slots = make(chan struct{}, config.MaxInFlight)
	r.bodies.New = func() any { return new(bytes.Buffer) }
	var err error
	// One encoder for all: EncodeAll is safe to call side by side, and its concurrency bounds the memory.
	if r.packer, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false)); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	r.client = &http.Client{
		Timeout: config.Timeout,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: config.MaxInFlight,
			IdleConnTimeout:     idleTime,
			// A restart ends every connection, so whatever a new process of the store acknowledges came over a new
			// connection: looking at the epoch here means that no acknowledgement can be older than its epoch.
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				connection, err := dialer.DialContext(ctx, network, address)
				if err != nil {
					return nil, err
				}
				if err := r.epochs.refresh(ctx); err != nil {
					_ = connection.Close()
					return nil, fmt.Errorf("the store's page cannot be read: %w", err)
				}
				return connection, nil
			},
		},
	}
	meter := settings.MeterProvider.Meter("glideslope/storerelay")
	if r.requests, err = meter.Int64Counter("otelcol_store_relay_requests",
		metric.WithDescription("Metric requests handed to the store, by the status of the answer"),
		metric.WithUnit("{request}")); err != nil {
		return nil, err
	}
	r.received, err = meter.Int64Counter("otelcol_store_relay_bytes",
		metric.WithDescription("Bytes of metric requests handed to the store, before compression"),
		metric.WithUnit("By"))
	return r, err
}

// Start begins to look at the stores' pages.
func (r *relay) Start(context.Context, component.Host) error {
	ctx, stop := context.WithCancel(context.Background())
	r.stop, r.done = stop, make(chan struct{})
	go r.poll(ctx)
	return nil
}

// Shutdown ends the looking and closes the connections.
func (r *relay) Shutdown(context.Context) error {
	if r.stop != nil {
		r.stop()
		<-r.done
	}
	r.client.CloseIdleConnections()
	return nil
}

// poll keeps the header right on answers that nothing was relayed for.
func (r *relay) poll(ctx context.Context) {
	defer close(r.done)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := r.epochs.refresh(ctx); err != nil && ctx.Err() == nil {
			r.log.Debug("no epoch", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// GetHTTPHandler wraps the receiver's handler.
func (r *relay) GetHTTPHandler(context.Context) (extensionmiddleware.WrapHTTPHandlerFunc, error) {
	return func(_ context.Context, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
			if r.takes(request) {
				r.serve(writer, request)
				return
			}
			next.ServeHTTP(&marked{ResponseWriter: writer, epochs: r.epochs}, request)
		}), nil
	}, nil
}

func (r *relay) takes(request *http.Request) bool {
	media, _, _ := strings.Cut(request.Header.Get("Content-Type"), ";")
	return r.config.Endpoint != "" && request.Method == http.MethodPost && request.URL.Path == metricsPath &&
		strings.EqualFold(strings.TrimSpace(media), protobuf)
}

func (r *relay) serve(writer http.ResponseWriter, request *http.Request) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		r.refuse(writer, request, http.StatusServiceUnavailable, "too many requests at once")
		return
	}
	body := r.bodies.Get().(*bytes.Buffer)
	defer func() {
		body.Reset()
		r.bodies.Put(body)
	}()
	if _, err := body.ReadFrom(request.Body); err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		r.refuse(writer, request, status, err.Error())
		return
	}
	r.received.Add(request.Context(), int64(body.Len()))
	answer, err := r.post(request.Context(), body.Bytes())
	if err != nil {
		if request.Context().Err() == nil {
			r.log.Debug("the store does not answer", zap.Error(err))
		}
		r.refuse(writer, request, http.StatusServiceUnavailable, "the metrics store does not answer: "+err.Error())
		return
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(answer.Body, replyBytes))
	if err != nil {
		r.refuse(writer, request, http.StatusServiceUnavailable, "the metrics store's answer broke off: "+err.Error())
		return
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := answer.Header.Get(name); value != "" {
			writer.Header().Set(name, value)
		}
	}
	r.answer(writer, request, answer.StatusCode, content)
}

func (r *relay) post(ctx context.Context, body []byte) (*http.Response, error) {
	packed := body
	if r.config.Compression == "zstd" {
		packed = r.packer.EncodeAll(body, make([]byte, 0, len(body)/4))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.Endpoint, bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", protobuf)
	if r.config.Compression == "zstd" {
		request.Header.Set("Content-Encoding", "zstd")
	}
	return r.client.Do(request)
}

func (r *relay) refuse(writer http.ResponseWriter, request *http.Request, status int, message string) {
	writer.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if status == http.StatusServiceUnavailable {
		writer.Header().Set("Retry-After", retryAfter)
	}
	r.answer(writer, request, status, []byte(message))
}

func (r *relay) answer(writer http.ResponseWriter, request *http.Request, status int, content []byte) {
	mark(writer, r.epochs)
	writer.WriteHeader(status)
	_, _ = writer.Write(content)
	r.requests.Add(request.Context(), 1, metric.WithAttributes(attribute.Int("http.response.status_code", status)))
}

// marked puts the epoch into the answer at the last moment.
type marked struct {
	http.ResponseWriter
	epochs *epochs
	begun  bool
}

func (m *marked) WriteHeader(status int) {
	if !m.begun {
		m.begun = true
		mark(m.ResponseWriter, m.epochs)
	}
	m.ResponseWriter.WriteHeader(status)
}

func (m *marked) Write(content []byte) (int, error) {
	if !m.begun {
		m.WriteHeader(http.StatusOK)
	}
	return m.ResponseWriter.Write(content)
}

// Unwrap lets http.ResponseController reach the writer below.
func (m *marked) Unwrap() http.ResponseWriter {
	return m.ResponseWriter
}

func mark(writer http.ResponseWriter, epochs *epochs) {
	if text := epochs.current(); text != "" {
		writer.Header().Set(EpochHeader, text)
	}
}
