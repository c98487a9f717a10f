package operations

// DecodeFileForTest decodes content as a Dir decodes the file of the operation id.
func DecodeFileForTest(id string, content []byte) (*Operation, error) { return decodeFile(id, content) }
