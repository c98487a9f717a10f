package object

import "testing"

// FuzzOwnership reads any managed fields.
func FuzzOwnership(f *testing.F) {
	f.Add([]byte(`[{"manager":"a","operation":"Update","fieldsV1":{"f:spec":{"f:a":{}}}}]`), []byte(`{"f:status":{}}`))
	f.Add([]byte(`[null]`), []byte(`null`))
	f.Add([]byte(`null`), []byte(`[null]`))
	f.Fuzz(func(_ *testing.T, managed, fields []byte) {
		plan := PlanOwnership(managed, "cleat")
		_ = plan.StatusWriter()
		_ = plan.Matches(managed)
		_ = onlyStatus(fields)
	})
}
