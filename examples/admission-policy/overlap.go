package main

import qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"

// claim is a backup whose namespaces others must not take.
type claim struct {
	backup *qav1.Backup
	state  string // for messages, after "which"
}

// claims are the claims on all namespaces. Only the first for each is stored, so the work for a backup grows with its
// own namespaces, not with the queue.
type claims struct {
	any         *claim // any at all
	all         *claim // on all namespaces
	byNamespace map[string]*claim
}

func (c *claims) add(backup *qav1.Backup, state string) {
	added := &claim{backup, state}
	if c.any == nil {
		c.any, c.byNamespace = added, map[string]*claim{}
	}
	if backup.AllNamespaces && c.all == nil {
		c.all = added
	}
	for _, namespace := range backup.Namespaces {
		if c.byNamespace[namespace] == nil {
			c.byNamespace[namespace] = added
		}
	}
}

// of returns a claim that conflicts with a backup, and the namespace, or nil if there is none. It is conservative: a
// backup of all namespaces conflicts with all others, whatever it excludes.
func (c *claims) of(backup *qav1.Backup) (blocker *claim, namespace string) {
	for _, name := range backup.Namespaces {
		if blocker = c.byNamespace[name]; blocker != nil {
			return blocker, name
		}
	}
	if backup.AllNamespaces {
		return c.any, ""
	}
	return c.all, ""
}
