package v1

// Volume is the volume to read or to write.
type Volume struct {
	// Path is absolute: that of a directory, or of a block device.
	Path string
	// Block is set if Path is a block device, whose content is moved as one file.
	Block bool
}

// Progress is how far a call is. The host shows numbers that decrease as the highest so far.
type Progress struct {
	// DoneBytes of TotalBytes are done; TotalBytes is 0 while it is not known. Neither is negative.
	DoneBytes  int64
	TotalBytes int64
	// DoneFiles of TotalFiles are done; TotalFiles is 0 while it is not known. Neither is negative.
	DoneFiles  int64
	TotalFiles int64
	// Activity is what happens now, for people: one line of at most 1024 bytes; may be empty.
	Activity string
}
