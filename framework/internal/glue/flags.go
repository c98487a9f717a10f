package glue

import (
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Flags are the command line flags that a plugin understands. A host starts plugins with its own flags, so most of them
// do not concern plugins and differ between hosts and their versions.
type Flags struct {
	// LogLevel is --log-level; hclog.Info if it is absent or invalid.
	LogLevel hclog.Level
	// LogFormat is --log-format, the format of the host's own log. A plugin's lines are JSON in any case.
	LogFormat string
	// Features is --features, split at commas: the feature flags of the host, e.g. "EnableCSI".
	Features []string
}

// ParseFlags parses args, usually os.Args[1:]. It never fails and ignores unknown flags. "--flag value" and
// "--flag=value" are equivalent, and so are one dash and two. The last value counts, except for --features, whose
// values are all used.
func ParseFlags(args []string) Flags {
	flags := Flags{LogLevel: hclog.Info}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1] // also visited next, where it is ignored because it is not a flag
		}
		switch name {
		case "log-level":
			flags.LogLevel = parseLevel(value)
		case "log-format":
			flags.LogFormat = value
		case "features":
			for feature := range strings.SplitSeq(value, ",") {
				if feature = strings.TrimSpace(feature); feature != "" {
					flags.Features = append(flags.Features, feature)
				}
			}
		}
	}
	return flags
}

// parseLevel parses the levels of Velero's --log-level, which are those of logrus, and those of hclog.
func parseLevel(text string) hclog.Level {
	switch text = strings.ToLower(text); text {
	case "panic", "fatal":
		return hclog.Error
	case "warning":
		return hclog.Warn
	}
	if level := hclog.LevelFromString(text); level != hclog.NoLevel {
		return level
	}
	return hclog.Info
}
