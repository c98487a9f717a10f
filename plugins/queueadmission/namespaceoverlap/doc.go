// Package namespaceoverlap is the admission policy cleat.dev/namespace-overlap: first come, first served, but two backups
// that take the same namespace never run at the same time. It is the server's default.
//
// A backup starts when there is a free place and it has no namespace in common with one that runs, is ready, or stands
// ahead of it in the queue. Namespaces count by name, whether they exist or not, and whatever the backup's resource
// and label filters let through. A backup of all namespaces overlaps every other one, but for those of which it excludes
// all namespaces.
//
// It takes no config. Start reading at policy.go.
package namespaceoverlap
