package conformance

func storeRules() []Rule { return nil }
