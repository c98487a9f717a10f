package status

// APIVersion is the version of the documents that commands print as JSON or YAML.
const APIVersion = "cleat.dev/v1"
