package process

// Usage holds the resources of a process.
type Usage struct {
	Memory   int64 // bytes
	Files    int64 // open files
	Children int64 // child processes
}
