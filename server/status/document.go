package status

// apiVersion is that of the documents that "-o json" and "-o yaml" print about plugins.
const APIVersion = "cleat.dev/v1"
