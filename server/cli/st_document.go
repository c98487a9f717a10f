package cli

// apiVersion is that of the documents that "-o json" and "-o yaml" print about plugins.
const apiVersion = "cleat.dev/v1"
