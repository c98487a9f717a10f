package backupqueue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Metrics are the metrics of the queue. Methods of a nil *Metrics do nothing.
type Metrics struct {
	depth     prometheus.Gauge
	running   prometheus.Gauge
	refused   prometheus.Gauge
	blocked   *prometheus.GaugeVec // label reason
	waited    prometheus.Histogram
	decisions prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "cleat", Subsystem: "queue", Name: name, Help: help}
	}
	m := &Metrics{
		depth:   prometheus.NewGauge(prometheus.GaugeOpts(opts("depth", "Backups that wait for their turn."))),
		running: prometheus.NewGauge(prometheus.GaugeOpts(opts("running", "Backups that run, or are about to."))),
		refused: prometheus.NewGauge(prometheus.GaugeOpts(opts("unwritable", "Backups that are passed over, because the "+
			"API server refuses to write them."))),
		blocked: prometheus.NewGaugeVec(prometheus.GaugeOpts(opts("waiting", "Backups that wait for their turn, by reason.")),
			[]string{"reason"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "cleat", Subsystem: "queue", Name: "wait_seconds",
			Help:    "Time from the creation of a backup to its admission.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400},
		}),
		decisions: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "cleat", Subsystem: "queue", Name: "decision_seconds", Help: "Time of one decision about the queue.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}),
	}
	for _, c := range []prometheus.Collector{m.depth, m.running, m.refused, m.blocked, m.waited, m.decisions} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// maxReasons is the number of reasons with a time series of their own: a policy may use any number of reasons.
const maxReasons = 20

// otherReasons is the label of all other reasons, which have the fewest backups.
const otherReasons = "Other"

// line sets the metrics to the current queue. refused is the number of backups that are passed over.
func (m *Metrics) line(line queue.Line, refused int) {
	if m == nil {
		return
	}
	m.refused.Set(float64(refused))
	m.depth.Set(float64(len(line.Queued)))
	m.running.Set(float64(len(line.Ready) + len(line.Running)))
	if len(line.Queued) == 0 {
		m.blocked.Reset()
	}
}

// planned sets the metrics to the queue after a plan was carried out.
func (m *Metrics) planned(line queue.Line, plan queue.Plan) {
	if m == nil {
		return
	}
	m.depth.Set(float64(len(line.Queued) - len(plan.Admit)))
	m.running.Set(float64(len(line.Ready) + len(line.Running) + len(plan.Admit)))
	m.blocked.Reset()
	reasons := slices.SortedFunc(maps.Keys(plan.Reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(plan.Reasons[b], plan.Reasons[a]), cmp.Compare(a, b))
	})
	for i, reason := range reasons {
		label := reason
		if i >= maxReasons {
			label = otherReasons
		}
		m.blocked.WithLabelValues(label).Add(float64(plan.Reasons[reason]))
	}
}

func (m *Metrics) decided(took time.Duration) {
	if m != nil {
		m.decisions.Observe(took.Seconds())
	}
}

func (m *Metrics) admitted(waited time.Duration) {
	if m != nil {
		m.waited.Observe(waited.Seconds())
	}
}
