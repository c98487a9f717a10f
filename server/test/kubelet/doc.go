// Package kubelet lets tests run commands in pods. It registers a Node whose kubelet serves exec requests, which
// arrive through the proxy of the real API server, over WebSocket or SPDY. A command in a container is a process of
// this machine, in a directory of its pod. Nothing else of a pod runs, although Run reports its containers as running.
//
// Start with Start.
package kubelet
