package picture

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// part is a line of a layout: the name of a part of the page, its left and upper edge, width and height.
var part = regexp.MustCompile(`^(.*) (-?\d+) (-?\d+) (\d+) (\d+)$`)

// mostFound is the number of differences that are told.
const mostFound = 10

// Moved returns what differs between two layouts, a line for each part that is new, gone, or has moved.
func Moved(want, got string) (found []string) {
	before, after := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	for i := range max(len(before), len(after)) {
		switch {
		case len(found) == mostFound:
			return append(found, "and more")
		case i >= len(before):
			found = append(found, "new: "+after[i])
		case i >= len(after):
			found = append(found, "gone: "+before[i])
		case !near(before[i], after[i]):
			found = append(found, fmt.Sprintf("was: %s\nnow: %s", before[i], after[i]))
		}
	}
	return found
}

// near reports whether two lines are of the same part at about the same place. The farther from the corner of the page,
// the more differences of lines and letters add up.
func near(want, got string) bool {
	a, b := part.FindStringSubmatch(want), part.FindStringSubmatch(got)
	if a == nil || b == nil || a[1] != b[1] {
		return want == got
	}
	for i := 2; i < len(a); i++ {
		was, _ := strconv.Atoi(a[i]) // the pattern has digits alone
		is, _ := strconv.Atoi(b[i])
		if slack := 4 + was/100; is < was-slack || is > was+slack {
			return false
		}
	}
	return true
}
