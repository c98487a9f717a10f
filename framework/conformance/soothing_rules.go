package conformance

func soothingRules() []Rule { return nil }
