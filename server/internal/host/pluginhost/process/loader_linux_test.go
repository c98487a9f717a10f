package process

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// linked returns a program, of which nothing but the name of its loader matters.
func linked(t testing.TB, loader string) []byte {
	t.Helper()
	var out bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	header.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	size := uint64(len(loader) + 1)
	part := elf.Prog64{Type: uint32(elf.PT_INTERP), Off: 64 + 56, Filesz: size, Memsz: size}
	for _, what := range []any{header, part, append([]byte(loader), 0)} {
		require.NoError(t, binary.Write(&out, binary.LittleEndian, what))
	}
	return out.Bytes()
}

// TestMissingLoadersAreNamed gives what the kernel says of a program whose loader or interpreter is missing: that the
// file is.
func TestMissingLoadersAreNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"a loader":         {linked(t, "/lib64/ld-none.so"), "its loader /lib64/ld-none.so is not here; build it with CGO_ENABLED=0"},
		"an interpreter":   {[]byte("#!/usr/bin/no-such-thing -e\n"), "its interpreter /usr/bin/no-such-thing is not here"},
		"what is there":    {linked(t, "/"), ""},
		"half a program":   {linked(t, "/lib")[:100], ""},
		"nothing at all":   {nil, ""},
		"no first line":    {[]byte("#!"), ""},
		"a shell, that is": {[]byte("#!/bin/sh\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "plugin")
			require.NoError(t, os.WriteFile(path, test.content, 0o600))
			b, err := OpenBinary(path)
			require.NoError(t, err)
			defer func() { require.NoError(t, b.Close()) }()
			err = b.runError(&os.PathError{Op: "fork/exec", Path: "/link", Err: os.ErrNotExist})
			require.ErrorIs(t, err, os.ErrNotExist)
			require.ErrorContains(t, err, path)
			if test.want == "" {
				require.Equal(t, "fork/exec "+path+": file does not exist", err.Error())
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

// FuzzLoaderOf reads files that are no programs, and parts of programs.
func FuzzLoaderOf(f *testing.F) {
	program := linked(f, "/lib64/ld-linux-x86-64.so.2")
	for _, seed := range [][]byte{program, program[:100], []byte("#!/bin/sh\n"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		require.LessOrEqual(t, len(loaderOf(bytes.NewReader(content))), 4096)
	})
}
