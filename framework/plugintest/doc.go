// Package plugintest runs a plugin in the tests of its author: over the real protocol, and called through the interface
// that the author implements.
//
//	func TestStampWritesTheBackupsName(t *testing.T) {
//		plugin := plugintest.Run(t, biav2.Register("example.io/stamp", newStamp))
//		output, err := plugin.BackupItemActionV2("example.io/stamp").Execute(t.Context(), &biav2.ExecuteInput{
//			Item:   plugintest.Object(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: tls}}`),
//			Backup: plugintest.Backup("nightly"),
//		})
//		require.NoError(t, err)
//		require.Equal(t, "nightly", output.UpdatedItem.GetAnnotations()["example.io/stamp"])
//	}
//
// Run serves registrations in the test's own process, where a debugger can be used; Start starts a binary as a host
// does. Calls are the same in both: items are sent as JSON in requests of the kind's gRPC service, and panics and
// errors are returned as a host receives them, as an *Error with the position in the plugin's source. The lines that
// the plugin logs are kept, and printed if the test fails.
//
// The package accepts answers that a host would reject (an object other than the requested one, for example); `cleat
// plugin test` checks these. The package is for tests only and imports all kinds. Start reading at plugin.go; each kind
// and version has a file of its own.
package plugintest
