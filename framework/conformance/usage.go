package conformance

// usage holds the resources of a process.
type usage struct {
	memory   int64 // bytes
	files    int64 // open files
	children int64 // child processes
}
