// Package reply reads and checks what the replies of several kinds have in common: the JSON of an object,
// identifiers, selectors. It looks at as much of an object as its rules need and never decodes it whole. Start
// reading at object.go.
package reply
