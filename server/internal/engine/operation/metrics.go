package operation

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcomes of operations, as values of a label.
const (
	outcomeCompleted = "completed"
	outcomeFailed    = "failed"    // the plugin reported an error
	outcomeUnknown   = "unknown"   // the plugin does not find it any more
	outcomeTimedOut  = "timed-out" // took too long, and was cancelled
	outcomeStalled   = "stalled"   // made no progress for too long, and was cancelled
	outcomeCancelled = "cancelled" // by a user or a deletion
)

// metrics count operations. Open operations are counted when the metrics are collected.
type metrics struct {
	monitor *Monitor
	open    *prometheus.Desc
	oldest  *prometheus.Desc
	ends    *prometheus.HistogramVec
	polls   *prometheus.HistogramVec
}

// newMetrics registers the metrics; nil registers them nowhere.
func newMetrics(registerer prometheus.Registerer, m *Monitor) (*metrics, error) {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "cleat", Subsystem: "operation", Name: name, Help: help, Buckets: buckets,
		}, append([]string{"plugin"}, labels...))
	}
	all := &metrics{
		monitor: m,
		open: prometheus.NewDesc("cleat_operation_open", "Asynchronous operations that have not ended.",
			[]string{"plugin"}, nil),
		oldest: prometheus.NewDesc("cleat_operation_oldest_age_seconds",
			"Age of the oldest asynchronous operation that has not ended.",
			[]string{"plugin"}, nil),
		// from a second, in steps of four, to three days
		ends: histogram("duration_seconds", "Time from the creation of an asynchronous operation to its end, by outcome.",
			prometheus.ExponentialBuckets(1, 4, 10), "outcome"),
		// from half a millisecond, in steps of four, to half a minute
		polls: histogram("poll_duration_seconds", "Time of one question for the progress of an asynchronous operation.",
			prometheus.ExponentialBuckets(0.0005, 4, 9)),
	}
	if registerer == nil {
		return all, nil
	}
	if err := registerer.Register(all); err != nil {
		return nil, fmt.Errorf("register the metrics of operations: %w", err)
	}
	return all, nil
}

func (m *metrics) ended(action, outcome string, age time.Duration) {
	m.ends.WithLabelValues(action, outcome).Observe(age.Seconds())
}

func (m *metrics) polled(action string, took time.Duration) {
	m.polls.WithLabelValues(action).Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- m.open
	descs <- m.oldest
	m.ends.Describe(descs)
	m.polls.Describe(descs)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(all chan<- prometheus.Metric) {
	for action, o := range m.monitor.openByAction(time.Now()) {
		all <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(o.count), action)
		all <- prometheus.MustNewConstMetric(m.oldest, prometheus.GaugeValue, o.oldest.Seconds(), action)
	}
	m.ends.Collect(all)
	m.polls.Collect(all)
}

// openOf is the number of open operations of an action.
type openOf struct {
	count  int
	oldest time.Duration
}

func (m *Monitor) openByAction(now time.Time) map[string]openOf {
	m.mu.Lock()
	defer m.mu.Unlock()
	byAction := map[string]openOf{}
	for _, g := range m.groups {
		for _, t := range g.all {
			if !t.Phase.Ended() {
				o := byAction[t.Action]
				byAction[t.Action] = openOf{o.count + 1, max(o.oldest, now.Sub(t.created))}
			}
		}
	}
	return byAction
}
