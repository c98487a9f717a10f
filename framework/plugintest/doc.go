// Package plugintest runs a plugin for the tests of its author: behind the real wire, and called through the very
// interface that the author implements.
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
// Run serves registrations in the test's own process, where a debugger finds them; Start starts a binary as a host
// does. What is called is the same: items become JSON and requests of the kind's gRPC service, and panics and errors come
// back as a host gets them, an *Error with the place in the plugin's source. The lines that the plugin logs are kept, and
// printed when the test fails.
//
// What a host refuses of an answer (another object than the one asked about, say) passes here; `cleat plugin test` is
// for that. The package is for tests only and imports all kinds. Start reading at plugin.go; each kind and version has
// a file of its own.
package plugintest
