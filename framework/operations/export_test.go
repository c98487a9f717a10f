package operations

// DecodeFileForTest is what a Dir makes of the content of the file that is named after id.
func DecodeFileForTest(id string, content []byte) (*Operation, error) { return decodeFile(id, content) }
