package outcome

// Limits of a plan that is kept or shown as a whole.
const (
	MaxCycles  = 20
	MaxMissing = 50
	MaxNeeds   = 100
)

// Plan is the order in which a restore begins its items: in waves, and each after what it needs. Waves are no barriers:
// an item of a later wave begins when nothing that is before it can begin or is at work.
type Plan struct {
	Waves []Wave `json:"waves"`
	// Needs says which resources wait for which.
	Needs []Pair `json:"needs,omitempty"`
	// Cycles are items that need each other.
	Cycles     []Cycle `json:"cycles,omitempty"`
	MoreCycles int     `json:"moreCycles,omitempty"`
	// Missing is what items need and the restore does not restore.
	Missing     []Missing `json:"missing,omitempty"`
	MoreMissing int       `json:"moreMissing,omitempty"`
}

// Wave is the content of a wave.
type Wave struct {
	Resources []Count `json:"resources"` // in the order in which they begin
	Done      int     `json:"done"`      // items that have ended, while the restore is at work
}

// Items returns the number of items of a wave.
func (w Wave) Items() int {
	n := 0
	for _, c := range w.Resources {
		n += c.Items
	}
	return n
}

// Count is a number of items of a resource.
type Count struct {
	Resource string `json:"resource"`
	Items    int    `json:"items"`
}

// Pair is a number of items of a resource that need items of another one.
type Pair struct {
	Resource string `json:"resource"`
	Needs    string `json:"needs"`
	Items    int    `json:"items"`
	Strict   bool   `json:"strict,omitempty"`
}

// Cycle is a number of items that need each other. Some of their needs are disregarded.
type Cycle struct {
	Items  int      `json:"items"`
	Broken []Broken `json:"broken"` // the first few
}

// Broken is an item that is restored before another one, although it needs that.
type Broken struct {
	Item   Ref `json:"item"`
	Before Ref `json:"before"`
}

// Missing is an object that items need and the restore does not restore.
type Missing struct {
	Ref
	// LeftOut is set if it is in the backup, and the restore leaves it out.
	LeftOut bool `json:"leftOut,omitempty"`
	Strict  bool `json:"strict,omitempty"`
	Items   int  `json:"items"`    // that need it
	Needer  Ref  `json:"neededBy"` // the first of them
}
