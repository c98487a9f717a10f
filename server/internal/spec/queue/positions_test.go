package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// row is a queue whose positions are written as a plan requires.
type row struct {
	t       *testing.T
	exact   Exact
	order   []waiting
	created int
	writes  int
}

func (r *row) newBackup() waiting {
	r.created++
	return waiting{backup: &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("b%06d", r.created), CreationTimestamp: metav1.NewTime(time.Unix(int64(r.created/5), 0)),
	}}}
}

func (r *row) write() {
	for i, position := range r.exact.positions(r.order) {
		status := &r.order[i].backup.Status
		if status.Phase != velerov1.BackupPhaseQueued || status.QueuePosition != position {
			status.Phase, status.QueuePosition = velerov1.BackupPhaseQueued, position
			r.writes++
		}
	}
}

// check requires that the positions have the order of the queue and are as exact as promised.
func (r *row) check() {
	r.t.Helper()
	var backups []*velerov1.Backup
	for i := range r.order {
		backups = append(backups, r.order[i].backup)
		says, is := r.order[i].backup.Status.QueuePosition, i+1
		if len(r.order) <= r.exact.All || i < r.exact.Front {
			require.Equal(r.t, is, says)
		} else if says >= maxFactor*is || is >= maxFactor*says {
			require.Equal(r.t, is, says)
		}
	}
	require.True(r.t, slices.Equal(backups, NewLine(slices.Clone(backups)).Queued))
}

// Whatever happens to a queue, its positions have its order and are as exact as promised.
func TestPositionsHaveTheOrderOfTheQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, seed))
		r := &row{t: t, exact: Exact{All: random.IntN(30), Front: random.IntN(6)}}
		for range 150 {
			n := len(r.order)
			switch dice := random.IntN(10); {
			case dice < 4 || n == 0: // some enter at the end
				for range 1 + random.IntN(20) {
					r.order = append(r.order, r.newBackup())
				}
			case dice < 7: // some start or are deleted
				from := random.IntN(n)
				r.order = slices.Delete(r.order, from, min(n, from+1+random.IntN(20)))
			case dice < 8: // one enters elsewhere
				r.order = slices.Insert(r.order, random.IntN(n), r.newBackup())
			case dice < 9: // the policy moves one
				from := random.IntN(n)
				moved := r.order[from]
				r.order = slices.Insert(slices.Delete(r.order, from, from+1), random.IntN(n), moved)
			default: // by hand
				r.order[random.IntN(n)].backup.Status.QueuePosition = []int{-1, 0, 1, 5, 1 << 40}[random.IntN(5)]
			}
			r.write()
			r.check()
			before := r.writes
			r.write()
			require.Equal(t, before, r.writes, "a second plan changes nothing")
		}
	}
}

// Four thousand backups that start one after the other, each when it has been quiet for a while, need about ten writes
// each.
func TestLongQueueNeedsFewWrites(t *testing.T) {
	t.Parallel()
	const backups = 4000
	r := &row{t: t, exact: DefaultExact()}
	for range backups {
		r.order = append(r.order, r.newBackup())
	}
	r.write()
	most := 0
	for len(r.order) > 0 {
		before := r.writes
		r.order = r.order[1:]
		r.write()
		if len(r.order) > r.exact.All {
			most = max(most, r.writes-before)
		}
	}
	t.Logf("%d writes of positions, at most %d at once", r.writes, most)
	require.Less(t, r.writes+backups, 45_000, "with one for each start")
	require.LessOrEqual(t, most, 16, "behind the front, few positions change at once")
}

// A policy that puts each new backup ahead of the others, behind those of its own kind, does not move all others each
// time.
func TestInsertionNeedsFewWrites(t *testing.T) {
	t.Parallel()
	const insertions = 500
	r := &row{t: t, exact: DefaultExact()}
	for range 1000 {
		r.order = append(r.order, r.newBackup())
	}
	r.write()
	before := r.writes
	for i := range insertions {
		r.order = slices.Insert(r.order, i, r.newBackup())
		r.write()
	}
	r.check()
	t.Logf("%d writes for %d insertions", r.writes-before, insertions)
	require.Less(t, r.writes-before, insertions*10)
}
