package conformance

func manifestRules() []Rule { return nil }
