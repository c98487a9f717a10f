package walk

import (
	"cmp"
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

// group is the first few holders with one key; they stand for all of them.
type group struct {
	key     string
	holders []*holder
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
	if len(known.holders) < maxBlockers {
		known.holders = append(known.holders, added)
	}
}

// held is all that the backups visited so far take.
type held struct {
	rule  Rule
	count int

	namespaces []string           // those that a backup names, in the order of their addition
	by         map[string]*groups // for each of them
	all        groups             // backups of all namespaces
	bare       groups             // backups of no namespace, which take only cluster-scoped objects
	wide       groups             // backups that take cluster-scoped objects
	everyone   groups
}

func newHeld(rule Rule) *held { return &held{rule: rule, by: map[string]*groups{}} }

// add records what a backup takes.
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

// overlap returns what backup has in common with the backups visited so far, or nil.
func (h *held) overlap(backup *qav1.Backup) *overlap {
	found := &overlap{}
	if backup.AllNamespaces {
		h.ofAll(backup, found)
	} else {
		h.ofNamed(backup, found)
	}
	if h.rule.wide(backup) {
		h.take(backup, &h.everyone, h.rule.SharesWide, "", found)
	} else {
		h.take(backup, &h.wide, h.rule.SharesWide, "", found)
	}
	if len(found.blockers) == 0 {
		return nil
	}
	slices.SortFunc(found.blockers, func(a, b *holder) int { return cmp.Compare(a.place, b.place) })
	slices.Sort(found.namespaces)
	return found
}

// ofNamed adds the overlap of a backup of certain namespaces, or of none.
func (h *held) ofNamed(backup *qav1.Backup, found *overlap) {
	for _, namespace := range backup.Namespaces {
		if takers := h.by[namespace]; takers != nil {
			h.take(backup, takers, h.rule.shares, namespace, found)
		}
	}
	for _, same := range h.all.list {
		first := same.holders[0]
		if !h.rule.shares(backup, first.backup) {
			continue
		}
		if len(backup.Namespaces) == 0 {
			found.add(same.holders, "")
			continue
		}
		for _, namespace := range backup.Namespaces {
			if !first.excludes(namespace) {
				found.add(same.holders, namespace)
			}
		}
	}
}

// ofAll adds the overlap of a backup of all namespaces: all backups except those whose namespaces it excludes.
func (h *held) ofAll(backup *qav1.Backup, found *overlap) {
	self := newHolder(backup, 0, "")
	if len(self.excluded) == 0 {
		h.take(backup, &h.everyone, h.rule.shares, "", found)
		return
	}
	h.take(backup, &h.all, h.rule.shares, "", found)
	h.take(backup, &h.bare, h.rule.shares, "", found)
	for _, namespace := range h.namespaces {
		if !self.excludes(namespace) {
			h.take(backup, h.by[namespace], h.rule.shares, namespace, found)
		}
	}
}

// take adds the takers that share objects with backup.
func (h *held) take(backup *qav1.Backup, takers *groups, shares func(a, b *qav1.Backup) bool, namespace string, found *overlap) {
	for _, same := range takers.list {
		if found.complete() {
			return
		}
		if shares(backup, same.holders[0].backup) {
			found.add(same.holders, namespace)
		}
	}
}

func (o *overlap) complete() bool {
	return len(o.blockers) >= maxBlockers && len(o.namespaces) >= maxNamespaces
}

// add adds blockers, and a namespace that they have in common with the backup, up to the maximum numbers.
func (o *overlap) add(blockers []*holder, namespace string) {
	for _, blocker := range blockers {
		if len(o.blockers) < maxBlockers && !slices.Contains(o.blockers, blocker) {
			o.blockers = append(o.blockers, blocker)
		}
	}
	if namespace != "" && len(o.namespaces) < maxNamespaces && !slices.Contains(o.namespaces, namespace) {
		o.namespaces = append(o.namespaces, namespace)
	}
}
