// Package reply reads and checks the parts that replies of several kinds have in common: the JSON of an object,
// identifiers, selectors. It reads only as much of an object as its rules need and never decodes it whole. Start
// reading at object.go.
package reply
