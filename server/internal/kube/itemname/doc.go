// Package itemname understands how people name items: by plural, singular, kind or short name of the resource, with or
// without its group, and without a cluster. Start at name.go. It may import discovery and client-go's list of kinds.
package itemname
