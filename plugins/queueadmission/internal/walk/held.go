package walk

import (
	"path"
	"slices"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// Rule narrows what counts as an overlap of two backups with a common namespace. With the zero Rule every two overlap.
type Rule struct {
	// Key returns the same value for backups that Shares does not distinguish.
	Key func(*qav1.Backup) string
	// Shares reports whether two backups of one namespace may have an object in common. It is symmetric.
	Shares func(a, b *qav1.Backup) bool

	// Wide reports whether a backup takes cluster-scoped objects. SharesWide reports whether two backups without a
	// common namespace, at least one of which is wide, may have such an object in common. It is symmetric. If Wide is
	// nil, no backup is wide.
	Wide       func(*qav1.Backup) bool
	SharesWide func(a, b *qav1.Backup) bool

	// Restores is set if backups wait for restores with which they overlap.
	Restores bool
}

func (r Rule) key(backup *qav1.Backup) string {
	if r.Key == nil {
		return ""
	}
	return r.Key(backup)
}

func (r Rule) shares(a, b *qav1.Backup) bool { return r.Shares == nil || r.Shares(a, b) }

func (r Rule) wide(backup *qav1.Backup) bool { return r.Wide != nil && r.Wide(backup) }

// holder is a backup that later backups must not overlap.
type holder struct {
	backup   *qav1.Backup
	place    int      // its position in the walk
	state    string   // a clause that follows "which"
	excluded []string // patterns; set only for a backup of all namespaces
}

func newHolder(backup *qav1.Backup, place int, state string) *holder {
	h := &holder{backup: backup, place: place, state: state}
	if backup.AllNamespaces {
		// A spec that cannot be decoded excludes nothing, which is the safe choice.
		if spec, err := backup.DecodeSpec(); err == nil {
			h.excluded = spec.ExcludedNamespaces
		}
	}
	return h
}

// excludes reports whether a backup of all namespaces excludes namespace.
func (h *holder) excludes(namespace string) bool {
	return slices.ContainsFunc(h.excluded, func(pattern string) bool {
		matched, err := path.Match(pattern, namespace)
		return matched || err != nil && pattern == namespace
	})
}

// group is the last holder with one key, which represents all of them.
type group struct {
	key  string
	last *holder
}

// groups lists groups in the order in which they were added.
type groups struct {
	list []*group
	at   map[string]*group
}

func (g *groups) add(key string, added *holder) {
	known := g.at[key]
	if known == nil {
		if g.at == nil {
			g.at = map[string]*group{}
		}
		known = &group{key: key}
		g.at[key] = known
		g.list = append(g.list, known)
	}
	known.last = added
}

// held is all that the backups visited so far take.
type held struct {
	rule  Rule
	count int

	namespaces []string           // the namespaces that a backup names, in the order of their addition
	by         map[string]*groups // for each of them
	all        groups             // backups of all namespaces
	bare       groups             // backups of no namespace, which take only cluster-scoped objects
	wide       groups             // backups that take cluster-scoped objects
	everyone   groups
}

func newHeld(rule Rule) *held { return &held{rule: rule, by: map[string]*groups{}} }

// add records the namespaces of a backup.
func (h *held) add(backup *qav1.Backup, state string) {
	added, key := newHolder(backup, h.count, state), h.rule.key(backup)
	h.count++
	h.everyone.add(key, added)
	if h.rule.wide(backup) {
		h.wide.add(key, added)
	}
	switch {
	case backup.AllNamespaces:
		// They are separate because each excludes other namespaces. There may be thousands of equal ones.
		h.all.add(key+"\x00"+string(joined(added.excluded)), added)
		return
	case len(backup.Namespaces) == 0:
		h.bare.add(key, added)
		return
	}
	for _, namespace := range backup.Namespaces {
		takers := h.by[namespace]
		if takers == nil {
			takers = &groups{}
			h.by[namespace] = takers
			h.namespaces = append(h.namespaces, namespace)
		}
		takers.add(key, added)
	}
}

func joined(patterns []string) []byte {
	var all []byte
	for _, pattern := range patterns {
		all = append(append(all, pattern...), 0)
	}
	return all
}

// nearest returns the last of the backups visited so far that backup overlaps, or nil.
func (h *held) nearest(backup *qav1.Backup) *holder {
	var found search
	if backup.AllNamespaces {
		h.ofAll(backup, &found)
	} else {
		h.ofNamed(backup, &found)
	}
	if h.rule.wide(backup) {
		found.among(backup, &h.everyone, h.rule.SharesWide)
	} else {
		found.among(backup, &h.wide, h.rule.SharesWide)
	}
	return found.last
}

// ofNamed searches for the overlap of a backup of certain namespaces, or of none.
func (h *held) ofNamed(backup *qav1.Backup, found *search) {
	for _, namespace := range backup.Namespaces {
		if takers := h.by[namespace]; takers != nil {
			found.among(backup, takers, h.rule.shares)
		}
	}
	for _, same := range h.all.list {
		leavesOut := func(namespace string) bool { return same.last.excludes(namespace) }
		if len(backup.Namespaces) == 0 || !every(backup.Namespaces, leavesOut) {
			found.consider(backup, same, h.rule.shares)
		}
	}
}

// ofAll searches for the overlap of a backup of all namespaces: all backups except those whose namespaces it excludes.
func (h *held) ofAll(backup *qav1.Backup, found *search) {
	self := newHolder(backup, 0, "")
	if len(self.excluded) == 0 {
		found.among(backup, &h.everyone, h.rule.shares)
		return
	}
	found.among(backup, &h.all, h.rule.shares)
	found.among(backup, &h.bare, h.rule.shares)
	for _, namespace := range h.namespaces {
		if !self.excludes(namespace) {
			found.among(backup, h.by[namespace], h.rule.shares)
		}
	}
}

// search looks for the last backup that overlaps another.
type search struct{ last *holder }

// among considers the takers.
func (s *search) among(backup *qav1.Backup, takers *groups, shares func(a, b *qav1.Backup) bool) {
	for _, same := range takers.list {
		s.consider(backup, same, shares)
	}
}

// consider takes the last of a group if it comes after the one found so far and shares objects with backup.
func (s *search) consider(backup *qav1.Backup, same *group, shares func(a, b *qav1.Backup) bool) {
	if (s.last == nil || same.last.place > s.last.place) && shares(backup, same.last.backup) {
		s.last = same.last
	}
}

func every(names []string, is func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !is(name) })
}
