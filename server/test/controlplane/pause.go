package controlplane

import "time"

// Pause returns how long a test that has waited since began sleeps before it asks again: a fifth of the time that has
// passed, within 50 and 250 ms. What many tests ask at once is work of the API server that they wait for.
func Pause(began time.Time) time.Duration {
	const shortest, longest = 50 * time.Millisecond, 250 * time.Millisecond
	return min(max(shortest, time.Since(began)/5), longest)
}
