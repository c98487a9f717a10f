// Package nodeagent has agents move the data of volumes of pods that run on a kubelet of their own.
// The fixture is in server/test/site.
package nodeagent
