package kopia

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// Names of settings, which are Velero's.
const (
	parallelUpload   = "ParallelFilesUpload"
	parallelDownload = "ParallelFilesDownload"
	writeSparse      = "WriteSparseFiles"
	cacheLimit       = "cacheLimitMB"
	fullInterval     = "fullMaintenanceInterval"
)

// settings takes the settings of a call by their names. Those of other names are warnings.
func (s *session) settings(of map[string]string, take map[string]func(value string)) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if known := take[name]; known != nil {
			known(of[name])
		} else {
			s.Warn("the setting %q is not one of %s and has no effect", name, Name)
		}
	}
}

// count returns a function that takes a number of files; 0 is no number, as for Velero.
func (s *session) count(name string, files *int) func(string) {
	return func(value string) {
		number, err := strconv.Atoi(value)
		switch {
		case err != nil || number < 0 || number > maxParallelism:
			s.Warn("the setting %s is %q, want a number up to %d; it has no effect", name, value, maxParallelism)
		case number > 0:
			*files = number
		}
	}
}

// truth returns a function that takes a boolean.
func (s *session) truth(name string, set *bool) func(string) {
	return func(value string) {
		parsed, err := strconv.ParseBool(value)
		if err != nil {
			s.Warn("the setting %s is %q, want true or false; it has no effect", name, value)
			return
		}
		*set = parsed
	}
}

// ofRepository takes the settings of a repository, and returns the interval of full maintenance; 0 for none. They have
// to be right, because nobody would see a warning of maintenance.
func (s *session) ofRepository(settings map[string]string) (interval time.Duration, err error) {
	s.settings(settings, map[string]func(string){
		cacheLimit: func(value string) {
			limit, failed := strconv.Atoi(value)
			if value == "" {
				return
			}
			if failed != nil || limit < 0 || limit > maxCacheMB {
				err = framework.Invalid("the setting %s is %q, want a number of MB", cacheLimit, value)
				return
			}
			s.cacheMB = limit
		},
		fullInterval: func(value string) {
			switch value {
			case "":
			case "normalGC":
				interval = 24 * time.Hour
			case "fastGC":
				interval = 12 * time.Hour
			case "eagerGC":
				interval = 6 * time.Hour
			default:
				err = framework.Invalid("the setting %s is %q, want normalGC, fastGC or eagerGC", fullInterval, value)
			}
		},
	})
	return interval, err
}
