package library

import (
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/sirupsen/logrus"
)

// newLogger returns a logger that writes lines for go-plugin's host.
func newLogger(level logrus.Level) *logrus.Logger {
	log := logrus.New()
	log.Out = os.Stderr
	log.Level = level
	log.Formatter = &logrus.JSONFormatter{
		FieldMap:         logrus.FieldMap{logrus.FieldKeyMsg: "@message"},
		DisableTimestamp: true, // the host adds the time
	}
	log.AddHook(levelHook{})
	return log
}

// levelHook adds the level, as the host names it, and the source line.
type levelHook struct{}

func (levelHook) Levels() []logrus.Level { return logrus.AllLevels }

func (levelHook) Fire(entry *logrus.Entry) error {
	level := entry.Level.String()
	if level == "warning" {
		level = "warn"
	}
	entry.Data["@level"] = level
	entry.Data["@logSourceSetBy"] = "plugin"
	for skip := 2; skip < 20; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		if ok && !strings.Contains(file, "sirupsen/logrus") && !strings.HasSuffix(file, "library/log.go") {
			entry.Data["logSource"] = fmt.Sprintf("%s/%s:%d", path.Base(path.Dir(file)), path.Base(file), line)
			break
		}
	}
	return nil
}
