package dryrun

// FileName is the name of the file of a dry run, after the name of the backup or restore and a dash.
const FileName = "dry-run.json.gz"

// Collection lists the contents of a backup, and the objects that it would leave out. Its file is JSON, compressed with
// gzip.
type Collection struct {
	Items     int        `json:"items"`
	Resources []Resource `json:"resources"` // sorted, without resources that have no objects
	// NotCalled are the actions that were not called because they may have side effects, each with the number of items
	// that it applies to. What they would request is missing.
	NotCalled map[string]int `json:"notCalled,omitempty"`
}

// Resource describes how a backup would treat the objects of one resource.
type Resource struct {
	Resource string    `json:"resource"` // as in "deployments.apps"
	Items    int       `json:"items"`    // that would be in the backup
	LeftOut  []LeftOut `json:"leftOut,omitempty"`
}

// LeftOut are the objects that would not be in the backup for one reason.
type LeftOut struct {
	Reason string `json:"reason"`
	Items  int    `json:"items"`
}
