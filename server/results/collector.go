package results

import "sync"

// Collector gathers the results of one operation. It is safe for concurrent use; the zero value is
// ready.
type Collector struct {
	mu      sync.Mutex
	results Results
}

// Error adds an error about an object of a namespace, or of the cluster when namespace is empty.
func (c *Collector) Error(namespace, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Errors.Add(namespace, message)
}

// Warning adds a warning about an object of a namespace, or of the cluster when namespace is empty.
func (c *Collector) Warning(namespace, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Warnings.Add(namespace, message)
}

// OperationError adds an error about the operation itself.
func (c *Collector) OperationError(message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results.Errors.AddVelero(message)
}

// OperationWarning adds a warning about the operation itself.
func (c *Collector) OperationWarning(message string) {
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

// Results is a copy of what was gathered so far.
func (c *Collector) Results() Results {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Results{Errors: c.results.Errors.clone(), Warnings: c.results.Warnings.clone()}
}
