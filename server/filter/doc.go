// Package filter decides by name, type and label what belongs to a backup, to a restore, or to an action
// of a plugin.
//
// Names is the basis: lists of includes and excludes with globs. Namespaces adds what is special about
// namespaces, Resources the two families of resource filters, Action what a plugin asked for.
//
// Nothing here talks to a cluster: what there is in it comes as a discovery snapshot and as lists of names.
package filter
