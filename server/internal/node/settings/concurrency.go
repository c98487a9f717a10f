package settings

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// defaultLimit is how many loads are moved at once on a node without configuration.
const defaultLimit = 1

// NodeLimit returns how many loads are moved at once on a node with these labels: the lowest number of the rules that
// match it, or else globalConfig, or else 1. The text names the source of the limit.
func (c *LoadConcurrency) NodeLimit(of map[string]string) (limit int, why string) {
	for i, rule := range c.PerNodeConfig {
		selector, err := metav1.LabelSelectorAsSelector(&rule.NodeSelector)
		if err != nil || !selector.Matches(labels.Set(of)) { // Parse has reported the error
			continue
		}
		if limit == 0 || rule.Number < limit {
			limit, why = rule.Number, fmt.Sprintf("loadConcurrency.perNodeConfig[%d]", i)
		}
	}
	switch {
	case limit > 0:
		return limit, why
	case c.GlobalConfig > 0:
		return c.GlobalConfig, "loadConcurrency.globalConfig"
	default:
		return defaultLimit, "the default"
	}
}
