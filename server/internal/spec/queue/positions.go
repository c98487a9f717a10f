package queue

import velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"

// Exact is the number of positions that are kept exact. When a backup starts, the positions of all that wait change,
// and each position that is written is a request. So the positions of a queue of up to All backups are exact. In a
// longer queue, the positions of the first Front backups are exact. The others are written when they are wrong by more
// than a factor: a backup far behind has the position 1500 until it is among the first 375. So it is written a few
// times while thousands start ahead of it.
//
// The order is exact in any case: sorted by position, and then by age, the backups are in the order of the queue.
type Exact struct {
	All   int
	Front int
}

// DefaultExact is the setting of the server. With it, 4,000 backups that start one by one need ten writes each.
func DefaultExact() Exact { return Exact{All: 64, Front: 4} }

// maxFactor is the factor by which the position of a backup behind the front may be wrong.
const maxFactor = 4

// front returns how many of n waiting backups have exact positions.
func (e Exact) front(n int) int {
	if n <= e.All {
		return n
	}
	return min(n, e.Front)
}

// positions returns the positions that backups get, which wait in this order. A backup keeps the one that it has if it
// is good enough. Behind the front, neighbours may have the same position if their age gives the order.
func (e Exact) positions(order []waiting) []int {
	front := e.front(len(order))
	positions := make([]int, len(order))
	last := 0 // the position before
	for i := range order {
		b := order[i].backup
		exact, has := i+1, position(b)
		least := last + 1 // that gives the order
		if i > 0 && byAge(order[i-1].backup, b) < 0 {
			least = last
		}
		switch {
		case i < front:
			positions[i] = exact
		case velerov1.PhaseOf(b) != velerov1.BackupPhaseQueued:
			positions[i] = max(exact, last+1)
		case has/maxFactor >= exact, has*maxFactor <= exact:
			positions[i] = max(exact, least)
		case has >= least:
			positions[i] = has
		case least == last:
			positions[i] = last
		default: // others came between; there is room for more of them
			positions[i] = max(least, 2*exact)
		}
		last = positions[i]
	}
	return positions
}
