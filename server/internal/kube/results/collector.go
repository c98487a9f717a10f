package results

import "sync"

// Collector collects the errors and warnings of one run. It is safe for concurrent use; the zero value is ready to use.
type Collector struct {
	mu      sync.Mutex
	results Results
}

// Error adds an error about an object in a namespace, or about a cluster-scoped object if namespace is empty.
func (c *Collector) Error(namespace, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Errors.Add(namespace, message)
}

// Warning adds a warning about an object in a namespace, or about a cluster-scoped object if namespace is empty.
func (c *Collector) Warning(namespace, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Warnings.Add(namespace, message)
}

// RunError adds an error about the run itself.
func (c *Collector) RunError(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Errors.AddVelero(message)
}

// RunWarning adds a warning about the run itself.
func (c *Collector) RunWarning(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Warnings.AddVelero(message)
}

// Merge adds all messages of other.
func (c *Collector) Merge(other Results) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Merge(other)
}

// Results returns a copy of the results so far.
func (c *Collector) Results() Results {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Results{Errors: c.results.Errors.clone(), Warnings: c.results.Warnings.clone()}
}
