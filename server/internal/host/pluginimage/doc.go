// Package pluginimage takes the plugin files out of container images without a container runtime, for servers that do
// not run in a cluster: from a registry, an OCI layout or a tarball.
//
// Resolve finds the image and its digest, verify.go checks signatures of that digest, Image.Extract writes the files
// that an init container of a cluster would copy, and store.go moves them into a plugin directory and records to which
// image they belong. It imports nothing of the running server. Start reading at resolve.go.
package pluginimage
