package reply

// Config returns the configuration of a policy in the form of a request: an empty object when there is none.
func Config(config []byte) []byte {
	if len(config) == 0 {
		return []byte("{}")
	}
	return config
}
