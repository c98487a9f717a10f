package versioning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// Outcome is what negotiation decided about one line of a list.
type Outcome struct {
	// Version is the version of the kind that the line offers; zero when it is not known here.
	Version WireKind
	// Used reports whether the name is used at this version.
	Used bool
	// Choice is the reason why it is used or not, in words.
	Choice string
}

// Negotiate selects, for each name of each kind, the newest version that both sides support: listed are the plugins,
// known the versions of the server. A name is used once; of two equal lines the first one is used. There is an outcome
// for each line.
func Negotiate(known []WireKind, listed []Listed) []Outcome {
	outcomes := make([]Outcome, len(listed))
	newest := map[Listed]int{} // by name and kind without version: the line that is used
	for i, line := range listed {
		version, ok := Lookup(known, line.Kind)
		if !ok {
			outcomes[i].Choice = unknown(known, line.Kind)
			continue
		}
		outcomes[i].Version = version
		name := Listed{Kind: version.Kind, Name: line.Name}
		if best, seen := newest[name]; !seen || version.Number > outcomes[best].Version.Number {
			newest[name] = i
		}
	}
	for i, line := range listed {
		o := &outcomes[i]
		if o.Version.Kind == "" {
			continue
		}
		best := newest[Listed{Kind: o.Version.Kind, Name: line.Name}]
		switch {
		case best == i:
			o.Used, o.Choice = true, "newest version that both know"
		case outcomes[best].Version.Number == o.Version.Number:
			o.Choice = "the same name and version come earlier"
		default:
			o.Choice = fmt.Sprintf("version %d of the same name is used", outcomes[best].Version.Number)
		}
	}
	return outcomes
}

// unknown returns a text with the versions that the server supports instead of wire.
func unknown(known []WireKind, wire string) string {
	kind, number := hostapi.SplitWireKind(wire)
	var numbers []int
	for _, version := range known {
		if version.Kind == kind {
			numbers = append(numbers, version.Number)
		}
	}
	if len(numbers) == 0 {
		return fmt.Sprintf("this server does not know the kind %q", kind)
	}
	slices.Sort(numbers)
	not := "not"
	if number < numbers[0] {
		not = "no longer"
	}
	return fmt.Sprintf("this server knows %s of %s, %s %d", versions(numbers), kind, not, number)
}

func versions(numbers []int) string {
	texts := make([]string, 0, len(numbers))
	for _, number := range numbers {
		texts = append(texts, strconv.Itoa(number))
	}
	last := len(texts) - 1
	if last == 0 {
		return "version " + texts[0]
	}
	return "versions " + strings.Join(texts[:last], ", ") + " and " + texts[last]
}
