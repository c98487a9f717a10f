// Package namespaceoverlap is the admission policy cleat.dev/namespace-overlap: first come, first served, but two
// backups that take the same namespace never run at the same time. It is the server's default.
//
// A backup starts if there is a free slot and it has no namespace in common with a backup that runs, is ready, or is
// ahead of it in the queue. Namespaces are compared by name, whether or not they exist, and regardless of the backup's
// resource and label filters. A backup of all namespaces overlaps every backup except those whose namespaces it
// excludes.
//
// It takes no configuration. Start reading at policy.go.
package namespaceoverlap
