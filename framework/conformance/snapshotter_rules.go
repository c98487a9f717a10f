package conformance

func snapshotterRules() []Rule { return nil }
