// Package rehearsals rehearses backups with a server, on a node with a real kubelet where workloads have to run. The
// fixture is in server/test/site.
package rehearsals
