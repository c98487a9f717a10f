//go:build !linux

package process

func onOwnThread(f func()) { go f() }

func (e *Enclosure) enter(*Binary, string) error { return ErrEnclosure }

func socketIn(string, string) (string, func(), error) { return "", nil, ErrEnclosure }

// Attach is not possible here.
func (e *Enclosure) Attach(Mount) error { return ErrEnclosure }

// Detach is not possible here.
func (e *Enclosure) Detach(string) error { return ErrEnclosure }
