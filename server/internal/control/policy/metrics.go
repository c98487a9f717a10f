package policy

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// metrics count the failures of policies, and report the policies that fail now.
type metrics struct {
	failures *prometheus.CounterVec
	broken   *prometheus.GaugeVec
}

// newMetrics registers the metrics; nil registers them nowhere.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "cleat", Subsystem: "policy", Name: "failures_total",
			Help: "Calls of policy plugins that failed, by reason.",
		}, []string{"kind", "plugin", "reason"}),
		broken: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "cleat", Subsystem: "policy", Name: "failing",
			Help: "1 when the last call of the policy plugin failed, 0 otherwise.",
		}, []string{"kind", "plugin"}),
	}
	if registry == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.failures, m.broken} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) failed(s serverreport.Policy) {
	m.failures.WithLabelValues(s.Kind, s.Plugin, s.Reason).Inc()
}

func (m *metrics) failing(s serverreport.Policy) {
	value := 0.0
	if !s.Working() {
		value = 1
	}
	m.broken.WithLabelValues(s.Kind, s.Plugin).Set(value)
}
