// SPDX-License-Identifier: Apache-2.0

package storerelay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	startLine = "process_start_time_seconds"
	cpuLine   = "process_cpu_seconds_total"
	pageBytes = 16 << 20
	pageTime  = 5 * time.Second
)

// life is what tells one process from the next on the same page.
type life struct {
	start      string
	cpu        float64
	generation int
}

// epochs reads the stores' pages and remembers in which life each store is.
type epochs struct {
	pages  []string
	client *http.Client

	mutex sync.Mutex
	lives map[string]life

	textMutex sync.RWMutex
	text      string
}

func newEpochs(pages []string) *epochs {
	// A connection of its own for each look: one that was kept alive would not notice a restart sooner.
	transport := &http.Transport{DisableKeepAlives: true}
	return &epochs{pages: pages, client: &http.Client{Transport: transport, Timeout: pageTime}, lives: map[string]life{}}
}

// current is the epoch as last seen; empty before the first look.
func (e *epochs) current() string {
	e.textMutex.RLock()
	defer e.textMutex.RUnlock()
	return e.text
}

// refresh looks at every page; it fails when one cannot be read, since then nothing is known.
func (e *epochs) refresh(ctx context.Context) error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	parts := make([]string, 0, len(e.pages))
	for _, page := range e.pages {
		seen, err := e.look(ctx, page)
		if err != nil {
			return err
		}
		known, ok := e.lives[page]
		seen.generation = known.generation
		// Start times are whole seconds; a second life within the same second has used less CPU time.
		if ok && known.start == seen.start && seen.cpu < known.cpu {
			seen.generation++
		} else if known.start != seen.start {
			seen.generation = 0
		}
		e.lives[page] = seen
		parts = append(parts, fmt.Sprintf("%s.%d", seen.start, seen.generation))
	}
	e.textMutex.Lock()
	e.text = strings.Join(parts, "+")
	e.textMutex.Unlock()
	return nil
}

func (e *epochs) look(ctx context.Context, page string) (life, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return life{}, err
	}
	answer, err := e.client.Do(request)
	if err != nil {
		return life{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return life{}, fmt.Errorf("%s answers %s", page, answer.Status)
	}
	return parse(io.LimitReader(answer.Body, pageBytes), page)
}

func parse(body io.Reader, page string) (life, error) {
	found := life{}
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case startLine:
			found.start = strings.TrimSpace(value)
		case cpuLine:
			found.cpu, _ = strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	if err := lines.Err(); err != nil {
		return life{}, err
	}
	if found.start == "" {
		return life{}, fmt.Errorf("%s has no %s", page, startLine)
	}
	return found, nil
}
