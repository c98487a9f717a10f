package glue

import (
	"strconv"
	"strings"
)

// WireKind returns the name of a version of a kind as one word, as in a plugin's list: the kind alone for version 1,
// and the kind, "V" and the number for others, "BackupItemActionV2" (Velero's wire).
func WireKind(kind string, version int) string {
	if version == 1 {
		return kind
	}
	return kind + "V" + strconv.Itoa(version)
}

// SplitWireKind returns the kind and version that a name on the wire stands for. It does not check that the kind
// exists: every name has a kind and a version.
func SplitWireKind(wire string) (kind string, version int) {
	at := strings.LastIndexByte(wire, 'V')
	if at <= 0 {
		return wire, 1
	}
	version, err := strconv.Atoi(wire[at+1:])
	if err != nil || version < 2 || WireKind(wire[:at], version) != wire {
		return wire, 1
	}
	return wire[:at], version
}
