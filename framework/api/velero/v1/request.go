package v1

// RequestAnnotation of a Backup or Restore identifies the form of the console that has created it. A form that is sent
// twice creates one.
const RequestAnnotation = "cleat.dev/request"
