package glue

import (
	"strings"

	"github.com/hashicorp/go-hclog"
)

// Flags are what a plugin takes from its command line. A host starts plugins with its own flags, so most of them are not
// meant for plugins, and differ between hosts and their versions.
type Flags struct {
	// LogLevel is --log-level; hclog.Info when it is absent or not understood.
	LogLevel hclog.Level
	// LogFormat is --log-format, how the host writes its own log. A plugin's lines are JSON in any case.
	LogFormat string
	// Features is --features, split at commas: the feature flags of the host, e.g. "EnableCSI".
	Features []string
}

// ParseFlags reads args, usually os.Args[1:]. It never fails and skips what it does not know. "--flag value" and
// "--flag=value" are the same, as are one dash and two. The last one wins, except for --features, of which all count.
func ParseFlags(args []string) Flags {
	flags := Flags{LogLevel: hclog.Info}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !hasValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1] // also looked at on its own next; it is no flag, so that does nothing
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

// parseLevel understands the levels of Velero's --log-level, which are logrus's, and hclog's.
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
