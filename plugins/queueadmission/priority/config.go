package priority

import (
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// schema describes the configuration.
const schema = `{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "rules": {
      "description": "The first one that fits a backup gives it its priority.",
      "type": "array",
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["priority"],
        "minProperties": 2,
        "properties": {
          "schedule": {"description": "Name of the Schedule that made the backup.", "type": "string", "minLength": 1},
          "labels": {"description": "Labels that the backup has, all of them.", "type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
          "priority": {"description": "The higher, the earlier.", "type": "integer", "minimum": -1000, "maximum": 1000}
        }
      }
    },
    "age": {
      "description": "How long a backup waits to become more important by 1, as 15m or 1h30m; at least 1s.",
      "type": "string",
      "pattern": "^([0-9]+(\\.[0-9]+)?(s|m|h))+$"
    }
  }
}`

const (
	defaultAge = 15 * time.Minute
	// limit bounds priorities in both directions, so that age always prevails in the end.
	limit = 1000
)

// config is the configuration that users write.
type config struct {
	Rules []rule `json:"rules"`
	Age   string `json:"age"`
}

// rule gives a priority to the backups that it matches.
type rule struct {
	Schedule string            `json:"schedule"`
	Labels   map[string]string `json:"labels"`
	Priority int               `json:"priority"`
}

// fits reports whether the backup belongs to the rule's schedule and has its labels.
func (r rule) fits(backup *qav1.Backup) bool {
	if r.Schedule != "" && backup.Labels[velerov1.ScheduleNameLabel] != velerov1.ValidLabelValue(r.Schedule) {
		return false
	}
	for key, value := range r.Labels {
		if has, ok := backup.Labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// Validate checks the rules that a schema cannot express.
func (c config) Validate() error {
	_, err := c.age()
	return framework.InvalidKey("age", err)
}

// age returns the interval after which the priority of a waiting backup increases.
func (c config) age() (time.Duration, error) {
	if c.Age == "" {
		return defaultAge, nil
	}
	age, err := time.ParseDuration(c.Age)
	if err != nil {
		return 0, err
	}
	if age < time.Second {
		return 0, fmt.Errorf("it is %s, want at least 1s", age)
	}
	return age, nil
}
