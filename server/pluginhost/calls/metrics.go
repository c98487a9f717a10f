package calls

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the host tells Prometheus. Methods of a nil *metrics do nothing.
type metrics struct {
	registerer   prometheus.Registerer
	collectors   []prometheus.Collector
	calls        *prometheus.HistogramVec
	failures     *prometheus.CounterVec
	restarts     *prometheus.CounterVec
	outOfService *prometheus.CounterVec
	droppedLines *prometheus.CounterVec
}

// Why a process failed, as metrics tell it.
const (
	FailureStart = "start" // it could not be started, or its Init failed badly
	FailureDied  = "died"  // it ended when it should not have
	FailureHung  = "hung"  // it did not answer in time
)

// newMetrics returns metrics that add registers; nil without a registerer.
func NewMetrics(registerer prometheus.Registerer) *metrics {
	if registerer == nil {
		return nil
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cleat", Subsystem: "plugin", Name: name, Help: help}, labels)
	}
	m := &metrics{
		registerer: registerer,
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "cleat", Subsystem: "plugin", Name: "call_duration_seconds",
			Help: "Time that a plugin took for a call; that of a stream is from its beginning to its end.",
			// from half a millisecond, in steps of four, to half an hour
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 12),
		}, []string{"plugin", "kind", "call", "outcome"}),
		failures:     counter("failures_total", "Failures of plugin processes: that could not be started, died, or hung.", "command", "reason"),
		restarts:     counter("restarts_total", "Plugin processes that were started in the place of one that had failed.", "command"),
		outOfService: counter("out_of_service_total", "How often a plugin binary was left alone for a while, after too many failures in a row.", "command"),
		droppedLines: counter("log_lines_dropped_total", "Lines that plugin processes wrote and that are not in the logs: too many in a second (rate), "+
			"or only their beginning is, because they are too long (length).", "command", "reason"),
	}
	return m
}

// register registers the metrics together with others.
func (m *metrics) Register(others ...prometheus.Collector) error {
	if m == nil {
		return nil
	}
	for _, collector := range append([]prometheus.Collector{m.calls, m.failures, m.restarts, m.outOfService, m.droppedLines}, others...) {
		if err := m.registerer.Register(collector); err != nil {
			m.Unregister()
			return fmt.Errorf("register the metrics of plugins: %w", err)
		}
		m.collectors = append(m.collectors, collector)
	}
	return nil
}

// unregister makes room for the metrics of another host.
func (m *metrics) Unregister() {
	if m == nil {
		return
	}
	for _, collector := range m.collectors {
		m.registerer.Unregister(collector)
	}
}

// called tells of a call that has ended.
func (m *metrics) called(plugin string, c Call, outcome string, took time.Duration) {
	if m != nil {
		m.calls.WithLabelValues(plugin, c.Kind, c.Name, outcome).Observe(took.Seconds())
	}
}

// failed tells of a process that failed, and whether its binary is left alone for a while because of that.
func (m *metrics) Failed(command, reason string, leftAlone bool) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(command, reason).Inc()
	if leftAlone {
		m.outOfService.WithLabelValues(command).Inc()
	}
}

func (m *metrics) Restarted(command string) {
	if m != nil {
		m.restarts.WithLabelValues(command).Inc()
	}
}

// dropped tells of a line that did not get into the logs, or not whole.
func (m *metrics) Dropped(command, reason string) {
	if m != nil {
		m.droppedLines.WithLabelValues(command, reason).Inc()
	}
}
