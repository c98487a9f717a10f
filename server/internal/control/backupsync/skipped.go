package backupsync

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// reason is why a directory of a bucket has no Backup.
type reason int

const (
	foreignName reason = iota + 1
	noMetadata
	unreadable
	invalid
	inProgress
	refused
)

func (r reason) String() string {
	return map[reason]string{
		foreignName: "its name cannot be the name of a backup",
		noMetadata:  "it has no velero-backup.json, so the backup is not complete",
		unreadable:  "its velero-backup.json cannot be read",
		invalid:     "its velero-backup.json is not that of the backup",
		inProgress:  "the cluster that makes the backup has not finished it",
		refused:     "the API server refuses the Backup",
	}[r]
}

// maxRest is the longest time between two checks of a skipped directory.
const maxRest = 15 * time.Minute

// skipped holds the directories of one bucket that have no Backup. A directory that does not change is checked less
// and less often, so that many of them cost no more than the listing. It is safe for concurrent use during a pass.
type skipped struct {
	mu       sync.Mutex
	all      map[string]skip
	reported map[string]reason
}

// skip is one such directory.
type skip struct {
	why   reason
	err   error     // details, or nil
	since time.Time // the time of the first check
	next  time.Time // the time of the next check
}

// begin removes the directories that are no longer in the bucket, and adds the foreign ones.
func (s *skipped) begin(names, foreign []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]skip{}
	}
	maps.DeleteFunc(s.all, func(name string, _ skip) bool {
		_, found := slices.BinarySearch(names, name)
		return !found
	})
	for _, name := range foreign {
		s.all[name] = skip{why: foreignName}
	}
}

// isDue reports whether a directory is to be checked.
func (s *skipped) isDue(name string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.all[name].next.After(now)
}

// add skips a directory. The next check follows after half of the time since the first one.
func (s *skipped) add(name string, why reason, err error, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := now
	if before, ok := s.all[name]; ok && before.why == why {
		since = before.since
	}
	s.all[name] = skip{why: why, err: err, since: since, next: now.Add(min(now.Sub(since)/2, maxRest))}
}

// drop removes a directory that has a Backup now.
func (s *skipped) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// report writes one line if the directories or their reasons have changed since the last report.
func (s *skipped) report(log hclog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[string]reason, len(s.all))
	groups := map[reason][]string{}
	for name, one := range s.all {
		now[name] = one.why
		groups[one.why] = append(groups[one.why], name)
	}
	if maps.Equal(now, s.reported) {
		return
	}
	s.reported = now
	if len(now) == 0 {
		log.Info("all directories of the bucket have a Backup")
		return
	}
	var texts []string
	for _, why := range slices.Sorted(maps.Keys(groups)) {
		texts = append(texts, s.describe(why, groups[why]))
	}
	log.Warn("skipped directories of the bucket", "number", len(now), "reasons", strings.Join(texts, "; "))
}

// describe names the first few directories with the same reason, and one of their errors.
func (s *skipped) describe(why reason, names []string) string {
	const most = 5
	slices.Sort(names)
	text := fmt.Sprintf("%d because %s (%s", len(names), why, strings.Join(names[:min(most, len(names))], ", "))
	if len(names) > most {
		text += " and others"
	}
	if err := s.all[names[0]].err; err != nil {
		text += fmt.Sprintf("; %s: %v", names[0], err)
	}
	return text + ")"
}
