// Package filter selects objects by name, type and label: for a backup, for a restore, or for an action of a plugin.
//
// Names is the basis: lists of included and excluded names with globs. Namespaces adds the rules for namespaces,
// Resources the two families of resource filters, and Action the selector of a plugin's action.
//
// The package does not call the cluster. Callers pass a discovery snapshot and lists of names. It imports the
// framework's selector and server/internal/kube/discovery.
package filter
