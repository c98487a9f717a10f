package calls

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// metrics holds the Prometheus metrics of calls and processes. The methods of a nil *metrics do nothing.
type metrics struct {
	registerer   prometheus.Registerer
	collectors   []prometheus.Collector
	calls        *prometheus.HistogramVec
	failures     *prometheus.CounterVec
	restarts     *prometheus.CounterVec
	outOfService *prometheus.CounterVec
	droppedLines *prometheus.CounterVec
}

// Reasons of failures, as a metric labels them.
const (
	FailureStart = "start" // it could not be started, or it died or hung in Init
	FailureDied  = "died"  // it ended when it should not have
	FailureHung  = "hung"  // it did not answer in time
)

// NewMetrics returns metrics that Register registers; nil without a registerer.
func NewMetrics(registerer prometheus.Registerer) *metrics {
	if registerer == nil {
		return nil
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cleat", Subsystem: "plugin", Name: name,
			Help: help}, labels)
	}
	m := &metrics{
		registerer: registerer,
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "cleat", Subsystem: "plugin", Name: "call_duration_seconds",
			Help: "Time that a plugin took for a call; for a stream, from its beginning to its end.",
			// from half a millisecond, in steps of four, to half an hour
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 12),
		}, []string{"plugin", "kind", "call", "outcome"}),
		failures: counter("failures_total", "Failures of plugin processes: those that could not be started, died, or "+
			"hung.", "command", "reason"),
		restarts: counter("restarts_total", "Plugin processes that were started in place of one that had failed.", "command"),
		outOfService: counter("out_of_service_total",
			"How often a plugin binary was not started for a while, after too many failures in a row.", "command"),
		droppedLines: counter("log_lines_dropped_total",
			"Lines of plugin processes that are missing from the logs because there were too many in a second (rate), "+
				"or truncated because they are too long (length).", "command", "reason"),
	}
	return m
}

// Register registers the metrics together with others.
func (m *metrics) Register(others ...prometheus.Collector) error {
	if m == nil {
		return nil
	}
	for _, collector := range append([]prometheus.Collector{m.calls, m.failures, m.restarts, m.outOfService,
		m.droppedLines}, others...) {
		if err := m.registerer.Register(collector); err != nil {
			m.Unregister()
			return fmt.Errorf("register the metrics of plugins: %w", err)
		}
		m.collectors = append(m.collectors, collector)
	}
	return nil
}

// Unregister removes the metrics, so that another host can register its own.
func (m *metrics) Unregister() {
	if m == nil {
		return
	}
	for _, collector := range m.collectors {
		m.registerer.Unregister(collector)
	}
}

func (m *metrics) called(plugin string, c Call, outcome string, took time.Duration) {
	if m != nil {
		m.calls.WithLabelValues(plugin, c.Kind, c.Name, outcome).Observe(took.Seconds())
	}
}

// Made is how many calls of a plugin were made.
type Made struct{ Calls, Errors int64 }

// Plugin is a plugin of a kind, whatever its version.
type Plugin struct{ Name, Kind string }

// Made returns how many calls of each plugin were made since the start. It is empty without metrics. A call that its
// caller has cancelled is no error.
func (m *metrics) Made() map[Plugin]Made {
	if m == nil {
		return nil
	}
	made := map[Plugin]Made{}
	series := make(chan prometheus.Metric)
	go func() {
		defer close(series)
		m.calls.Collect(series)
	}()
	for one := range series {
		var values dto.Metric
		if one.Write(&values) != nil { // a histogram always has values
			continue
		}
		labels := map[string]string{}
		for _, label := range values.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		of, count := Plugin{labels["plugin"], labels["kind"]}, int64(values.GetHistogram().GetSampleCount())
		sum := made[of]
		sum.Calls += count
		if outcome := labels["outcome"]; outcome != outcomeOK && outcome != outcomeCancelled {
			sum.Errors += count
		}
		made[of] = sum
	}
	return made
}

// Failed counts a failure of a process. outOfService is set if its binary is not started for a while because of it.
func (m *metrics) Failed(command, reason string, outOfService bool) {
	if m == nil {
		return
	}
	m.failures.WithLabelValues(command, reason).Inc()
	if outOfService {
		m.outOfService.WithLabelValues(command).Inc()
	}
}

// Restarted counts a process that was started in place of one that had failed.
func (m *metrics) Restarted(command string) {
	if m != nil {
		m.restarts.WithLabelValues(command).Inc()
	}
}

// Dropped counts a log line that is missing from the logs or truncated in them.
func (m *metrics) Dropped(command, reason string) {
	if m != nil {
		m.droppedLines.WithLabelValues(command, reason).Inc()
	}
}
