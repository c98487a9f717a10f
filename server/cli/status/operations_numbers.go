package status

import (
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// none replaces an unknown number.
const none = "-"

func isBytes(units string) bool {
	switch strings.ToLower(strings.TrimSpace(units)) {
	case "b", "byte", "bytes":
		return true
	default:
		return false
	}
}

// amount returns how far something is, as it is reported. A total of 0 is not known.
func amount(done, total int64, units string) string {
	number, behind := func(n int64) string { return fmt.Sprint(n) }, ""
	if isBytes(units) {
		number = layout.Bytes
	} else if units = note(units); units != "" {
		behind = " " + units
	}
	switch {
	case done == 0 && total == 0:
		return none
	case total == 0:
		return number(done) + behind
	default:
		return number(done) + " of " + number(total) + behind
	}
}

// percentage returns done in hundredths of total, rounded down. It may be more than 100, or negative, as the numbers
// are.
func percentage(done, total int64) string {
	if total <= 0 {
		return none
	}
	switch percent := math.Floor(float64(done) * 100 / float64(total)); {
	case percent > 999:
		return ">999%"
	case percent < -999:
		return "<-999%"
	default:
		return fmt.Sprintf("%.0f%%", percent)
	}
}

// age returns the time since t. It is "<invalid>" for a time in the future, as in kubectl.
func age(t, now time.Time) string {
	if t.IsZero() {
		return none
	}
	return duration.HumanDuration(now.Sub(t))
}

// pace is how much is done in a second.
type pace struct {
	perSecond float64
	known     bool
}

func (p pace) text(units string) string {
	switch {
	case !p.known:
		return none
	case isBytes(units):
		return layout.Bytes(int64(max(math.MinInt64, min(p.perSecond, 1<<62)))) + "/s"
	case math.Abs(p.perSecond) < 1000:
		return fmt.Sprintf("%.3g/s", p.perSecond)
	default:
		return fmt.Sprintf("%.0f/s", p.perSecond)
	}
}

// left returns the time until all is done at this pace.
func (p pace) left(done, total int64) string {
	if !p.known || p.perSecond <= 0 || done >= total {
		return none
	}
	seconds := (float64(total) - float64(done)) / p.perSecond
	if seconds >= longest.Seconds() {
		return ">10y"
	}
	return duration.HumanDuration(time.Duration(seconds * float64(time.Second)))
}

// longest is the longest time left that is shown.
const longest = 10 * 365 * 24 * time.Hour

// between returns the pace at which done has changed in a time. It is not known in less than a second.
func between(before, after int64, d time.Duration) pace {
	if d < time.Second {
		return pace{}
	}
	return pace{(float64(after) - float64(before)) / d.Seconds(), true}
}

func (p pace) plus(other pace) pace {
	return pace{p.perSecond + other.perSecond, p.known || other.known}
}

// paces computes paces from two reports or, without an earlier one, from the numbers of the plugins.
type paces struct {
	passed     time.Duration // between the reports
	operations map[operationKey]*serverreport.Operation
	owners     map[string]*serverreport.OperationsOf
}

// operationKey identifies an operation in reports. Plugins may use an id for several.
type operationKey struct{ owner, plugin, id, resource, namespace, name string }

func keyOfOwner(owner *serverreport.OperationsOf) string {
	return serverreport.OwnerKey(owner.Kind, owner.Name) + "/" + string(owner.UID)
}

func keyOf(owner *serverreport.OperationsOf, o *serverreport.Operation) operationKey {
	return operationKey{keyOfOwner(owner), o.Plugin, o.ID, o.Resource, o.Namespace, o.Name}
}

func newPaces(report, before *serverreport.Operations) *paces {
	p := &paces{}
	if before == nil {
		return p
	}
	p.passed, p.operations, p.owners = report.Time.Sub(before.Time), operationsByKey(before),
		map[string]*serverreport.OperationsOf{}
	for i := range before.Owners {
		p.owners[keyOfOwner(&before.Owners[i])] = &before.Owners[i]
	}
	return p
}

func operationsByKey(report *serverreport.Operations) map[operationKey]*serverreport.Operation {
	all := map[operationKey]*serverreport.Operation{}
	for i := range report.Owners {
		owner := &report.Owners[i]
		for j := range owner.Operations {
			all[keyOf(owner, &owner.Operations[j])] = &owner.Operations[j]
		}
	}
	return all
}

// of returns the pace of an operation: the present pace if it runs and there is an earlier report, or else the pace
// since its beginning.
func (p *paces) of(owner *serverreport.OperationsOf, o *serverreport.Operation) pace {
	if o.Done == 0 && o.Total == 0 {
		return pace{}
	}
	if before := p.operations[keyOf(owner, o)]; before != nil && !o.Ended() {
		if now := between(before.Done, o.Done, p.passed); now.known {
			return now
		}
	}
	if o.Started.IsZero() || o.Done == 0 {
		return pace{}
	}
	return between(0, o.Done, o.Updated.Sub(o.Started))
}

// ofOwner returns the paces of the open operations of an owner, by units.
func (p *paces) ofOwner(owner *serverreport.OperationsOf) map[string]pace {
	all := map[string]pace{}
	if before := p.owners[keyOfOwner(owner)]; before != nil && p.passed >= time.Second {
		for _, a := range before.Amounts {
			all[a.Units] = pace{-float64(a.Done) / p.passed.Seconds(), true}
		}
		for _, a := range owner.Amounts {
			all[a.Units] = all[a.Units].plus(pace{float64(a.Done) / p.passed.Seconds(), true})
		}
		return all
	}
	if owner.Omitted > 0 {
		return all
	}
	for i := range owner.Operations {
		if o := &owner.Operations[i]; !o.Ended() {
			all[o.Units] = all[o.Units].plus(p.of(owner, o))
		}
	}
	return all
}

// ofAll returns the sums of the paces of all owners, by units.
func (p *paces) ofAll(report *serverreport.Operations) map[string]pace {
	all := map[string]pace{}
	if report.Omitted > 0 {
		return all
	}
	for i := range report.Owners {
		for units, rate := range p.ofOwner(&report.Owners[i]) {
			all[units] = all[units].plus(rate)
		}
	}
	return all
}
